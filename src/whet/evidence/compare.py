"""Two runs of the same engine and case, variant by variant.

Within a run the variants took turns, so whatever disturbed one disturbed the others; between two runs nothing of the
kind holds. The interval here has the spread between runs of the same code in it: measured, where such runs are stored,
and otherwise assumed and stated. Most small changes stay UNDECIDED, because one interleaved trial tells them and two
runs do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from whet.errors import BadInput
from whet.evidence import statistics
from whet.evidence.environment import Difference, differences
from whet.evidence.record import Outcome, Run, Warning
from whet.evidence.statistics import BETWEEN_DISTURBED_RUNS, CONFIDENCE, LEAST_BLOCKS, RunSpread
from whet.evidence.warnings import different_environment

INTERLEAVE = "to compare revisions, let both take turns in one trial: whet ab TASK OLD NEW.py:NAME"
NOT_INTERLEAVED = (
    "the two runs were not interleaved: a ratio between them holds drift of the machine as well; " + INTERLEAVE
)
LEAST_ROUNDS = 5


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One variant, after against before. `ratio` below 1: it got faster.

    `spread` is the standard deviation between runs of the same code that the interval has in it, from so many
    `repeats`; 0 repeats: it is assumed.
    """

    variant: str
    outcome: Outcome
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    before_ns: float | None = None
    after_ns: float | None = None
    reason: str = ""
    spread: float | None = None
    repeats: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `whet compare` shows. Differences first: they may be the whole story."""

    before: str
    after: str
    engine: str
    case: str
    effect: float
    confidence: float
    environment: list[Difference]
    changes: list[Change]
    only_before: list[str]
    only_after: list[str]
    warnings: list[Warning]
    note: str = NOT_INTERLEAVED


def compare(before: Run, after: Run, *, effect: float, history: Sequence[Run] = ()) -> Comparison:
    """BadInput unless both runs are about the same engine and case. `history`: other runs, which tell their spread."""
    for what, one, other in (
        ("engine", before.engine, after.engine),
        ("case", str(before.case), str(after.case)),
    ):
        if one != other:
            cause = f"the runs have different {what}s: {one} and {other}"
            raise BadInput(cause, cure="compare runs of the same engine and case; whet runs lists them")
    common = [name for name in before.variants if name in after.variants]
    different = differences(_surroundings(before), _surroundings(after))
    return Comparison(
        before=before.id,
        after=after.id,
        engine=before.engine,
        case=str(before.case),
        effect=effect,
        confidence=CONFIDENCE,
        environment=different,
        changes=[
            _change(name, before, after, _spread(name, before, after, history), effect=effect, comparisons=len(common))
            for name in common
        ],
        only_before=[name for name in before.variants if name not in common],
        only_after=[name for name in after.variants if name not in common],
        warnings=different_environment([difference.field for difference in different]),
    )


def _surroundings(run: Run) -> dict[str, object]:
    """The environment, and what else must be equal for times to be comparable."""
    return {**run.environment, "device": run.device, "engine code": run.engine_sha256[:16], "clock": _clock(run)}


def _clock(run: Run) -> str:
    return run.verdicts[0].clock if run.verdicts else "wall"


def _change(name: str, before: Run, after: Run, spread: RunSpread, *, effect: float, comparisons: int) -> Change:
    red = [run.id for run in (before, after) for gate in run.gates if gate.variant == name and not gate.green]
    if red:
        return Change(variant=name, outcome=Outcome.REFUSED, reason=f"the gate is red in {' and '.join(red)}")
    clock = "device" if _clock(before) == _clock(after) == "device" else "wall"
    old, new = (statistics.times([s for s in run.samples if s.variant == name], clock) for run in (before, after))
    values = statistics.run_value(old), statistics.run_value(new)
    if values[0] is None or values[1] is None or min(len(old.ns), len(new.ns)) < LEAST_ROUNDS:
        reason = f"{len(old.ns)} and {len(new.ns)} repeats are too few for an interval"
        return Change(variant=name, outcome=Outcome.UNDECIDED, reason=reason)
    found = statistics.between_runs(values[0], values[1], spread, comparisons=comparisons)
    floor = max(_control_distance(run, effect) for run in (before, after))
    said = statistics.outcome(found, effect, floor)
    return Change(
        variant=name,
        outcome=said,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        before_ns=math.exp(values[0].log_ns),
        after_ns=math.exp(values[1].log_ns),
        reason=_why(said, spread, floor if floor > effect else 0.0),
        spread=spread.sd,
        repeats=spread.degrees,
    )


def _spread(name: str, before: Run, after: Run, history: Sequence[Run]) -> RunSpread:
    """What runs of the same code on the same machine differ by, as far as `history` repeats them."""
    groups: dict[str, list[float]] = {}
    for run in {run.id: run for run in history}.values():
        if run.id in (before.id, after.id) or not _alike(run, after) or not _has_blocks(run):
            continue
        if any(gate.variant == name and gate.green for gate in run.gates):
            own = statistics.times([s for s in run.samples if s.variant == name], _clock(run))
            if (value := statistics.run_value(own)) is not None:
                groups.setdefault(run.engine_sha256, []).append(value.log_ns)
    if not (_has_blocks(before) and _has_blocks(after)):
        return RunSpread(BETWEEN_DISTURBED_RUNS)
    measured = statistics.run_spread(list(groups.values()))
    # What other programs did to these two runs they did not do to those that were repeated.
    disturbed = any(_crowded(run) for run in (before, after)) and measured.sd < BETWEEN_DISTURBED_RUNS
    return RunSpread(BETWEEN_DISTURBED_RUNS) if disturbed else measured


def _crowded(run: Run) -> bool:
    """Whether more wanted to run than there were cores; one run after the other does not make it so by itself."""
    load, cores = (run.environment.get(part) or {} for part in ("load", "cpu"))
    return float(load.get("1min") or 0) > float(cores.get("usable_cores") or math.inf)


def _alike(one: Run, other: Run) -> bool:
    def what(run: Run) -> tuple[object, ...]:
        model = (run.environment.get("cpu") or {}).get("model")
        return run.engine, str(run.case), run.device, _clock(run), model

    return what(one) == what(other)


def _has_blocks(run: Run) -> bool:
    return run.design is not None and len(run.design.blocks) >= LEAST_BLOCKS


def _control_distance(run: Run, effect: float) -> float:
    control = run.control
    if control is None:
        return 0.0
    found = statistics.Interval(control.ratio, control.low, control.high, LEAST_BLOCKS, LEAST_BLOCKS)
    return statistics.control_floor(found, effect)


def _why(said: Outcome, spread: RunSpread, floor: float) -> str:
    source = f"{spread.degrees} repeats" if spread.degrees else "assumed: too few repeated runs of this code are stored"
    words = f"runs of the same code differ by {spread.sd:.1%} ({source})"
    if floor:
        words += f"; a baseline differs from itself by {floor:.1%} inside its run"
    return f"{words}; {INTERLEAVE}" if said is Outcome.UNDECIDED else words
