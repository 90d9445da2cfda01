"""Clocks: what a tick of each source means, and the step in which it really moves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whet import units
from whet.errors import BadInput

# A common divisor d of n different ticks is luck with a chance of d^-(n-2); one in 2^15 is taken for a step.
BITS_OF_PROOF = 15


@dataclass(frozen=True)
class TickSource:
    """`ns_per_tick` is None where ticks cannot become time; `shared` says whether workers read the same clock."""

    name: str
    ns_per_tick: float | None
    shared: bool
    meaning: str


SOURCES = {
    source.name: source
    for source in (
        TickSource("globaltimer", 1.0, True, "device-wide nanosecond timer of a GPU"),
        TickSource("clock64", None, False, "cycle counter of one multiprocessor"),
        TickSource("monotonic", 1.0, True, "monotonic nanoseconds of the host"),
        TickSource("thread_cpu", 1.0, False, "CPU time of one thread in nanoseconds"),
        TickSource("timestamp_query", 1.0, True, "GPU pass timestamps in nanoseconds"),
    )
}


def tick_source(name: str) -> TickSource:
    if name not in SOURCES:
        raise BadInput(f"there is no tick source {name!r}", cure=f"tick sources: {', '.join(SOURCES)}")
    return SOURCES[name]


def tick_time(ticks: float | None, source: str) -> str:
    """15.0 ms, 64 ns; plain ticks where they are no time."""
    ns = tick_source(source).ns_per_tick
    if ticks is None or ns is not None:
        return units.duration(None if ticks is None or ns is None else ticks * ns)
    return f"{ticks:,.0f} ticks"


@dataclass(frozen=True)
class TickStep:
    """`step` is what the reducer uses; `detected` is None where too few different ticks were seen to tell."""

    step: int
    detected: int | None
    declared: int | None

    def __str__(self) -> str:
        if self.detected is None:
            return f"{self.step} (declared)" if self.declared else "unknown: too few different ticks"
        if self.declared is not None and self.declared != self.detected:
            return f"{self.step} (detected {self.detected}, declared {self.declared})"
        return f"{self.step} (detected)"


def detect_step(ticks: npt.NDArray[np.int64], declared: int | None = None) -> TickStep:
    """The largest step that explains every tick: the common divisor of their distances.

    A declared step finer than the detected one is overruled: a clock that moves by 32 does not resolve 1.
    """
    different = np.unique(ticks)
    detected: int | None = None
    if different.size > 1:
        common = int(np.gcd.reduce(np.diff(different)))
        if common == 1 or (different.size - 2) * math.log2(common) >= BITS_OF_PROOF:
            detected = common
    return TickStep(max(detected or 1, declared or 1), detected, declared)
