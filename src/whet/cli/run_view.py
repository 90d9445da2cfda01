"""A run on the terminal: a table, one line per verdict, what to know beside it, and which variant to ship."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from whet.errors import ExitCode

if TYPE_CHECKING:
    from rich.table import Table

    from whet.evidence.record import Gate, Run, Verdict

COLOURS = {"FASTER": "green", "SLOWER": "red", "SAME": "cyan", "UNDECIDED": "yellow", "REFUSED": "bold red"}
LEFT = ("variant", "gate", "interval", "verdict")


def show_run(run: Run, *, tails: bool = False, stream: TextIO | None = None) -> None:
    """`tails` adds mean and percentiles; they show by themselves where they say the opposite of a verdict."""
    from rich.text import Text

    from whet.cli.console import console
    from whet.evidence import remarks
    from whet.evidence.headline import headline

    out = console(stream)
    out.print(f"{run.engine}  {run.case}  device={run.where}  clock={remarks.clock_of(run)}  seed={run.seed}")
    if cluster := run.environment.get("cluster"):
        out.print(f"on {cluster['machine']} of the cluster at {cluster['address']}")
    out.print(_times(run))
    if tails or any(map(remarks.opposite, run.verdicts)):
        out.print(_tails(run))
    if (table := _beside(run)) is not None:
        out.print(table)
    for verdict in run.verdicts:
        words = Text(f"{verdict.outcome:<10}", style=COLOURS[verdict.outcome])
        against = "" if verdict.candidate == verdict.baseline else f" against {verdict.baseline}"
        out.print(words + Text(f"{verdict.candidate}{against}: {'; '.join(verdict.reasons)}"))
    for label, line in beside(run):
        out.print(Text(f"{label:<10}", style="yellow" if label == "isolation" else "dim") + Text(line))
    show_failures(run.gates, stream)
    for warnings in remarks.warnings_by_kind(run):
        seen = "; ".join(warning.seen for warning in warnings)
        out.print(Text("warning ", style="yellow") + Text(f"{warnings[0].kind}: {seen}"))
        out.print(f"        why: {warnings[0].why}; advice: {warnings[0].advice}")
    said = headline(run)
    why = said.text.partition(": ")[2] if said.ship else said.text
    out.print(f"stopped: {run.stopped}")
    alone = said.label == "ALONE"
    out.print(Text(why if alone else f"ship: {said.ship or 'nothing yet'}; {why}", style="bold"))
    if (said.ship or alone) and said.detail:
        out.print(f"  {said.detail}")


def beside(run: Run) -> list[tuple[str, str]]:
    """(label, line): what the oracle saw, noise, a weaker isolation, floors, a task never examined."""
    from whet.evidence import remarks
    from whet.evidence.record import IMPORTED

    lines = [] if run.budget == IMPORTED else [("checked", checked_in_words(run.gates, by=_judge(run)))]
    if slow := remarks.slow_oracle(run):
        lines.append(("oracle", slow))
    if control := remarks.control_in_words(run):
        lines.append(("control", control))
    if missing := remarks.weaker_isolation(run):
        lines.append(("isolation", f"weaker than usual: {'; '.join(missing)}"))
    lines += [("floor", f"{name} is {said}") for name in run.variants if (said := remarks.at_floor(run, name))]
    if run.design is not None and not run.task_examined:
        lines.append(("task", remarks.never_examined(run)))
    return [(label, line) for label, line in lines if line]


def _judge(run: Run) -> str:
    """Programs have no oracle but the first of them, or a file."""
    return "against the reference" if run.design is not None and run.design.regime == "process" else "by the oracle"


def checked_in_words(gates: Sequence[Gate], *, by: str = "by the oracle") -> str:
    """One line for all variants where they were checked equally often."""
    from whet.evidence.remarks import checked

    if not gates:
        return ""
    counts = {gate.variant: checked(gate) for gate in gates}
    if len(set(counts.values())) == 1:
        said = f"{checked(gates[0])}{' of each variant' if len(gates) > 1 else ''}"
    else:
        said = ", ".join(f"{count} of {name}" for name, count in counts.items())
    whole = all(gate.full_checks >= gate.digest_checks for gate in gates)
    return f"{by}: {said}" + ("" if whole else "; in the other rounds the variants had to agree")


def show_failures(gates: Sequence[Gate], stream: TextIO | None = None) -> None:
    from whet.cli.console import console

    out = console(stream)
    for gate in gates:
        if gate.failure is None:
            continue
        failure = gate.failure
        out.print(f"red: {gate.variant}: {failure.reason} at {failure.case}: {failure.detail}")
        if failure.inputs_path:
            out.print(f"  evidence: {failure.inputs_path}", soft_wrap=True)
        out.print(f"  fails again: {failure.command}", soft_wrap=True)


def _times(run: Run) -> Table:
    headings = ["variant", "gate", "time per call", "spread", "ratio", "interval", "verdict"]
    if run.errors:
        headings.insert(4, "error")
    table = _table(headings)
    verdicts = {verdict.candidate: verdict for verdict in run.verdicts}
    for gate in run.gates:
        cells = _cells(run, gate, verdicts.get(gate.variant))
        table.add_row(*(cells[heading] for heading in headings))
    return table


def _tails(run: Run) -> Table:
    from whet.evidence.remarks import percentile, tails_of
    from whet.units import duration

    table = _table(["variant", "mean", "p50", "p90", "p99"])
    for gate in run.gates:
        found = tails_of(run, gate.variant) if gate.green else None
        if found is not None:
            far = [percentile(run, gate.variant, which) for which in ("p90", "p99")]
            table.add_row(gate.variant, duration(found.mean), duration(found.median), *far)
    return table


def _beside(run: Run) -> Table | None:
    """Rates and resources, where the run has any."""
    from whet.evidence.throughput import columns

    found = columns(run)
    if not found:
        return None
    table = _table(["variant", *next(iter(found.values()))])
    for name, cells in found.items():
        table.add_row(name, *cells.values())
    return table


def _table(headings: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in LEFT else "right")
    return table


def _cells(run: Run, gate: Gate, verdict: Verdict | None) -> dict[str, str]:
    from whet import units
    from whet.evidence.record import IMPORTED
    from whet.evidence.remarks import error_share, tails_of

    colour = "none" if run.budget == IMPORTED else "green" if gate.green else "RED"
    cells = dict.fromkeys(("spread", "error", "ratio", "interval", "verdict"), "")
    cells |= {"variant": gate.variant, "gate": colour, "time per call": units.NOTHING}
    if verdict is not None:
        cells["verdict"] = verdict.outcome
    tails = tails_of(run, gate.variant)
    if not gate.green or tails is None:
        return cells
    cells |= {"time per call": units.duration(tails.median), "spread": units.percent(tails.spread)}
    cells["error"] = error_share(run, gate.variant)
    if verdict is None:
        return cells | {"ratio": "1", "verdict": "baseline"}
    if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
        cells |= {"ratio": units.ratio(verdict.ratio), "interval": units.interval(verdict.low, verdict.high)}
    return cells


def _surely_not_slower(verdict: Verdict) -> bool:
    """Not decided between SAME and FASTER, which is all the same to somebody who asked for SLOWER."""
    low, high, limit = verdict.low, verdict.high, 1 + verdict.effect
    if verdict.outcome.value != "UNDECIDED" or low is None or high is None:
        return False
    return low < 1 - verdict.effect and high <= limit and verdict.ratios.get("mean", 0.0) <= limit


def exit_code(runs: Sequence[Run], *, fail_if_slower: bool = False) -> ExitCode:
    """130 if a run was interrupted, else 3 if the gate refused any variant, then 1 if a slower one counts as failure,
    then 2 if any is undecided; with `fail_if_slower` one that is surely not slower counts as fine."""
    if any(run.interrupted for run in runs):
        return ExitCode.INTERRUPTED
    verdicts = [verdict for run in runs for verdict in run.verdicts]
    outcomes = {one.outcome.value for one in verdicts if not (fail_if_slower and _surely_not_slower(one))}
    if "REFUSED" in outcomes or any(not gate.green for run in runs for gate in run.gates):
        return ExitCode.REFUSED
    if fail_if_slower and "SLOWER" in outcomes:
        return ExitCode.SLOWER
    return ExitCode.UNDECIDED if "UNDECIDED" in outcomes else ExitCode.OK
