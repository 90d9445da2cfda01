"""What a run says in one sentence: which variant to ship, and how sure that is. The report opens with it."""

from __future__ import annotations

import msgspec

from whet.evidence.record import Outcome, Run
from whet.evidence.verdict import AGAINST


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` colours it, `ship` is the variant to use (None: the run does not say), `detail` is the second line.

    `label` stands in for the outcome where there was nothing to compare.
    """

    outcome: Outcome
    label: str | None = None
    ship: str | None
    text: str
    detail: str


def headline(run: Run) -> Headline:
    """Best candidate first; where none is faster, the baseline stays; where nothing can be said, it says so."""
    red = {gate.variant for gate in run.gates if not gate.green}
    aside = f"Refused by the gate, so never timed: {', '.join(sorted(red))}." if red else ""
    outcomes = {verdict.outcome for verdict in run.verdicts}
    if run.baseline in red:
        text = f"Nothing can be compared: {run.baseline} was refused"
        return Headline(outcome=Outcome.REFUSED, ship=None, text=text, detail="The baseline did not pass the gate.")
    if not outcomes:
        text = f"{run.baseline} agrees with the oracle"
        detail = "Only one variant ran: there is no ratio."
        return Headline(outcome=Outcome.SAME, label="ALONE", ship=None, text=text, detail=detail)
    if Outcome.FASTER in outcomes:
        return _faster(run, aside)
    if Outcome.UNDECIDED in outcomes:
        return _undecided(run, aside)
    return _keep(run, outcomes, aside)


def _keep(run: Run, outcomes: set[Outcome], aside: str) -> Headline:
    if Outcome.SAME in outcomes:
        effect = next(v.effect for v in run.verdicts if v.outcome is Outcome.SAME)
        outcome, why, detail = (
            Outcome.SAME,
            "nothing is faster",
            f"No difference larger than {100 * effect:g} %. {aside}",
        )
    elif Outcome.SLOWER in outcomes:
        outcome, why, detail = Outcome.SLOWER, "every other variant is slower", aside
    else:
        outcome, why, detail = Outcome.REFUSED, "every other variant was refused", aside
    return Headline(outcome=outcome, ship=run.baseline, text=f"Keep {run.baseline}: {why}", detail=detail.strip())


def _undecided(run: Run, aside: str) -> Headline:
    open_ones = [v for v in run.verdicts if v.outcome is Outcome.UNDECIDED]
    text = f"Undecided: {', '.join(v.candidate for v in open_ones)} or {run.baseline}"
    reasons = " ".join(_sentence(reason) for reason in open_ones[0].reasons)
    return Headline(outcome=Outcome.UNDECIDED, ship=None, text=text, detail=f"{reasons} {aside}".strip())


def _faster(run: Run, aside: str) -> Headline:
    faster = [v for v in run.verdicts if v.outcome is Outcome.FASTER]
    ranked = sorted(faster, key=lambda v: v.ratio if v.ratio is not None else 1.0)
    best = ranked[0]
    rivals = [v.candidate for v in ranked[1:] if v.low is not None and best.high is not None and v.low <= best.high]
    parts = []
    if best.ratio and best.low and best.high:
        text = f"Ship {best.candidate}: {1 / best.ratio:.3g} times as fast as {run.baseline}"
        span = f"{1 / best.high:.3g} to {1 / best.low:.3g} times"
        parts.append(f"{100 * best.confidence:g} % interval {span}; {best.clock} clock.")
    else:
        text = f"Ship {best.candidate}: faster than {run.baseline}"
    if rivals:
        parts.append(f"Not told apart from it: {', '.join(rivals)}.")
    parts += [_sentence(reason) for reason in best.reasons if reason.startswith(AGAINST)]
    if aside:
        parts.append(aside)
    return Headline(outcome=Outcome.FASTER, ship=best.candidate, text=text, detail=" ".join(parts))


def _sentence(text: str) -> str:
    stripped = text.strip().rstrip(".")
    return f"{stripped[:1].upper()}{stripped[1:]}." if stripped else ""
