"""Several runs of one engine at once: each variant against the same baseline, case by case, on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from whet.evidence.record import Outcome, Run, Verdict
from whet.evidence.report import draw
from whet.evidence.report.scale import Scale, ratio_scale


@dataclass(frozen=True)
class Row:
    where: str
    run_id: str
    verdict: Verdict
    picture: Markup


@dataclass(frozen=True)
class Across:
    """`variants` holds, for each candidate, one row per run that has it, in the order of the report."""

    engine: str
    baseline: str
    variants: dict[str, list[Row]]
    axis: Markup


def across(runs: Sequence[Run]) -> list[Across]:
    """One picture for each engine and baseline that at least two runs share; none where there is nothing to line up."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.engine, run.baseline), []).append(run)
    pictures = (_picture(engine, baseline, some) for (engine, baseline), some in groups.items() if len(some) > 1)
    return [picture for picture in pictures if picture.variants]


def _picture(engine: str, baseline: str, runs: Sequence[Run]) -> Across:
    pairs = [(run, verdict) for run in runs for verdict in run.verdicts if verdict.candidate != baseline]
    timed = [v for _, v in pairs if v.outcome is not Outcome.REFUSED]
    axis = ratio_scale(x for v in timed for x in (v.ratio, v.low, v.high) if x is not None)
    devices = {run.place for run in runs}
    rows: dict[str, list[Row]] = {}
    for run, verdict in pairs:
        where = f"{run.case} {run.place}" if len(devices) > 1 else str(run.case)
        rows.setdefault(verdict.candidate, []).append(_row(where, run, verdict, axis))
    shared = {name: some for name, some in rows.items() if len(some) > 1}
    return Across(engine, baseline, shared, draw.ratio_axis(axis))


def _row(where: str, run: Run, verdict: Verdict, axis: Scale) -> Row:
    return Row(where, run.id, verdict, draw.interval_row(verdict, axis))
