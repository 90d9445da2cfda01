"""Two runs of the same engine and case, variant by variant.

Within a run the variants took turns, so whatever disturbed one disturbed the others; between two runs nothing of the
kind holds. The interval here covers the spread inside each run and nothing else, so the differences between the two
environments come first.
"""

from __future__ import annotations

import zlib

import msgspec
import numpy as np

from whet.errors import BadInput
from whet.evidence.environment import Difference, differences
from whet.evidence.record import Outcome, Run, Warning
from whet.evidence.trial import call_times
from whet.evidence.verdict import CONFIDENCE, FEW_ROUNDS, LEAST_ROUNDS, RESAMPLES, Interval, outcome
from whet.evidence.warnings import different_environment
from whet.protocol import Array

NOT_INTERLEAVED = (
    "the two runs were not interleaved: a ratio between them holds drift of the machine as well; "
    "only `whet ab` separates the two"
)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One variant, after against before. `ratio` below 1: it got faster."""

    variant: str
    outcome: Outcome
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    before_ns: float | None = None
    after_ns: float | None = None
    reason: str = ""


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


def compare(before: Run, after: Run, *, effect: float) -> Comparison:
    """BadInput unless both runs are about the same engine and case."""
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
        changes=[_change(name, before, after, effect) for name in common],
        only_before=[name for name in before.variants if name not in common],
        only_after=[name for name in after.variants if name not in common],
        warnings=different_environment([difference.field for difference in different]),
    )


def _surroundings(run: Run) -> dict[str, object]:
    """The environment, and what else must be equal for times to be comparable."""
    return {**run.environment, "device": run.device, "engine code": run.engine_sha256[:16], "clock": _clock(run)}


def _clock(run: Run) -> str:
    return run.verdicts[0].clock if run.verdicts else "wall"


def _change(name: str, before: Run, after: Run, effect: float) -> Change:
    red = [run.id for run in (before, after) for gate in run.gates if gate.variant == name and not gate.green]
    if red:
        return Change(variant=name, outcome=Outcome.REFUSED, reason=f"the gate is red in {' and '.join(red)}")
    clock = "device" if _clock(before) == _clock(after) == "device" else "wall"
    old, new = (call_times([s for s in run.samples if s.variant == name], clock) for run in (before, after))
    if min(len(old), len(new)) < LEAST_ROUNDS:
        reason = f"{len(old)} and {len(new)} repeats are too few for an interval"
        return Change(variant=name, outcome=Outcome.UNDECIDED, reason=reason)
    found = _interval(new, old, seed=zlib.crc32(f"{before.id} {after.id} {name}".encode()))
    before_ns, after_ns = float(np.median(old)), float(np.median(new))
    return Change(
        variant=name,
        outcome=outcome(found, effect),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        before_ns=before_ns,
        after_ns=after_ns,
    )


def _interval(new: Array, old: Array, seed: int) -> Interval:
    """Bootstrap of the ratio of medians; each run is resampled on its own, since no repeat belongs to another."""
    ratio, repeats = float(np.median(new) / np.median(old)), min(len(new), len(old))
    if repeats < FEW_ROUNDS:
        return Interval(ratio, float(new.min() / old.max()), float(new.max() / old.min()), repeats)
    rng = np.random.default_rng(seed)
    medians = [np.median(rng.choice(side, (RESAMPLES, len(side))), axis=1) for side in (new, old)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians[0] / medians[1], [tail, 1 - tail])
    return Interval(ratio, float(low), float(high), repeats)
