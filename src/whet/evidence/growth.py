"""How each variant grows over one axis of a sweep, and where one overtakes another. No statistics beyond medians."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whet.evidence.record import Run
from whet.evidence.remarks import times_of

# Two medians closer than this are not told apart, so they do not cross there either.
SAME = 0.02
MOST_LINES = 12


@dataclass(frozen=True)
class Point:
    """One variant at one size. The band is the middle half of its repeats."""

    size: int
    low_ns: float
    median_ns: float
    high_ns: float


@dataclass(frozen=True)
class Line:
    variant: str
    points: tuple[Point, ...]
    exponent: float | None


@dataclass(frozen=True)
class Growth:
    """Runs that differ in the size of `axis` alone."""

    title: str
    axis: str
    lines: list[Line]
    crossings: list[str]


def growths(runs: Sequence[Run]) -> list[Growth]:
    """One picture for each set of runs that differ in the size of a single axis."""
    groups: dict[tuple[object, ...], dict[int, Run]] = {}
    axes = sorted({axis for run in runs for axis in run.case.sizes})
    for axis in axes:
        for run in runs:
            if run.case.sizes.get(axis, 0) > 0:
                others = tuple(sorted((k, v) for k, v in run.case.sizes.items() if k != axis))
                key = (axis, run.engine, run.case.profile, run.place, others)
                groups.setdefault(key, {})[run.case.sizes[axis]] = run
    return [_growth(str(key[0]), some) for key, some in groups.items() if len(some) > 1 and _lines(some)]


def _growth(axis: str, runs: dict[int, Run]) -> Growth:
    lines = _lines(runs)
    some = next(iter(runs.values()))
    fixed = " ".join(f"{name}={size}" for name, size in some.case.sizes.items() if name != axis)
    title = ", ".join(filter(None, (some.engine, fixed, f"profile {some.case.profile}", some.where)))
    crossings = [
        f"{winner} overtakes {loser} at about {axis} = {_about(size)}"
        for one, other in itertools.combinations(lines, 2)
        for size, winner, loser in crossings_of(one, other)
    ]
    return Growth(title, axis, lines, crossings)


def _lines(runs: dict[int, Run]) -> list[Line]:
    points: dict[str, list[Point]] = {}
    for size, run in sorted(runs.items()):
        green = {gate.variant for gate in run.gates if gate.green}
        for name in run.variants:
            values = times_of(run, name)
            if name in green and len(values):
                low, median, high = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
                points.setdefault(name, []).append(Point(size, low, median, high))
    drawn = [(name, some) for name, some in points.items() if len(some) > 1][:MOST_LINES]
    return [
        Line(name, tuple(some), fitted_exponent([(point.size, point.median_ns) for point in some]))
        for name, some in drawn
    ]


def crossings_of(one: Line, other: Line) -> list[tuple[float, str, str]]:
    """(size, which is faster beyond it, which was), on straight lines between the sizes that were measured."""
    mine, theirs = ({point.size: point.median_ns for point in line.points} for line in (one, other))
    logs = [(math.log(size), math.log(mine[size] / theirs[size])) for size in sorted(mine.keys() & theirs.keys())]
    clear = [(x, y) for x, y in logs if abs(y) > SAME]
    found = []
    for (x, y), (next_x, next_y) in itertools.pairwise(clear):
        if (y > 0) != (next_y > 0):
            at = math.exp(x + (next_x - x) * y / (y - next_y))
            winner, loser = (one, other) if next_y < 0 else (other, one)
            found.append((at, winner.variant, loser.variant))
    return found


def fitted_exponent(pairs: Sequence[tuple[int, float]]) -> float | None:
    """Slope of log time over log size, by least squares; None without two different sizes."""
    logs = [(math.log(size), math.log(time)) for size, time in pairs if size > 0 and time > 0]
    mean_x = sum(x for x, _ in logs) / len(logs) if logs else 0.0
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    if spread == 0:
        return None
    return sum((x - mean_x) * y for x, y in logs) / spread


def _about(size: float) -> str:
    """Two digits: between two measured sizes nobody knows more."""
    return f"{float(f'{size:.2g}'):,.0f}"
