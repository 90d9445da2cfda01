"""Ticks as text for people."""

from __future__ import annotations

import math

from whet.regions.ticks import tick_source


def duration(ticks: float | None, source: str) -> str:
    """`14.96 ms`, `1.92 us`, `64 ns`; plain ticks where they are no time."""
    if ticks is None:
        return "-"
    ns = tick_source(source).ns_per_tick
    if ns is None:
        return f"{ticks:,.0f} ticks"
    length = ticks * ns
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if length >= size:
            return f"{length / size:.4g} {unit}" if length < 1000 * size else f"{length / size:,.0f} {unit}"
    return f"{length:.0f} ns"


def axis_marks(length: int, source: str) -> list[tuple[float, str]]:
    """(share of the length, label) at round numbers, four to eight of them, the zero included."""
    if length <= 0:
        return [(0.0, "0")]
    step = 10.0 ** math.floor(math.log10(length))
    step = next(step * part for part in (1, 0.5, 0.25, 0.2) if length / (step * part) >= 4 or part == 0.2)
    return [(i * step / length, duration(i * step, source) if i else "0") for i in range(int(length / step) + 1)]


def percent(share: float | None) -> str:
    """Three places at most; what is not nothing never reads as 0."""
    if share is None:
        return "-"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"
