"""Runs as Markdown for a review: what changed in one line, a table, and how to see it again."""

from __future__ import annotations

from collections.abc import Sequence

from whet import units
from whet.evidence import remarks
from whet.evidence.headline import headline
from whet.evidence.record import Outcome, Run, Verdict
from whet.evidence.report.export import cell

MARKS = {
    Outcome.FASTER: "🟢",
    Outcome.SLOWER: "🔴",
    Outcome.SAME: "⚪",
    Outcome.UNDECIDED: "🟡",
    Outcome.REFUSED: "⛔",
}


def as_summary(runs: Sequence[Run]) -> str:
    """The worst first, because a reviewer reads one line."""
    lines = [f"### whet: {_in_one_line(runs)}", ""]
    lines += ["| | variant | against | time | ratio | interval | noise floor |", "|---|---|---|---|---|---|---|"]
    for run in runs:
        lines += [_row(run, verdict) for verdict in run.verdicts]
    for run in runs:
        reds = [gate for gate in run.gates if gate.failure is not None]
        for gate in reds:
            assert gate.failure is not None
            lines += ["", f"**{cell(gate.variant)} is refused**: {cell(gate.failure.reason)} at {gate.failure.case}: "]
            lines += [f"{cell(gate.failure.detail)}", "", f"    {gate.failure.command}"]
        lines += ["", f"{run.engine}, {run.case}, {run.where}, run `{run.id}`: {cell(headline(run).text)}"]
        lines += [f"- warning, {cell(w.kind)}: {cell(w.seen)}" for w in run.warnings]
        lines += ["", f"    {run.command}"]
    return "\n".join([*lines, ""])


def _in_one_line(runs: Sequence[Run]) -> str:
    verdicts = [verdict for run in runs for verdict in run.verdicts]
    counts = {outcome: sum(one.outcome is outcome for one in verdicts) for outcome in Outcome}
    said = [f"{counts[outcome]} {outcome.value}" for outcome in MARKS if counts[outcome]]
    return ", ".join(said) or "nothing to compare"


def _row(run: Run, verdict: Verdict) -> str:
    time = ratio = interval = ""
    tails = remarks.tails_of(run, verdict.candidate)
    if verdict.outcome is not Outcome.REFUSED and tails is not None:
        time = units.duration(tails.median)
        if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
            ratio, interval = f"{units.ratio(verdict.ratio)}×", units.interval(verdict.low, verdict.high)
    noise = units.interval(run.control.low, run.control.high) if run.control else ""
    cells = [f"{MARKS[verdict.outcome]} {verdict.outcome.value}", cell(verdict.candidate), cell(verdict.baseline)]
    return f"| {' | '.join([*cells, time, ratio, interval, noise])} |"
