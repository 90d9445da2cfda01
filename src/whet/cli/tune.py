"""`whet tune`: measure this machine once; `auto` then means the measured choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.budget import BudgetChoice
from whet.cli.plan_options import EngineName, run_and_store, shown_progress
from whet.errors import BadInput, Cancelled, Unsupported, WhetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whet.evidence.elsewhere import Elsewhere
    from whet.evidence.record import Run
    from whet.evidence.registry import Loaded
    from whet.evidence.store import Store
    from whet.evidence.tune import Tried
    from whet.gpu.tuned import Tuned
    from whet.protocol import Case, Engine

QUICK = BudgetChoice(name="quick")
# A software adapter is as fast as its CPU at every size, and slow: one size and few candidates say all there is.
MOST_ON_SOFTWARE = 3
SIZES, SIZES_ON_SOFTWARE = "2^10,2^12,2^14,2^16,2^18", "2^12"


@click.command("tune", short_help="measure this machine once; `auto` then means the measured choice")
@click.argument("engine", type=EngineName(), default="msm")
@click.option(
    "--n",
    metavar="SIZE,...",
    help=f"Sizes to measure; {SIZES} unless given, on a software adapter {SIZES_ON_SOFTWARE}.",
)
@click.option("--most", type=click.IntRange(2), help="Try that many candidates; on a software adapter 3 unless given.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was tried, as .csv or as JSON; as .js what won, for the web package to ship.",
)
@click.option(
    "--device", metavar="NAME", help="Measure a device elsewhere instead: lab:NAME, browser or webdriver:URL."
)
@click.option("--seed", type=click.IntRange(0, 2**62), help="Drives every random choice; drawn unless given.")
@options.store_path
@options.as_json
def command(**given: Any) -> None:
    """Gates and times the engine's candidates on this machine, CPU and GPU in one trial per size, and keeps what won.

    A choice holds for its size class (2^11 to 2^13 - 1 for 2^12), this adapter, its driver and this version of whet.
    Without a clear winner the engine's safe default stays. The runs behind it are stored like any other.
    """
    tune(**given)


def tune(
    *,
    engine: str,
    n: str | None,
    most: int | None,
    export: Path | None,
    seed: int | None,
    store_path: Any,
    as_json: bool,
    device: str | None = None,
) -> None:
    from whet.cli.console import print_json
    from whet.cli.output import require_writable, write_text
    from whet.cli.settings import open_store
    from whet.evidence import cases
    from whet.evidence.elsewhere import is_elsewhere, reached
    from whet.evidence.registry import load
    from whet.evidence.tune import conclude, exported, table
    from whet.gpu.tuned import remember
    from whet.msm.webgpu.web_table import web_table

    require_writable(export)
    loaded = load(engine)
    if len(loaded.engine.candidates(loaded.engine.cases()[0])) < 2:
        raise Unsupported(f"engine {loaded.engine.name} offers nothing to choose from", cure="tune another engine")
    if device is not None and not is_elsewhere(device):
        raise BadInput(f"{device!r} is no device elsewhere", cure="leave --device out to measure this machine")
    shipped = export is not None and export.suffix == ".js"
    if shipped and (device is None or loaded.engine.name != "msm"):
        raise BadInput(
            "the web package ships what browsers do with sums", cure="give --device, or export .csv or .json"
        )
    found, rows = [], []
    with open_store(store_path) as store, reached(device) as place:
        software = bool(place.facts()["software"]) if place is not None else _is_software(loaded.engine)
        most = most or (MOST_ON_SOFTWARE if software else None)
        spelled = n or (SIZES_ON_SOFTWARE if software else SIZES)
        for size in [cases.parse_sizes((), size) for size in spelled.split(",")]:
            case = cases.choose(loaded.engine, size, None)
            run, on_adapter = _measured(loaded, case, most, seed, store, device=device, place=place)
            tuned = conclude(run, run.baseline, on_adapter)
            path = remember(tuned)
            found.append(tuned)
            rows += table(run, tuned)
            if export is not None:  # after every size, so that an interrupt loses nothing
                told = web_table(found, place.facts()) if shipped and place is not None else ""
                write_text(export, told or exported(rows, csv=export.suffix == ".csv"))
            if not as_json:
                _show(run, tuned)
    if as_json:
        print_json({"file": str(path), "tuned": found, "tried": rows})
    else:
        _show_table(rows)
        click.echo(f"kept in {path}" + (f"; what was tried is in {export}" if export else ""))


def _is_software(engine: Engine) -> bool:
    """Whether the adapter of an engine for GPUs is software; without any adapter there is nothing to choose."""
    from whet.evidence.adapter import identify

    if "webgpu" not in engine.devices:
        return False
    try:
        return bool(identify("webgpu")["software"])
    except WhetError as error:
        raise Unsupported(f"there is no GPU to choose: {error.cause}; auto stays as it is", cure=error.cure) from error


def _measured(
    loaded: Loaded,
    case: Case,
    most: int | None,
    seed: int | None,
    store: Store,
    *,
    device: str | None = None,
    place: Elsewhere | None = None,
) -> tuple[Run, set[str]]:
    """A trial of the candidates for this case, and which of them run on the adapter."""
    from whet.evidence.comparison import make_plan

    offered = list(loaded.engine.candidates(case))
    if device is not None:
        offered = [text for text in offered if _is_for_gpus(loaded.engine, text)]
    plan = make_plan(loaded, offered[:most], device=device, seed=seed, clock="wall", call_limit_s=300.0)
    plan = replace(plan, elsewhere=place)
    with shown_progress(f"tune {loaded.engine.name} {case}") as show:
        run = run_and_store(store, loaded, plan, case, budget=QUICK, baseline=str(plan.variants[0]), show=show)
    if run.interrupted:
        raise Cancelled(f"interrupted: nothing was chosen; run {run.id} holds what was measured", cure="tune again")
    if place is not None:
        return run, {str(variant) for variant in plan.variants}
    devices = {str(variant): loaded.engine.device_of(variant, plan.device) for variant in plan.variants}
    return run, {name for name, device in devices.items() if device.partition(":")[0] == "webgpu"}


def _is_for_gpus(engine: Engine, text: str) -> bool:
    from whet.protocol import parse_variant

    return engine.device_of(parse_variant(engine, text), engine.devices[0]).startswith("webgpu")


def _show(run: Run, tuned: Tuned) -> None:
    from whet.cli.run_view import show_run

    show_run(run)
    where = f"{tuned.adapter} ({tuned.driver})" if tuned.adapter else "this CPU"
    click.echo(f"auto for {tuned.engine} at {run.case} is now {tuned.best}: {tuned.because}")
    if tuned.best_on_adapter:
        click.echo(f"on {where} itself it is {tuned.best_on_adapter}")
    if tuned.software and tuned.best != tuned.best_on_adapter:
        click.echo("that adapter is software: the CPU computes either way, so the CPU's own engine wins as it should")
    click.echo(f"run {run.id}\n")


def _show_table(rows: Sequence[Tried]) -> None:
    from rich.table import Table

    from whet import units
    from whet.cli.console import console

    shown = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("sizes", "tried", "time per call", "ratio", "verdict", "chosen"):
        shown.add_column(heading, justify="right" if heading in ("time per call", "ratio") else "left")
    for row in rows:
        low, high = row.size_class - 1, row.size_class + 1
        time = units.duration(row.time_ns) if row.time_ns else units.NOTHING
        ratio = units.ratio(row.ratio) if row.ratio else ""
        shown.add_row(f"2^{low} to 2^{high} - 1", row.variant, time, ratio, row.outcome, row.chosen)
    console().print(shown)
