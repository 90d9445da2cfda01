"""`whet doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whet.cli import options
from whet.errors import ExitCode

if TYPE_CHECKING:
    from whet.cli.probes import Finding

MARKS = {
    "ok": ("ok", "green"),
    "note": ("note", "yellow"),
    "missing": ("missing", "yellow"),
    "wrong": ("WRONG", "bold red"),
    "broken": ("BROKEN", "bold red"),
}


@click.command("doctor")
@click.option("--quick", is_flag=True, help="Leave out the slow probes (graphics drivers).")
@options.as_json
@options.store_path
def command(quick: bool, as_json: bool, store_path: Path | None) -> ExitCode:
    """Look at devices, drivers, the store and the tools.

    Exits with 4 only if something that whet needs is broken; what is merely missing is listed with its cure.
    """
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
