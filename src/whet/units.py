"""Numbers for people, in terminal, page and table alike: three digits that count, and the unit that fits."""

from __future__ import annotations

NOTHING = "-"


def duration(ns: float | None) -> str:
    """4.02 ms, 12.3 µs; whole nanoseconds without decimals: 64 ns. A dash where there is none."""
    if ns is None:
        return NOTHING
    for unit, one in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= one * 0.9995:
            return f"{_three(ns / one)} {unit}"
    return f"{ns:.0f} ns" if ns == int(ns) else f"{_three(ns)} ns"


def size(count_bytes: float) -> str:
    """Binary units: 1.50 MiB."""
    for unit, one in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count_bytes >= one:
            return f"{_three(count_bytes / one)} {unit}"
    return f"{count_bytes:.0f} B"


def rate(per_second: float, unit: str) -> str:
    """12.3 GB/s, 4.56 GFLOP/s, 790 k points/s: decimal prefixes; a unit that is a word comes with its own space."""
    word = unit.startswith(" ")
    for prefix, one in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if per_second >= one * 0.9995:
            return f"{_three(per_second / one)} {prefix}{unit}"
    return f"{_three(per_second)}{unit if word else f' {unit}'}"


def ratio(value: float) -> str:
    """0.0861, 0.413, 1.02, 12.4."""
    return f"{value:#.3g}" if value < 1 else _three(value)


def interval(low: float, high: float) -> str:
    """0.405 to 0.421."""
    return f"{ratio(low)} to {ratio(high)}"


def times(factor: float) -> str:
    """How many times as fast or as slow: 2.42, 12.4, 12,900."""
    return _three(factor)


def percent(share: float | None) -> str:
    """One place; what is not nothing never reads as 0."""
    if share is None:
        return NOTHING
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"


def tick(value: float) -> str:
    """The label of a mark on an axis."""
    return f"{value:.4g}"


def count(number: int, one: str, many: str = "") -> str:
    """1 round, 25 rounds, 1,204 rounds."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
