"""`whet cluster`: what a Ray has, and who holds what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whet.cli import options

if TYPE_CHECKING:
    from whet.cluster.status import ClusterStatus

DEADLINE_S = 20.0


@click.group("cluster", short_help="machines and workers of a Ray")
def command() -> None:
    """Machines and workers of a Ray."""


@command.command("status", short_help="machines, and the workers that hold points")
@click.argument("address", metavar="HOST:PORT")
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(0, min_open=True),
    default=DEADLINE_S,
    show_default=True,
    callback=options.finite,
    metavar="SECONDS",
    help="How long the Ray may take to answer.",
)
@options.as_json
def status(address: str, deadline_s: float, as_json: bool) -> None:
    """Machines of the Ray at HOST:PORT, and the workers of sums that hold points there.

    It is asked from one of its own machines, with its token: RAY_AUTH_TOKEN, or ~/.ray/auth_token.
    """
    from whet.cli.console import print_json
    from whet.cluster.connection import connect
    from whet.cluster.status import look

    with connect(address, deadline_s=deadline_s) as connection:
        found = look(connection)
    if as_json:
        print_json(found)
    else:
        show(found)


def show(found: ClusterStatus) -> None:
    click.echo(f"Ray {found.ray} at {found.address}")
    click.echo(f"\n{'machine':<18} {'processors':>10}  labels")
    for node in found.nodes:
        labels = " ".join(f"{name}={value}" for name, value in node.labels.items() if not name.startswith("ray.io/"))
        click.echo(f"{node.host:<18} {node.cpus:>10g}  {labels}".rstrip())
    if not found.workers:
        click.echo("\nno worker of a sum holds points")
        return
    click.echo(f"\n{'worker':<20} {'host':<18} {'pid':>8} {'threads':>7} {'requests':>8}  points")
    for worker in found.workers:
        if not worker.answers:
            click.echo(f"{worker.name:<20} does not answer")
            continue
        held = ", ".join(f"{start} to {stop}" for start, stop in worker.shards if stop > start) or "none"
        click.echo(
            f"{worker.name:<20} {worker.host:<18} {worker.pid:>8} {worker.threads:>7} {worker.requests:>8}  {held}"
        )
