"""One case over time: the stored runs of an engine, oldest first, with what changed between one and the next."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whet.evidence.compare import compare
from whet.evidence.record import IMPORTED, Outcome, Run
from whet.evidence.remarks import times_of
from whet.evidence.statistics import EFFECT

MOST_LINES = 6


@dataclass(frozen=True)
class Moment:
    """One variant in one run: the middle half of its times, and the verdict against the run before, if any."""

    at: int
    low_ns: float
    median_ns: float
    high_ns: float
    outcome: str = ""


@dataclass(frozen=True)
class Stop:
    """One run on the axis of time; `changed` says what is not as it was in the run before."""

    run_id: str
    created: str
    changed: list[str]


@dataclass(frozen=True)
class History:
    title: str
    stops: list[Stop]
    lines: dict[str, list[Moment]]

    @property
    def changes(self) -> list[str]:
        """In words: each run in which something changed or a variant became faster or slower."""
        found = []
        for at, stop in enumerate(self.stops):
            here = {name: moment.outcome for name, some in self.lines.items() for moment in some if moment.at == at}
            said = [f"{name} {outcome}" for name, outcome in here.items() if outcome in ("FASTER", "SLOWER")]
            if said or stop.changed:
                when = stop.created[:16].replace("T", " ")
                found.append(f"{when} {stop.run_id}: {'; '.join([*said, *stop.changed])}")
        return found


def histories(runs: Sequence[Run]) -> list[History]:
    """One per engine, case and device with at least two runs; `runs` in any order."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.created, run.id)):
        if run.budget != IMPORTED and not run.interrupted:
            groups.setdefault((run.engine, str(run.case), run.place), []).append(run)
    return [_history(key, some) for key, some in groups.items() if len(some) > 1]


def _history(key: tuple[str, str, str], runs: list[Run]) -> History:
    comparisons = [None, *(compare(a, b, effect=EFFECT, history=runs) for a, b in itertools.pairwise(runs))]
    lines: dict[str, list[Moment]] = {}
    stops = []
    for at, (run, comparison) in enumerate(zip(runs, comparisons, strict=True)):
        before = runs[at - 1] if at else None
        stops.append(Stop(run.id, run.created, _changed(before, run, comparison.environment if comparison else [])))
        said = {change.variant: str(change.outcome) for change in comparison.changes} if comparison else {}
        green = {gate.variant for gate in run.gates if gate.green}
        for name in run.variants:
            values = times_of(run, name)
            if name in green and len(values):
                low, median, high = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
                lines.setdefault(name, []).append(Moment(at, low, median, high, said.get(name, "")))
            elif name in said:
                lines.setdefault(name, [])
    shown = sorted((name for name in lines if lines[name]), key=lambda name: -len(lines[name]))[:MOST_LINES]
    return History(", ".join(key), stops, {name: lines[name] for name in shown})


def _changed(before: Run | None, run: Run, differences: Sequence[object]) -> list[str]:
    if before is None:
        return []
    found = []
    if before.engine_sha256 != run.engine_sha256:
        found.append("the engine's code changed")
    for one in differences:
        field, was, now = (getattr(one, name) for name in ("field", "before", "after"))
        if field in ("git.commit", "cpu.model", "native.sha256", "packages.numpy", "os.kernel", "cpu.governor"):
            found.append(f"{field} {was} → {now}")
    red = [gate.variant for gate in run.gates if not gate.green]
    return [*found, *(f"{name} {Outcome.REFUSED}" for name in red)]
