"""`whet runs`: what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whet.cli import options

if TYPE_CHECKING:
    from whet.evidence.store import RunSummary

OUTCOMES = ("FASTER", "SLOWER", "SAME", "UNDECIDED", "REFUSED")


@click.command("runs")
@click.option("--engine", metavar="NAME", help="Only runs of this engine.")
@click.option("--variant", metavar="VARIANT", help="Only runs that have this variant, by name or full spelling.")
@click.option("--device", metavar="DEVICE", help="Only runs on this device.")
@click.option("--outcome", type=click.Choice(OUTCOMES, case_sensitive=False), help="Only runs with such a verdict.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many.")
@click.option(
    "--import",
    "imported",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="First take in the runs of a file that `whet report --format json` wrote elsewhere.",
)
@click.option("--all", "everything", is_flag=True, help="No limit.")
@options.as_json
@options.store_path
def command(
    *,
    engine: str | None,
    variant: str | None,
    device: str | None,
    outcome: str | None,
    limit: int,
    imported: Path | None,
    everything: bool,
    as_json: bool,
    store_path: Path | None,
) -> None:
    """List stored runs, newest first."""
    from whet.cli.console import print_json
    from whet.cli.settings import open_store
    from whet.evidence.record import Outcome

    if imported is not None:
        take_in(imported, store_path)
    with open_store(store_path, read_only=True) as store:
        found = store.list(
            engine=engine,
            variant=variant,
            device=device,
            outcome=Outcome(outcome.upper()) if outcome else None,
            limit=None if everything else limit,
        )
        place = store.path
    if as_json:
        print_json(found)
    else:
        _show(found, place)


def take_in(path: Path, store_path: Path | None) -> None:
    """Runs that were measured elsewhere, whole, with what people decided about them. Those that are here stay."""
    from whet.cli.run_names import read_export
    from whet.cli.settings import open_store

    export = read_export(path)
    with open_store(store_path) as store:
        for run in export.runs:
            store.add(run)
            known = {(one.ship, one.because) for one in store.decisions(run.id)}
            for one in export.decisions:
                if one.run_id == run.id and (one.ship, one.because) not in known:
                    store.decide(run.id, ship=one.ship, because=one.because)
    click.echo(f"took in {len(export.runs)} run{'' if len(export.runs) == 1 else 's'} from {path}", err=True)


def _show(found: Sequence[RunSummary], place: Path) -> None:
    from rich.table import Table

    from whet.cli.console import console

    if not found:
        console().print(f"no such run in {place}; whet ab ENGINE VARIANT VARIANT makes one")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("run", "when", "engine", "case", "device", "verdict"):
        table.add_column(title, overflow="fold", no_wrap=title == "run")
    for run in found:
        decided = f"\ndecided: ship {run.shipped}" if run.shipped else ""
        when = run.created[:16].replace("T", " ")
        table.add_row(run.id, when, run.engine, run.case, run.device, f"{run.outcome}: {run.headline}{decided}")
    console().print(table)
