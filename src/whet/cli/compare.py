"""`whet compare`: two runs of one engine and case."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whet.cli import options
from whet.cli.run_names import RunName
from whet.errors import ExitCode

if TYPE_CHECKING:
    from whet.evidence.compare import Comparison

COLOURS = {"FASTER": "blue", "SLOWER": "yellow", "SAME": "", "UNDECIDED": "magenta", "REFUSED": "bold red"}


@click.command("compare")
@click.argument("before", type=RunName())
@click.argument("after", type=RunName())
@options.effect
@click.option(
    "--fail-if-slower",
    is_flag=True,
    help="Exit 3 if a variant is refused, 1 if one is slower, 2 if one is undecided. Otherwise always 0.",
)
@options.as_json
@options.store_path
def command(
    *, before: str, after: str, effect: float, fail_if_slower: bool, as_json: bool, store_path: Path | None
) -> ExitCode:
    """Show what changed from BEFORE to AFTER, environment first.

    A run is an id, a unique beginning of one, `last`, `last-1`, or a .json file that `whet report` wrote.
    """
    from whet.cli.console import print_json
    from whet.cli.run_names import find_history, find_run
    from whet.evidence.compare import compare

    first, second = (find_run(which, store_path) for which in (before, after))
    comparison = compare(first, second, effect=effect, history=find_history(second, store_path))
    if as_json:
        print_json(comparison)
    else:
        _show(comparison)
    return exit_code(comparison) if fail_if_slower else ExitCode.OK


def exit_code(comparison: Comparison) -> ExitCode:
    outcomes = {change.outcome for change in comparison.changes}
    for outcome, code in (
        ("REFUSED", ExitCode.REFUSED),
        ("SLOWER", ExitCode.SLOWER),
        ("UNDECIDED", ExitCode.UNDECIDED),
    ):
        if outcome in outcomes:
            return code
    return ExitCode.OK


def _show(comparison: Comparison) -> None:
    from rich.table import Table

    from whet import units
    from whet.cli.console import console

    out = console()
    out.print(f"{comparison.engine}, {comparison.case}: {comparison.before} → {comparison.after}")
    if comparison.environment:
        out.print("\nenvironment differs:", style="bold yellow")
        for difference in comparison.environment:
            out.print(f"  {difference.field}: {_or_none(difference.before)} → {_or_none(difference.after)}")
        for warning in comparison.warnings:
            out.print(f"  {warning.why}; advice: {warning.advice}")
    else:
        out.print("environment: no difference recorded")
    out.print(f"note: {comparison.note}\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("variant", "before", "after", "ratio", f"{100 * comparison.confidence:g} % interval", "change"):
        table.add_column(title, justify="left" if title in ("variant", "change") else "right", overflow="fold")
    for change in comparison.changes:
        if change.ratio is None or change.low is None or change.high is None:
            numbers = ["", "", "", ""]
        else:
            span = units.interval(change.low, change.high)
            medians = [units.duration(ns) for ns in (change.before_ns or 0, change.after_ns or 0)]
            numbers = [*medians, f"{units.ratio(change.ratio)}×", span]
        table.add_row(change.variant, *numbers, change.outcome, style=COLOURS[change.outcome])
    out.print(table)
    for reason, some in groupby(comparison.changes, key=lambda change: change.reason):
        if reason:
            out.print(f"{', '.join(change.variant for change in some)}: {reason}")
    for where, names in (("before", comparison.only_before), ("after", comparison.only_after)):
        if names:
            out.print(f"only {where}: {', '.join(names)}")


def _or_none(value: object) -> str:
    return "not recorded" if value is None else str(value)
