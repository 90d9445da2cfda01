"""`whet decide`: a person's choice, kept beside the tool's verdict."""

from __future__ import annotations

from pathlib import Path

import click

from whet.cli import options
from whet.cli.run_names import RunName


@click.command("decide")
@click.argument("run", type=RunName())
@click.option("--ship", required=True, metavar="VARIANT", help="The variant that you ship.")
@click.option("--because", required=True, metavar="TEXT", help="Why.")
@options.as_json
@options.store_path
def command(run: str, ship: str, because: str, as_json: bool, store_path: Path | None) -> None:
    """Keep what you decided about RUN, and why.

    The verdict of the run does not change; the report shows both. Deciding again replaces the decision and keeps the
    earlier one on record.
    """
    from whet.cli.console import print_json
    from whet.cli.settings import open_store
    from whet.evidence.headline import headline

    with open_store(store_path) as store:
        decision = store.decide(run, ship=ship, because=because)
        verdict = headline(store.get(decision.run_id))
    if as_json:
        print_json(decision)
        return
    click.echo(f"run {decision.run_id}: decided to ship {decision.ship}, because {decision.because}")
    against = verdict.ship is not None and verdict.ship != decision.ship
    click.echo(f"verdict{', which this goes against' if against else ''}: {verdict.outcome}: {verdict.text}")
