"""From values to places on an axis: range and ticks. Places are percentages, so that a drawing fits any width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whet import units

MOST_TICKS = 5
WIDEST_LINEAR_RATIO = 2.5
MARGIN = 0.07


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [0, 100] %, on a linear or a logarithmic axis."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def percent(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(self.low), math.log(self.high), math.log(max(value, self.low * 1e-3))
        return round(100 * min(max((at - low) / (high - low), 0.0), 1.0), 2)


def ratio_scale(values: Iterable[float]) -> Scale:
    """An axis for ratios that always shows 1. Logarithmic once the values span more than 2.5 to 1."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = min([*known, 0.97]), max([*known, 1.03])
    if high / low <= WIDEST_LINEAR_RATIO:
        margin = (high - low) * MARGIN
        low, high = low - margin, high + margin
        return Scale(low, high, _linear_ticks(low, high))
    grow = (high / low) ** MARGIN
    low, high = low / grow, high * grow
    return Scale(low, high, _power_ticks(low, high), logarithmic=True)


def _linear_ticks(low: float, high: float) -> tuple[float, ...]:
    """Round steps counted from 1, as many as stay readable on a phone."""
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0) if (high - low) / s <= MOST_TICKS)
    first, last = math.ceil((low - 1) / step), math.floor((high - 1) / step)
    return tuple(round(1 + k * step, 6) for k in range(first, last + 1))


def _power_ticks(low: float, high: float) -> tuple[float, ...]:
    """As many round numbers per power of ten as leave room for the labels, else every other power, and so on."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 3, 5), (1, 2, 5), (1,)):
        ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        shown = tuple(tick for tick in ticks if low <= tick <= high)
        if len(shown) <= MOST_TICKS:
            return shown
    apart = 2
    while len(shown) > MOST_TICKS:
        powers = range(math.ceil(math.log10(low) / apart), math.floor(math.log10(high) / apart) + 1)
        shown = tuple(10.0 ** (power * apart) for power in powers)
        apart += 1
    return shown


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def size_label(size: int) -> str:
    """2^12 for a power of two that is long to read, else the number."""
    exponent = size.bit_length() - 1
    return f"2^{exponent}" if exponent >= 7 and size == 1 << exponent else f"{size:,}"


def duration_marks(low_ns: float, high_ns: float) -> list[tuple[float, str]]:
    """Powers of ten between the two, and 2 and 5 times them where there are few."""
    powers = range(math.floor(math.log10(low_ns)), math.ceil(math.log10(high_ns)) + 1)
    for steps in ((1, 2, 5), (1,)):
        marks = [step * 10.0**power for power in powers for step in steps]
        shown = [mark for mark in marks if low_ns <= mark <= high_ns]
        if len(shown) <= 6:
            break
    every = math.ceil(len(shown) / 6) or 1
    return [(mark, units.duration(mark)) for mark in shown[::every]]
