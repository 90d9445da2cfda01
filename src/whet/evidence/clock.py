"""How fine a clock ticks, and how many calls one repeat needs so that the tick does not matter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

QUANTUM_SHARE = 0.01
# Long enough that starting and stopping the clock, and one interrupt, are small beside the repeat.
TARGET_NS = 300_000
# What making inputs and asking the oracle may cost per round merely to reach the target.
ROUND_COST_NS = 60_000_000
MAX_CALLS = 512


def quantum_ns(clock: Callable[[], int] = time.monotonic_ns, ticks: int = 64, limit: int = 200_000) -> int:
    """The smallest step between two different readings. `limit` ends the search on a clock that stands still."""
    smallest, seen, last = 0, 0, clock()
    for _ in range(limit):
        now = clock()
        if now != last:
            step = abs(now - last)
            smallest = min(smallest or step, step)
            last, seen = now, seen + 1
            if seen >= ticks:
                break
    return max(1, smallest)


@dataclass(frozen=True)
class Batches:
    """Calls per repeat by variant; `coarse` are those that stay below a hundred ticks all the same."""

    calls: dict[str, int]
    coarse: tuple[str, ...]


def batches(call_ns: Mapping[str, float], tick_ns: int, slot_cost_ns: float, room: int) -> Batches:
    """Each call of a batch has inputs of its own, so memory (`room` slots) and their cost bound the batch."""
    calls, coarse = {}, []
    for name, one_ns in call_ns.items():
        needed = math.ceil(tick_ns / QUANTUM_SHARE / max(one_ns, 1.0))
        wanted = max(needed, math.ceil(TARGET_NS / max(one_ns, 1.0)))
        affordable = max(needed, int(ROUND_COST_NS / max(slot_cost_ns, 1.0)), 1)
        calls[name] = max(1, min(wanted, affordable, room, MAX_CALLS))
        if calls[name] < needed:
            coarse.append(name)
    return Batches(calls, tuple(coarse))
