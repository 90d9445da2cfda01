"""What recording costs, and proof that it changes nothing: the same work with timing off and on, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import msgspec
import numpy as np

from whet.errors import BadInput, OracleMismatch
from whet.regions.recorder import recording

LEAST_ROUNDS = 5


class Tax(msgspec.Struct, frozen=True, kw_only=True):
    """`tax` is the median of on/off - 1 over rounds; `spread` is how far off-runs differ among themselves."""

    rounds: int
    tax: float
    spread: float
    off_ns: float
    on_ns: float
    outputs_compared: int

    @property
    def within_spread(self) -> bool:
        return abs(self.tax) <= self.spread


def fingerprint(value: Any) -> bytes:
    """Bytes that differ wherever a bit of the output does: NaN payloads, signs of zero, shapes and types included."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, Mapping):
        return b"{" + b",".join(str(k).encode() + b":" + fingerprint(value[k]) for k in value) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(fingerprint(item) for item in value) + b"]"
    if isinstance(value, float):
        return b"f" + np.float64(value).tobytes()
    if value is None or isinstance(value, bool | int | str | bytes):
        return f"{type(value).__name__}:{value!r}".encode()
    raise BadInput(
        f"output of type {type(value).__name__} cannot be compared to the bit", cure="return arrays or numbers"
    )


def measure_tax(
    off: Callable[[], Any],
    on: Callable[[], Any],
    *,
    rounds: int = 15,
    clock: Callable[[], int] = time.process_time_ns,
) -> Tax:
    """Runs both states in every round, in alternating order, and compares every output to the bit.

    The spread is taken from off-runs against off-runs: each round times `off` twice.
    """
    if rounds < LEAST_ROUNDS:
        raise BadInput(f"{rounds} rounds show no spread", cure=f"take at least {LEAST_ROUNDS}")
    wanted = fingerprint(off())
    ratios, self_ratios, off_times, on_times = [], [], [], []
    for index in range(rounds):
        order = [("off", off), ("on", on), ("again", off)]
        if index % 2:
            order.reverse()
        taken: dict[str, int] = {}
        for state, work in order:
            start = clock()
            output = work()
            taken[state] = max(1, clock() - start)
            if fingerprint(output) != wanted:
                raise OracleMismatch(
                    f"the output with timing {'on' if state == 'on' else 'off'} differs in round {index}",
                    cure="make the work deterministic, then look at what timing and work share",
                )
        off_time = (taken["off"] + taken["again"]) / 2
        ratios.append(taken["on"] / off_time - 1)
        self_ratios.append(abs(taken["off"] / taken["again"] - 1))
        off_times.append(off_time)
        on_times.append(taken["on"])
    return Tax(
        rounds=rounds,
        tax=median(ratios),
        spread=median(self_ratios),
        off_ns=median(off_times),
        on_ns=median(on_times),
        outputs_compared=3 * rounds,
    )


def recorder_tax(work: Callable[[], Any], *, rounds: int = 15, clock: Callable[[], int] = time.process_time_ns) -> Tax:
    """The tax of the Python recorder on `work`, which uses `regions.record` inside."""

    def recorded() -> Any:
        with recording("tax"):
            return work()

    return measure_tax(work, recorded, rounds=rounds, clock=clock)
