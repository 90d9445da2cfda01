"""How fine a clock ticks, and how many calls one turn needs so that the tick does not matter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

QUANTUM_SHARE = 0.01
# Long enough that thawing and freezing a process, about 0.1 ms, and one interrupt are small beside the turn.
TARGET_NS = 3_000_000
# What the slowest variant's turn may take so that the fastest one's is long enough.
SLOWEST_TURN_NS = 100_000_000
LONGEST_TURN_NS = 2_000_000_000
# What making inputs may cost per round merely to reach the target.
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
class Batch:
    """Calls per turn, the same for all variants; `coarse` are those that stay below a hundred ticks all the same."""

    calls: int
    coarse: tuple[str, ...] = ()


def batch(call_ns: Mapping[str, float], tick_ns: int, slot_cost_ns: float, room: int) -> Batch:
    """One number for all: the first call of a turn is the coldest, so more calls per turn would look faster.

    The fastest variant's turn should reach the target. Each call has inputs of its own, so memory (`room` slots) and
    their cost bound the batch, and so does the slowest variant's turn.
    """
    if not call_ns:
        return Batch(1, ())
    fastest, slowest = (max(1.0, pick(call_ns.values())) for pick in (min, max))
    needed = math.ceil(tick_ns / QUANTUM_SHARE / fastest)
    wanted = max(needed, math.ceil(TARGET_NS / fastest))
    affordable = max(needed, int(ROUND_COST_NS / max(slot_cost_ns, 1.0)))
    # For the tick alone the slowest may take longer: without it there would be no verdict.
    patience = max(int(SLOWEST_TURN_NS / slowest), min(needed, int(LONGEST_TURN_NS / slowest)))
    calls = max(1, min(wanted, affordable, patience, room, MAX_CALLS))
    coarse = tuple(name for name, one_ns in call_ns.items() if calls * one_ns < tick_ns / QUANTUM_SHARE)
    return Batch(calls, coarse)
