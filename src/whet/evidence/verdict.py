"""From paired times to a verdict: a bootstrap interval of the ratio against a smallest effect of interest.

The ratio is the median over rounds of candidate time / baseline time. Both ran in the same round, so what slows a
round (drift, a neighbour, a clock that changes gear) leaves its ratio alone; the quotient of the two medians over the
whole trial would jump between modes. SAME needs that quotient as well, because a variant that is more often in its
slow mode has the same typical round. Below `FEW_ROUNDS` a bootstrap of the median is too narrow; there the extremes
bound the ratio, which equal variants beat less than once in 120 trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whet.evidence.record import Outcome, Verdict
from whet.protocol import Array

CONFIDENCE = 0.99
EFFECT = 0.02
RESAMPLES = 2000
# Enough to see whether to go on; the verdict itself takes all of them.
RESAMPLES_IN_PASSING = 400
FEW_ROUNDS = 12
LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Interval:
    """Candidate time / baseline time. `of_medians` is None where `ratio` itself is the quotient of the medians."""

    ratio: float
    low: float
    high: float
    rounds: int
    of_medians: float | None = None

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def interval(candidate: Array, baseline: Array, seed: int, *, resamples: int = RESAMPLES) -> Interval:
    """Both arrays hold one time per round, in the same order of rounds."""
    rounds, ratios = len(candidate), candidate / baseline
    ratio, of_medians = float(np.median(ratios)), float(np.median(candidate) / np.median(baseline))
    if rounds < FEW_ROUNDS:
        low, high = float(candidate.min() / baseline.max()), float(candidate.max() / baseline.min())
        return Interval(ratio, low, high, rounds, of_medians)
    picks = np.random.default_rng(seed).integers(0, rounds, (resamples, rounds))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(ratios[picks], axis=1), [tail, 1 - tail])
    return Interval(ratio, float(low), float(high), rounds, of_medians)


def outcome(found: Interval, effect: float) -> Outcome:
    """The whole interval must lie on one side of a threshold."""
    if found.rounds < LEAST_ROUNDS:
        return Outcome.UNDECIDED
    if found.high < 1 - effect:
        return Outcome.FASTER
    if found.low > 1 + effect:
        return Outcome.SLOWER
    if found.low >= 1 - effect and found.high <= 1 + effect and not has_modes(found, effect):
        return Outcome.SAME
    return Outcome.UNDECIDED


def has_modes(found: Interval, effect: float) -> bool:
    """The typical round says one thing and the medians of the whole trial another."""
    return found.of_medians is not None and abs(found.of_medians - 1) > 2 * effect


def rounds_needed(found: Interval, effect: float) -> int | None:
    """Rounds at which the interval would clear a threshold if it shrinks with the root of their number."""
    distance = min(abs(found.ratio - (1 - effect)), abs(found.ratio - (1 + effect)))
    if distance < effect / 20:
        return None
    return math.ceil(found.rounds * (found.half_width / distance) ** 2)


def judge(
    candidate: str, baseline: str, found: Interval | None, *, effect: float, clock: str, notes: Sequence[str] = ()
) -> Verdict:
    """The verdict with its reasons in words. `notes` force UNDECIDED: the numbers exist but cannot carry a verdict."""
    frame = {"candidate": candidate, "baseline": baseline, "confidence": CONFIDENCE, "effect": effect, "clock": clock}
    if found is None:
        return Verdict(outcome=Outcome.UNDECIDED, reasons=list(notes) or ["too few rounds"], **frame)  # type: ignore[arg-type]
    said = Outcome.UNDECIDED if notes else outcome(found, effect)
    reasons = [*notes, _in_words(said, found, effect)]
    if said is Outcome.UNDECIDED and not notes:
        reasons.append(_what_would_decide(found, effect))
    return Verdict(
        outcome=said,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        reasons=reasons,
        **frame,  # type: ignore[arg-type]
    )


def refused(candidate: str, baseline: str, reason: str, *, effect: float, clock: str) -> Verdict:
    return Verdict(
        candidate=candidate, baseline=baseline, outcome=Outcome.REFUSED, effect=effect, clock=clock, reasons=[reason]
    )


def _in_words(said: Outcome, found: Interval, effect: float) -> str:
    span = f"{CONFIDENCE:.0%} interval {found.low:.3f} to {found.high:.3f} over {found.rounds} rounds"
    where = {
        Outcome.FASTER: f"lies below {1 - effect:g}",
        Outcome.SLOWER: f"lies above {1 + effect:g}",
        Outcome.SAME: f"lies within {1 - effect:g} to {1 + effect:g}",
    }
    return f"the {span} " + where.get(said, f"crosses {_crossed(found, effect)}")


def _crossed(found: Interval, effect: float) -> str:
    edges = [edge for edge in (1 - effect, 1 + effect) if found.low < edge < found.high]
    return " and ".join(f"{edge:g}" for edge in edges) or "no threshold"


def _what_would_decide(found: Interval, effect: float) -> str:
    if found.of_medians is not None and found.low >= 1 - effect and found.high <= 1 + effect:
        return (
            f"the rounds agree, but the medians of the whole trial differ by {abs(found.of_medians - 1):.0%}: the "
            "times have several modes, and one variant may be in the slow one more often; look at the samples"
        )
    needed = rounds_needed(found, effect)
    if needed is None:
        return f"the ratio sits on the threshold: a smaller or larger --effect than {effect:g} would decide"
    return f"about {max(1, needed - found.rounds):,} more rounds would decide: --rigorous, or an idle machine"
