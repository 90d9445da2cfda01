"""A run on the terminal: a table, one line per verdict, the warnings, and which variant to ship."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from whet.errors import ExitCode

if TYPE_CHECKING:
    from whet.evidence.record import Gate, Run, Verdict

COLOURS = {"FASTER": "green", "SLOWER": "red", "SAME": "cyan", "UNDECIDED": "yellow", "REFUSED": "bold red"}


def show_run(run: Run) -> None:
    from rich.table import Table
    from rich.text import Text

    from whet.cli.console import console
    from whet.evidence.headline import headline

    out = console()
    clock = run.verdicts[0].clock if run.verdicts else "wall"
    out.print(f"{run.engine}  {run.case}  device={run.where}  clock={clock}  seed={run.seed}")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("variant", "gate", "time per call", "spread", "ratio", "interval", "verdict"):
        table.add_column(heading, justify="right" if heading in ("time per call", "spread", "ratio") else "left")
    verdicts = {verdict.candidate: verdict for verdict in run.verdicts}
    for gate in run.gates:
        table.add_row(*_cells(run, gate, verdicts.get(gate.variant), clock))
    out.print(table)
    for verdict in run.verdicts:
        words = Text(f"{verdict.outcome:<10}", style=COLOURS[verdict.outcome])
        against = "" if verdict.candidate == verdict.baseline else f" against {verdict.baseline}"
        out.print(words + Text(f"{verdict.candidate}{against}: {'; '.join(verdict.reasons)}"))
    show_failures(run.gates)
    for kind, some in groupby(run.warnings, key=lambda warning: warning.kind):
        warnings = list(some)
        seen = "; ".join(warning.seen for warning in warnings)
        out.print(Text("warning ", style="yellow") + Text(f"{kind}: {seen}"))
        out.print(f"        why: {warnings[0].why}; advice: {warnings[0].advice}")
    said = headline(run)
    why = said.text.partition(": ")[2] if said.ship else said.text
    out.print(f"stopped: {run.stopped}")
    out.print(Text(f"ship: {said.ship or 'nothing yet'}; {why}", style="bold"))
    if said.ship and said.detail:
        out.print(f"  {said.detail}")


def show_failures(gates: Sequence[Gate]) -> None:
    from whet.cli.console import console

    out = console()
    for gate in gates:
        if gate.failure is None:
            continue
        failure = gate.failure
        out.print(f"red: {gate.variant}: {failure.reason} at {failure.case}: {failure.detail}")
        if failure.inputs_path:
            out.print(f"  evidence: {failure.inputs_path}", soft_wrap=True)
        out.print(f"  fails again: {failure.command}", soft_wrap=True)


def _cells(run: Run, gate: Gate, verdict: Verdict | None, clock: str) -> list[str]:
    import numpy as np

    from whet.evidence.trial import call_times
    from whet.units import duration

    checks = f"{'green' if gate.green else 'RED'} {gate.full_checks}/{gate.digest_checks}"
    times = call_times([sample for sample in run.samples if sample.variant == gate.variant], clock)
    if not gate.green or not len(times):
        return [gate.variant, checks, "-", "", "", "", verdict.outcome if verdict else ""]
    median = float(np.median(times))
    spread = float(np.median(np.abs(times - median)) / median)
    cells = [gate.variant, checks, duration(median), f"{spread:.1%}"]
    if verdict is None:
        return [*cells, "1", "", "baseline"]
    if verdict.ratio is None or verdict.low is None or verdict.high is None:
        return [*cells, "", "", verdict.outcome]
    return [*cells, f"{verdict.ratio:.3f}", f"{verdict.low:.3f} to {verdict.high:.3f}", verdict.outcome]


def exit_code(runs: Sequence[Run], *, fail_if_slower: bool = False) -> ExitCode:
    """130 if a run was interrupted, else 3 if the gate refused any variant, then 1 if a slower one counts as failure,
    then 2 if any is undecided."""
    if any(run.interrupted for run in runs):
        return ExitCode.INTERRUPTED
    outcomes = {verdict.outcome.value for run in runs for verdict in run.verdicts}
    if "REFUSED" in outcomes or any(not gate.green for run in runs for gate in run.gates):
        return ExitCode.REFUSED
    if fail_if_slower and "SLOWER" in outcomes:
        return ExitCode.SLOWER
    return ExitCode.UNDECIDED if "UNDECIDED" in outcomes else ExitCode.OK
