"""The verdict in words. What the numbers are, and what they mean against the smallest effect, is in `statistics.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from whet.evidence import statistics
from whet.evidence.record import Outcome, Verdict
from whet.evidence.statistics import (
    CONFIDENCE,
    EFFECT,
    LEAST_BLOCKS,
    Interval,
    blocks_needed,
    contradicts,
    control_floor,
    outcome,
)

if TYPE_CHECKING:
    from whet.evidence.trial import Result

__all__ = ["AGAINST", "CONFIDENCE", "EFFECT", "Interval", "judge", "of_trial", "outcome", "refused"]

# How a reason begins that says the opposite of its verdict; the headline repeats those.
AGAINST = "but its"
SAID_OF = {"median": "typical round", "mean": "mean", "p90": "slowest tenth (p90)", "p99": "slowest hundredth (p99)"}


def of_trial(result: Result, candidate: str, *, effect: float, clock: str, notes: Sequence[str] = ()) -> Verdict:
    """The verdict on one green candidate of a trial."""
    return judge(
        candidate,
        result.baseline,
        result.intervals.get(candidate),
        effect=effect,
        clock=clock,
        notes=notes,
        judged_by=result.judged_by,
        control=result.control_interval,
        others=result.others.get(candidate, {}),
        ratios=result.ratios.get(candidate, {}),
        confidence=result.confidence,
    )


def judge(
    candidate: str,
    baseline: str,
    found: Interval | None,
    *,
    effect: float,
    clock: str,
    notes: Sequence[str] = (),
    judged_by: str = "median",
    control: Interval | None = None,
    others: Mapping[str, Interval] | None = None,
    ratios: Mapping[str, float] | None = None,
    confidence: float = CONFIDENCE,
) -> Verdict:
    """The verdict with its reasons. `notes` force UNDECIDED: the numbers exist but cannot carry a verdict."""
    floor = control_floor(control, effect)
    said = Outcome.UNDECIDED if notes else outcome(found, effect, floor)
    against = {by: one for by, one in (others or {}).items() if contradicts(said, one, effect)}
    reasons = list(notes)
    if found is None:
        reasons += [] if notes else [_too_few(judged_by)]
    else:
        reasons.append(_in_words(said, found, effect, floor))
        if said is Outcome.SAME and against:
            # Equal typical rounds and unequal means: one of the two is in a slow mode more often.
            said = Outcome.UNDECIDED
            reasons += [_other_says(by, one) + ": look at the samples" for by, one in against.items()]
        elif said is Outcome.UNDECIDED and not notes:
            reasons.append(_what_would_decide(found, effect, floor))
        else:
            reasons += [_other_says(by, one) for by, one in against.items()]
        if floor > effect and control is not None and not notes:
            reasons.append(_control_limits(control, baseline))
        elif control is None:
            reasons.append(f"{baseline} has no control of {LEAST_BLOCKS} blocks: its noise floor is not known")
    return Verdict(
        candidate=candidate,
        baseline=baseline,
        outcome=said,
        ratio=found.ratio if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        confidence=confidence,
        effect=effect,
        clock=clock,
        reasons=reasons,
        judged_by=judged_by,
        ratios=dict(ratios or {}),
    )


def refused(
    candidate: str, baseline: str, reason: str, *, effect: float, clock: str, judged_by: str = "median"
) -> Verdict:
    return Verdict(
        candidate=candidate,
        baseline=baseline,
        outcome=Outcome.REFUSED,
        effect=effect,
        clock=clock,
        reasons=[reason],
        judged_by=judged_by,
    )


def _too_few(judged_by: str) -> str:
    if judged_by in statistics.QUANTILES:
        rounds = LEAST_BLOCKS * statistics.rounds_per_value(judged_by)
        return f"too few rounds for {judged_by}: it takes {rounds:,}; --judge median needs fewer, --rigorous has more"
    return f"too few blocks for an interval: it takes {LEAST_BLOCKS}; give it more time with --seconds"


def _in_words(said: Outcome, found: Interval, effect: float, floor: float) -> str:
    limit = max(effect, floor)
    where = {
        Outcome.FASTER: f"lies below {1 - limit:.4g}",
        Outcome.SLOWER: f"lies above {1 + limit:.4g}",
        Outcome.SAME: f"lies within {1 - effect:g} to {1 + effect:g}",
    }
    span = f"{100 * found.confidence:g} % interval {found.low:.3f} to {found.high:.3f} over {found.blocks} blocks"
    return f"the {span} " + where.get(said, f"crosses {_crossed(found, limit)}")


def _crossed(found: Interval, limit: float) -> str:
    edges = [edge for edge in (1 - limit, 1 + limit) if found.low < edge < found.high]
    return " and ".join(f"{edge:.4g}" for edge in edges) or "no threshold"


def _what_would_decide(found: Interval, effect: float, floor: float) -> str:
    if floor > effect and outcome(found, effect) is not Outcome.UNDECIDED:
        return "without a difference between the baseline and itself this would be decided: an idle machine helps"
    needed = blocks_needed(found, effect, floor)
    if needed is None:
        return f"the ratio sits on the threshold: a smaller or larger --effect than {effect:g} would decide"
    return f"about {max(1, needed - found.blocks):,} more blocks would decide: --rigorous, or an idle machine"


def _other_says(by: str, other: Interval) -> str:
    direction = "slower" if other.ratio > 1 else "faster"
    return f"{AGAINST} {SAID_OF[by]} says {direction}: {other.ratio:.3g} times the baseline's"


def _control_limits(control: Interval, baseline: str) -> str:
    return (
        f"the control, {baseline} against itself, came out at {control.ratio:.3f} ({control.low:.3f} to "
        f"{control.high:.3f}): nothing closer to 1 than that is a verdict"
    )
