"""What a run says in one sentence: which variant to ship, by what factor, and how sure that is."""

from __future__ import annotations

import msgspec

from whet import units
from whet.evidence import statistics
from whet.evidence.record import IMPORTED, Outcome, Run, Verdict
from whet.evidence.remarks import clock_of, opposite, tails_of


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is that of the run, `ship` the variant to use (None: the run does not say), `detail` the second line.

    `label` stands in for the outcome where that word alone would mislead, `tone` colours it: a baseline that beats all
    others is as good news as a faster candidate.
    """

    outcome: Outcome
    label: str | None = None
    ship: str | None
    text: str
    detail: str
    tone: str = ""

    @property
    def colour(self) -> str:
        return self.tone or self.outcome.lower()


def headline(run: Run) -> Headline:
    """Best candidate first; where none is faster, the baseline stays; where nothing can be said, it says so."""
    red = {gate.variant for gate in run.gates if not gate.green}
    aside = f"Refused by the gate, so never timed: {', '.join(sorted(red))}." if red else ""
    outcomes = {verdict.outcome for verdict in run.verdicts}
    if run.budget == IMPORTED:
        text = f"{units.count(len(run.variants), 'benchmark')} of {run.engine}: no verdict"
        detail = "These times were taken over from a file; nothing was gated and nothing took turns."
        return Headline(outcome=Outcome.UNDECIDED, label="IMPORTED", ship=None, text=text, detail=detail)
    if run.baseline in red:
        text = f"Nothing can be compared: {run.baseline} was refused"
        return Headline(outcome=Outcome.REFUSED, ship=None, text=text, detail="The baseline did not pass the gate.")
    if not outcomes:
        return _alone(run)
    if Outcome.FASTER in outcomes:
        return _faster(run, aside)
    if Outcome.UNDECIDED in outcomes:
        return _undecided(run, aside)
    return _baseline(run, outcomes, aside)


def _alone(run: Run) -> Headline:
    """One variant: how long it takes, and how well that is known."""
    mine = statistics.times([one for one in run.samples if one.variant == run.baseline], clock_of(run))
    text, known = f"{run.baseline} agrees with the oracle", ""
    if tails := tails_of(run, run.baseline):
        text = f"{run.baseline} takes {units.duration(tails.median)} per call"
        width = statistics.own_half_width(mine, confidence=run.design.confidence if run.design else 0.99)
        sure = f"{100 * (run.design.confidence if run.design else 0.99):g} %"
        known = f"Its median is known to ±{units.percent(width)} ({sure} interval over blocks)." if width else ""
    detail = f"{known} It ran alone, so there is no ratio.".strip()
    return Headline(outcome=Outcome.SAME, label="ALONE", ship=None, text=text, detail=detail)


def _baseline(run: Run, outcomes: set[Outcome], aside: str) -> Headline:
    nearest = min(
        (v for v in run.verdicts if v.outcome is not Outcome.REFUSED and v.ratio),
        key=lambda v: v.ratio or 0.0,
        default=None,
    )
    ship, label, tone, detail = run.baseline, None, "", ""
    if Outcome.SAME in outcomes:
        outcome, why = Outcome.SAME, "nothing is faster"
        effect = next(v.effect for v in run.verdicts if v.outcome is Outcome.SAME)
        detail = f"No difference larger than {100 * effect:g} %."
    elif Outcome.SLOWER in outcomes:
        outcome, label, tone = Outcome.SLOWER, "BASELINE WINS", "faster"
        why, detail = _others_are_slower(nearest, len(run.verdicts))
    else:
        outcome, why = Outcome.REFUSED, "every other variant was refused"
    whole = " ".join(filter(None, (detail, _against(nearest), aside)))
    return Headline(outcome=outcome, label=label, ship=ship, text=f"Ship {ship}: {why}", detail=whole, tone=tone)


def _others_are_slower(nearest: Verdict | None, others: int) -> tuple[str, str]:
    if nearest is None or nearest.ratio is None:
        return "every other variant is slower", ""
    who = nearest.candidate if others == 1 else f"the next best, {nearest.candidate},"
    return f"{who} takes {units.times(nearest.ratio)} times as long", _span(nearest, inverse=False)


def _undecided(run: Run, aside: str) -> Headline:
    open_ones = [v for v in run.verdicts if v.outcome is Outcome.UNDECIDED]
    text = f"Undecided: {', '.join(v.candidate for v in open_ones)} or {run.baseline}"
    first = open_ones[0]
    if len(open_ones) == 1 and first.low is not None and first.high is not None:
        text += f" (ratio {units.interval(first.low, first.high)})"
    reasons = " ".join(_sentence(reason) for reason in first.reasons)
    return Headline(outcome=Outcome.UNDECIDED, ship=None, text=text, detail=f"{reasons} {aside}".strip())


def _faster(run: Run, aside: str) -> Headline:
    faster = [v for v in run.verdicts if v.outcome is Outcome.FASTER]
    ranked = sorted(faster, key=lambda v: v.ratio if v.ratio is not None else 1.0)
    best = ranked[0]
    rivals = [v.candidate for v in ranked[1:] if v.low is not None and best.high is not None and v.low <= best.high]
    text = f"Ship {best.candidate}: faster than {run.baseline}"
    if best.ratio:
        text = f"Ship {best.candidate}: {units.times(1 / best.ratio)} times as fast as {run.baseline}"
    beside = f"Not told apart from it: {', '.join(rivals)}." if rivals else ""
    parts = (_span(best, inverse=True), _against(best), beside, aside)
    return Headline(outcome=Outcome.FASTER, ship=best.candidate, text=text, detail=" ".join(filter(None, parts)))


def _span(verdict: Verdict, *, inverse: bool) -> str:
    """The interval behind the factor in the headline."""
    if not (verdict.low and verdict.high):
        return ""
    low, high = (1 / verdict.high, 1 / verdict.low) if inverse else (verdict.low, verdict.high)
    sure = f"{100 * verdict.confidence:g} % interval {units.times(low)} to {units.times(high)} times"
    return f"{sure}; {verdict.clock} clock."


def _against(verdict: Verdict | None) -> str:
    return " ".join(map(_sentence, opposite(verdict))) if verdict is not None else ""


def _sentence(text: str) -> str:
    stripped = text.strip().rstrip(".")
    return f"{stripped[:1].upper()}{stripped[1:]}." if stripped else ""
