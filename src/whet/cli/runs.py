"""`whet runs`: what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whet.cli import options
from whet.errors import BadInput

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
    help="First take in a file: runs that `whet report --format json` wrote, or times of pyperf or hyperfine.",
)
@click.option("--all", "everything", is_flag=True, help="No limit.")
@click.option(
    "--export",
    "exported",
    type=click.Choice(["pyperf", "hyperfine"]),
    help="Print the newest of them as pyperf or hyperfine would; `whet report RUN --format` takes any run.",
)
@click.option("--history", metavar="ENGINE", help="Draw the cases of an engine over time, changes marked.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where --history goes."
)
@options.as_json
@options.store_path
def command(
    *,
    exported: str | None,
    history: str | None,
    output: Path | None,
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
    """List stored runs, newest first.

    \b
    whet runs --import results.json               what hyperfine or pyperf measured, beside your own runs
    whet runs --engine msm --export pyperf        the newest of them, for pyperf's own tools
    whet runs --history msm -o history.html       times of one case over runs, with changes of the code
    """
    if (imported is not None) + (exported is not None) + (history is not None) > 1:
        raise BadInput("--import, --export and --history exclude each other", cure="give one of them")
    if history is not None:
        from whet.cli.history import show_history

        return show_history(history, variant=variant, device=device, limit=limit, output=output, store_path=store_path)
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
    if exported is not None:
        return _export(found, exported, store_path)
    if as_json:
        print_json(found)
    else:
        _show(found, place)


def take_in(path: Path, store_path: Path | None) -> None:
    """Runs that were measured elsewhere, whole, with what people decided about them. Those that are here stay.

    A file of pyperf or hyperfine becomes a run without a gate and without a verdict.
    """
    from whet.cli.run_names import read_export
    from whet.cli.settings import open_store
    from whet.evidence.foreign import is_foreign, read_foreign
    from whet.evidence.record import Export

    export = Export(runs=[read_foreign(path)]) if is_foreign(path) else read_export(path)
    with open_store(store_path) as store:
        for run in export.runs:
            store.add(run)
            known = {(one.ship, one.because) for one in store.decisions(run.id)}
            for one in export.decisions:
                if one.run_id == run.id and (one.ship, one.because) not in known:
                    store.decide(run.id, ship=one.ship, because=one.because)
    click.echo(f"took in {len(export.runs)} run{'' if len(export.runs) == 1 else 's'} from {path}", err=True)


def _export(found: Sequence[RunSummary], kind: str, store_path: Path | None) -> None:
    from whet.cli.run_names import find_export
    from whet.evidence.foreign import as_hyperfine, as_pyperf

    if not found:
        raise BadInput("no such run is stored", cure="whet runs lists what is stored")
    export = find_export((found[0].id,), store_path)
    click.echo((as_pyperf if kind == "pyperf" else as_hyperfine)(export), nl=False)


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
