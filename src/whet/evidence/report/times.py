"""The table of times and the strips of every repeat. Green variants only: nothing red has a time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from whet import units
from whet.evidence.record import CONTROL, Run, Sample
from whet.evidence.remarks import at_floor, clock_of, error_share, percentile, tails_of
from whet.evidence.report import draw, scale
from whet.evidence.statistics import call_times
from whet.evidence.throughput import columns

SMALLEST_REACH = 0.01
LARGEST_REACH = 1.0  # a time cannot be more than itself below its median


@dataclass(frozen=True)
class Times:
    """Per call, of one green variant."""

    variant: str
    summary: str
    median: str
    spread: str
    mean: str
    p90: str
    p99: str
    cpu: str
    device: str
    error: str
    remark: str
    beside: dict[str, str]


@dataclass(frozen=True)
class Strip:
    name: str
    median: str
    control: bool
    picture: Markup


@dataclass(frozen=True)
class Strips:
    """`reach` is the distance from the median at which the scale that they share ends."""

    reach: str
    rows: list[Strip]


def times_table(run: Run) -> list[Times]:
    """In the order of the run."""
    return [row for name in _timed(run) if (row := _row(run, name)) is not None]


def _row(run: Run, name: str) -> Times | None:
    tails, samples = tails_of(run, name), [s for s in run.samples if s.variant == name]
    if tails is None or not samples:
        return None
    device = [s.device_ns / max(s.calls, 1) for s in samples if s.device_ns is not None]
    return Times(
        variant=name,
        summary=run.summaries.get(name, ""),
        median=units.duration(tails.median),
        spread=units.percent(tails.spread),
        mean=units.duration(tails.mean),
        p90=percentile(run, name, "p90"),
        p99=percentile(run, name, "p99"),
        cpu=units.duration(statistics.median(s.cpu_ns / max(s.calls, 1) for s in samples)),
        device=units.duration(statistics.median(device)) if device else "",
        error=error_share(run, name),
        remark=at_floor(run, name),
        beside=columns(run).get(name, {}),
    )


def strips(run: Run) -> Strips:
    """Every repeat where it ran, on one shared scale of distance from the own median; the control arm last."""
    placed = [(number / max(len(run.samples) - 1, 1), sample) for number, sample in enumerate(run.samples)]
    arms = [*_timed(run), CONTROL]
    mine = {arm: some for arm in arms if (some := [(p, s) for p, s in placed if s.variant == arm])}
    values = {arm: _values([s for _, s in some], run) for arm, some in mine.items()}
    medians = {arm: statistics.median(all_ns) for arm, all_ns in values.items()}
    distances = [abs(value / medians[arm] - 1) for arm, all_ns in values.items() for value in all_ns]
    reach = min(max(scale.quantile(distances, 0.95) * 1.3 if distances else 0.0, SMALLEST_REACH), LARGEST_REACH)
    rows = []
    for arm, all_ns in values.items():
        name = f"{run.baseline}, once more" if arm == CONTROL else arm
        picture = draw.sample_strip(name, all_ns, reach, [place for place, _ in mine[arm]])
        rows.append(Strip(name, units.duration(medians[arm]), arm == CONTROL, picture))
    return Strips(f"{100 * reach:.3g} %", rows)


def _values(samples: Sequence[Sample], run: Run) -> list[float]:
    return [float(value) for value in call_times(samples, clock_of(run))]


def _timed(run: Run) -> list[str]:
    green = {gate.variant for gate in run.gates if gate.green}
    return [name for name in run.variants if name in green]
