"""Numbers for people: three digits that count, and the unit that fits."""

from __future__ import annotations


def duration(ns: float) -> str:
    """Three significant digits and the unit that fits: 4.02 ms."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * 0.9995:
            return f"{_three(ns / size)} {unit}"
    return f"{_three(ns)} ns"


def size(count_bytes: float) -> str:
    """Binary units: 1.50 MiB."""
    for unit, one in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count_bytes >= one:
            return f"{_three(count_bytes / one)} {unit}"
    return f"{count_bytes:.0f} B"


def ratio(value: float) -> str:
    """Three digits that count: 0.0861, 0.413, 1.02, 12.4."""
    return f"{value:#.3g}" if value < 1 else _three(value)


def tick(value: float) -> str:
    return f"{value:.4g}"


def percent(share: float) -> str:
    shown = 100 * share
    return f"{shown:.1f} %" if abs(shown) < 10 else f"{shown:.0f} %"


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
