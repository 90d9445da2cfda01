"""The same trial on several devices, in one picture: device by variant by size, each against the baseline there.

A cell has the verdict's colour, the ratio, the time, and a bar that leaves the middle to the left where the variant is
faster and to the right where it is slower; all bars of a picture share one logarithmic scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whet.evidence.record import Outcome, Run
from whet.evidence.remarks import tails_of
from whet.evidence.report.scale import size_label
from whet.units import duration, interval, ratio

# A bar of full length is no less than this, so that noise does not fill a cell.
LEAST_SPAN = math.log(1.25)


@dataclass(frozen=True)
class Cell:
    """`left` and `width` are the bar's, in per cent of the cell. A refused variant has no time and no bar."""

    outcome: str
    text: str
    time: str
    title: str
    left: float = 50.0
    width: float = 0.0
    best: bool = False


@dataclass(frozen=True)
class Line:
    variant: str
    cells: list[Cell | None]


@dataclass(frozen=True)
class Place:
    device: str
    about: str
    lines: list[Line]


@dataclass(frozen=True)
class Matrix:
    """`sizes` are the columns, as the sweep went through them."""

    engine: str
    profile: str
    sizes: list[str]
    places: list[Place]


def matrices(runs: Sequence[Run]) -> list[Matrix]:
    """One picture for each engine and profile that at least two devices share; the latest run of a point counts."""
    groups: dict[tuple[str, str], dict[str, dict[str, Run]]] = {}
    for run in sorted(runs, key=lambda run: run.created):
        devices = groups.setdefault((run.engine, run.case.profile), {})
        devices.setdefault(run.place, {})[_size(run)] = run
    return [
        _matrix(engine, profile, devices) for (engine, profile), devices in sorted(groups.items()) if len(devices) > 1
    ]


def _matrix(engine: str, profile: str, devices: dict[str, dict[str, Run]]) -> Matrix:
    found = {size: run for points in devices.values() for size, run in points.items()}
    sizes = sorted(found, key=lambda size: tuple(found[size].case.sizes.values()))
    ratios = [
        abs(math.log(verdict.ratio))
        for points in devices.values()
        for run in points.values()
        for verdict in run.verdicts
        if verdict.ratio and verdict.ratio > 0 and verdict.outcome is not Outcome.REFUSED
    ]
    span = max([LEAST_SPAN, *ratios])
    places = []
    for device, points in sorted(devices.items()):
        names = list(dict.fromkeys(name for run in points.values() for name in run.variants))
        lines = [Line(name, [_cell(points.get(size), name, span) for size in sizes]) for name in names]
        adapter = next(iter(points.values())).environment.get("adapter") or {}
        places.append(Place(device, str(adapter.get("name", "")), lines))
    return Matrix(engine, profile, sizes, places)


def _cell(run: Run | None, name: str, span: float) -> Cell | None:
    if run is None or name not in run.variants:
        return None
    gate = next((one for one in run.gates if one.variant == name), None)
    where = f"{name} on {run.place} at {run.case}"
    if gate is None or not gate.green:
        return Cell("refused", "refused", "", f"{where}: refused by the gate, so it has no time")
    tails = tails_of(run, name)
    time = duration(tails.median) if tails else ""
    best = name == _best(run)
    verdict = next((one for one in run.verdicts if one.candidate == name), None)
    if verdict is None or verdict.ratio is None or verdict.ratio <= 0:
        said = "baseline" if name == run.baseline else "no verdict"
        return Cell("same" if said == "baseline" else "undecided", said, time, f"{where}: {said}, {time}", best=best)
    length = 50 * min(1.0, abs(math.log(verdict.ratio)) / span)
    title = f"{where}: {verdict.outcome.value}, {ratio(verdict.ratio)} of the time of {verdict.baseline}"
    if verdict.low is not None and verdict.high is not None:
        title += f" ({interval(verdict.low, verdict.high)})"
    return Cell(
        outcome=verdict.outcome.lower(),
        text=f"{ratio(verdict.ratio)}×",
        time=time,
        title=title,
        left=round(50 - length if verdict.ratio < 1 else 50.0, 1),
        width=round(length, 1),
        best=best,
    )


def _best(run: Run) -> str:
    """What to take there: the fastest that is faster beyond doubt, else the baseline."""
    faster = [v for v in run.verdicts if v.outcome is Outcome.FASTER and v.ratio is not None]
    return min(faster, key=lambda v: v.ratio or 1.0).candidate if faster else run.baseline


def _size(run: Run) -> str:
    return " ".join(f"{axis}={size_label(size)}" for axis, size in run.case.sizes.items())
