"""`whet graph`: run a named workload, measure ns per task, write a swimlane."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.graph.workloads import Workload

FILE = click.Path(path_type=Path, dir_okay=False)
POLICY = click.Choice(("hybrid", "polling", "wired"))


@click.group("graph", short_help="task-graph workloads")
def command() -> None:
    """Task-graph workloads: run one, measure the overhead, see who did what when."""


def make_workload(name: str, sizes: tuple[str, ...]) -> Workload:
    from whet.graph import workloads
    from whet.protocol import parse_size

    given: dict[str, int] = {}
    for item in sizes:
        key, equals, value = item.partition("=")
        if not equals:
            raise BadInput(f"{item!r} is not NAME=SIZE", cure="such as --size tasks=1000")
        given[key] = parse_size(value, what=key)
    return workloads.make(name, **given)


workload = click.argument("name", metavar="WORKLOAD")
size = click.option("--size", "sizes", multiple=True, metavar="NAME=SIZE", help="Change a size of the workload.")
workers = click.option("--workers", type=click.IntRange(1, 256), help="Threads, one per core unless given.")
policy = click.option("--policy", type=POLICY, default="hybrid", show_default=True, help="How readiness is found.")


@command.command("run", short_help="run a workload once and check it")
@workload
@size
@workers
@policy
@click.option("--window", type=int, default=65536, show_default=True, help="Tasks in flight, a power of two.")
@click.option("--heap", "heap_bytes", type=int, default=256 << 20, show_default=True, help="Bytes of the output heap.")
@click.option("--edges", type=click.Choice(("inferred", "given")), default="inferred", show_default=True)
@click.option(
    "--bodies",
    type=click.Choice(("mixing", "real")),
    default="mixing",
    show_default=True,
    help="What the tasks do; real ones are those of pa, bgemm and cholesky.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the numbers that go in.")
@options.as_json
def run(**given: Any) -> None:
    """Run WORKLOAD once and check it: every task exactly once, after its producers.

    With mixing bodies each task leaves a number that depends on those of its producers; a second, sequential run gives
    the numbers to compare with. With real ones attention, products and Cholesky factors are computed and compared with
    numpy and LAPACK. `whet graph run list` names the workloads.
    """
    from whet.cli.graph_run import run_checked

    run_checked(**given)


@command.command("bench", short_help="ns per task of every policy, of a replay and of peers")
@click.option("--workload", "names", multiple=True, metavar="WORKLOAD", help="Instead of the default set; repeat.")
@click.option("--all", "everything", is_flag=True, help="Every named workload.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="Interleaved rounds.")
@click.option("--peers/--no-peers", default=True, help="Measure the installed peers beside (make bench-peers).")
@click.option("--growth/--no-growth", default=True, help="Growth from 1 K to 500 K tasks.")
@click.option(
    "--bodies",
    multiple=True,
    metavar="LENGTH",
    help="Instead: what waiting costs with bodies of 5us, tail:5us or device:5us; repeat, or `all`.",
)
@click.option("--tasks", type=click.IntRange(1, 1 << 20), help="With --bodies: about so many, where the shape allows.")
@options.as_json
def bench(**given: Any) -> None:
    """ns per task of every policy at 1 and 2 workers, the replay of a built graph, peers where installed.

    With --bodies: every policy and wake target when bodies take time, with woken and looked-at tasks and the time that
    polling and waking take.
    """
    from whet.cli.graph_bench import chosen_workloads, show, show_latency

    bodies, tasks = given.pop("bodies"), given.pop("tasks")
    if bodies:
        chosen = chosen_workloads(given["names"], everything=given["everything"])
        show_latency(chosen, bodies, given["rounds"], tasks or 0, as_json=given["as_json"])
    elif tasks is not None:
        raise BadInput("--tasks goes with --bodies", cure="give --bodies too, or leave it out")
    else:
        show(**given)


@command.command("trace", short_help="who ran which task when, for ui.perfetto.dev")
@workload
@size
@workers
@policy
@click.option("--out", "path", type=FILE, default=Path("graph-trace.json"), show_default=True, metavar="FILE")
@click.option("--dot", "dot_path", type=FILE, metavar="FILE", help="Write the edges found as DOT.")
@click.option("--regions", "regions_path", type=FILE, metavar="FILE.npz", help="Keep the threads' phases as regions.")
@click.option("--body-ns", type=click.IntRange(0, 10**9), default=2000, show_default=True, help="Length of each body.")
@options.as_json
def trace(**given: Any) -> None:
    """Write who ran which task when, for ui.perfetto.dev, and print phases, ring peaks and advice."""
    from whet.cli.graph_run import write_swimlane

    write_swimlane(**given)
