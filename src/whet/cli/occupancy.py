"""`whet occupancy`: what a kernel holds per thread, and how many workgroups a GPU core could keep. A model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.plan_options import EngineName
from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.gpu.live_words import Footprint
    from whet.gpu.occupancy import Residency

NOTE = "a model from the WGSL and public architecture figures (docs/occupancy.md); nothing was measured"


@click.command("occupancy", short_help="registers and workgroup memory of a variant against GPU profiles: a model")
@click.argument("engine", type=EngineName())
@click.option("--variant", metavar="VARIANT", help="A GPU variant, with knobs; the engine's own choice unless given.")
@click.option("--pass", "which", default="accumulate", show_default=True, metavar="NAME", help="The pass to look at.")
@click.option("--arrays", is_flag=True, help="Count a thread's own arrays as registers too.")
@options.as_json
def command(**given: Any) -> None:
    """Estimates live 32-bit words and workgroup bytes of a kernel and predicts resident workgroups per core.

    It shows which resource a variant presses on. Whether that matters on your device is for `whet ab` to say.
    """
    show_occupancy(**given)


def show_occupancy(*, engine: str, variant: str | None, which: str, arrays: bool, as_json: bool) -> None:
    from whet.cli.console import print_json
    from whet.evidence.registry import load
    from whet.gpu.live_words import footprint
    from whet.gpu.occupancy import PROFILES, predict

    loaded = load(engine).engine
    offered = loaded.kernels(variant)
    if which not in offered.passes:
        raise BadInput(f"{offered.variant} has no pass {which!r}", cure=f"passes: {', '.join(offered.passes)}")
    kernel = offered.passes[which]
    found = footprint(kernel.source, kernel.entry)
    predicted = [predict(profile, found, arrays_in_registers=arrays) for profile in PROFILES]
    if as_json:
        rows = [_as_dict(one) for one in predicted]
        print_json({"variant": offered.variant, "pass": which, "is": NOTE, "kernel": found, "profiles": rows})
        return
    _show(f"{loaded.name} {offered.variant}  pass {which}", found, predicted)


def _as_dict(one: Residency) -> dict[str, Any]:
    return {
        "profile": one.profile.name,
        "words": one.words,
        "spilled_words": one.spilled_words,
        "workgroups": one.workgroups,
        "limiter": one.limiter,
        "limits": dict(one.limits),
        "share_of_threads": round(one.share, 4),
    }


def _show(title: str, kernel: Footprint, predicted: list[Residency]) -> None:
    from rich.table import Table

    from whet.cli.console import console
    from whet.units import percent

    click.echo(f"{title}: {NOTE}")
    click.echo(
        f"per thread {kernel.live_words} live words and {kernel.array_words} in arrays; "
        f"workgroups of {kernel.workgroup_threads} threads with {kernel.workgroup_bytes:,} bytes"
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("profile", "words", "spilled", "workgroups per core", "of its threads", "limited by"):
        table.add_column(heading, justify="left" if heading in ("profile", "limited by") else "right")
    for one in predicted:
        cells = (str(one.words), str(one.spilled_words or ""), f"{one.workgroups} per {one.profile.core}")
        table.add_row(one.profile.name, *cells, percent(one.share), one.limiter)
    console().print(table)
