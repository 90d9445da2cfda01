"""`whet doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whet.cli import options
from whet.errors import BadInput, ExitCode, Unsupported

if TYPE_CHECKING:
    from whet.cli.probes import Finding

MARKS = {
    "ok": ("ok", "green"),
    "note": ("note", "yellow"),
    "missing": ("missing", "yellow"),
    "wrong": ("WRONG", "bold red"),
    "broken": ("BROKEN", "bold red"),
}
TUNE_STYLES = {"ok": "green", "set": "green", "left": "yellow", "absent": "dim"}


@click.command("doctor")
@click.option("--quick", is_flag=True, help="Leave out the slow probes (graphics drivers).")
@click.option("--tune", is_flag=True, help="Say what would make times steadier: governor, turbo, layouts, interrupts.")
@click.option("--apply", "apply_now", is_flag=True, help="With --tune: set what may be set; it is written down first.")
@click.option("--undo", is_flag=True, help="With --tune: put back what --apply found.")
@options.as_json
@options.store_path
def command(
    *, quick: bool, tune: bool, apply_now: bool, undo: bool, as_json: bool, store_path: Path | None
) -> ExitCode:
    """Look at devices, drivers, the store and the tools.

    With --tune it looks at what disturbs times instead, and changes nothing unless --apply is given.

    Exits with 4 only if something that whet needs is broken; what is merely missing is listed with its cure.
    """
    if tune:
        return tune_machine(apply_now=apply_now, undo=undo, as_json=as_json)
    if apply_now or undo:
        raise BadInput("--apply and --undo belong to --tune", cure="whet doctor --tune --apply")
    from whet.cli.console import print_json, progress
    from whet.cli.probes import PROBES

    chosen = [probe for probe in PROBES if not (quick and probe.slow)]
    found: list[Finding] = []
    with progress("looking", total=len(chosen)) as advance:
        for probe in chosen:
            found += probe.findings(store_path)
            advance(1, probe.name)
    if as_json:
        print_json(found)
    else:
        _show(found)
    return ExitCode.ENVIRONMENT if any(finding.status == "broken" for finding in found) else ExitCode.OK


def tune_machine(*, apply_now: bool, undo: bool, as_json: bool) -> ExitCode:
    """0 if nothing is left to do or nothing was asked for; 4 if something could not be set."""
    from platformdirs import user_state_path
    from rich.table import Table
    from rich.text import Text

    from whet.cli.console import console, print_json
    from whet.evidence.system.tuning import Tuner

    if apply_now and undo:
        raise BadInput("--apply and --undo exclude each other", cure="give one of them")
    if not Path("/proc/sys").is_dir():
        raise Unsupported("only Linux tells and takes these settings", cure="close other programs, plug it in")
    tuner = Tuner(kept=user_state_path("whet", appauthor=False) / "machine-before.json")
    found = tuner.apply() if apply_now else tuner.undo() if undo else tuner.look()
    if as_json:
        print_json(found)
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(3):
            table.add_column(overflow="fold")
        for one in found:
            said = Text(one.said)
            for word, text in (("because ", one.why), ("→ ", one.command if one.status == "left" else "")):
                said.append(f"\n{word}{text}" if text else "", style="dim")
            table.add_row(Text(one.status, style=TUNE_STYLES[one.status]), one.name, said)
        console().print(table)
        if not apply_now and not undo and any(one.status == "left" for one in found):
            console().print("\nwhet doctor --tune --apply sets what may be set; --tune --undo puts it back")
    failed = (apply_now or undo) and any(one.status == "left" and one.name != "affinity" for one in found)
    return ExitCode.ENVIRONMENT if failed else ExitCode.OK


def _show(found: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from whet.cli.console import console

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for finding in found:
        mark, style = MARKS[finding.status]
        said = Text(finding.said)
        if finding.cure:
            said.append(f"\n→ {finding.cure}", style="dim" if finding.status == "ok" else "")
        table.add_row(Text(mark, style=style), finding.probe, said)
    out = console()
    out.print(table)
    counts = {status: sum(finding.status == status for finding in found) for status in ("broken", "wrong", "missing")}
    trouble = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    out.print(f"\n{trouble or 'everything is there'}")
