"""`whet tune`: measure this machine once; `auto` then means the measured choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.budget import BudgetChoice
from whet.cli.plan_options import EngineName, run_and_store, shown_progress
from whet.errors import Cancelled, Unsupported, WhetError

if TYPE_CHECKING:
    from whet.evidence.record import Run
    from whet.gpu.tuned import Tuned

QUICK = BudgetChoice(name="quick")
MOST_ON_SOFTWARE = 3


@click.command("tune", short_help="measure this machine once; `auto` then means the measured choice")
@click.argument("engine", type=EngineName(), default="msm")
@click.option("--n", default="2^12", show_default=True, metavar="SIZE", help="The size of the trial.")
@click.option("--most", type=click.IntRange(2), help="Try that many candidates; on a software adapter 3 unless given.")
@click.option("--seed", type=click.IntRange(0, 2**62), help="Drives every random choice; drawn unless given.")
@options.store_path
@options.as_json
def command(**given: Any) -> None:
    """Gates and times the engine's candidates on this machine, CPU and GPU in one trial, and keeps the choice.

    The choice holds for this adapter, driver and version of whet. Without a clear winner the engine's safe default
    stays. The run behind it is stored like any other.
    """
    tune(**given)


def tune(*, engine: str, n: str, most: int | None, seed: int | None, store_path: Any, as_json: bool) -> None:
    from whet.cli.console import print_json
    from whet.cli.run_view import show_run
    from whet.cli.settings import open_store
    from whet.evidence import cases
    from whet.evidence.adapter import identify
    from whet.evidence.comparison import make_plan
    from whet.evidence.registry import load
    from whet.evidence.tune import conclude
    from whet.gpu.tuned import remember

    loaded = load(engine)
    offered = list(loaded.engine.candidates())
    if len(offered) < 2:
        raise Unsupported(f"engine {loaded.engine.name} offers nothing to choose from", cure="tune another engine")
    software = False
    if "webgpu" in loaded.engine.devices:
        try:
            software = identify("webgpu")["software"]
        except WhetError as error:
            raise Unsupported(
                f"there is no GPU to choose: {error.cause}; auto stays as it is", cure=error.cure
            ) from error
    chosen = offered[: most or (MOST_ON_SOFTWARE if software else len(offered))]
    plan = make_plan(loaded, chosen, device=None, seed=seed, clock="wall", call_limit_s=300.0)
    case = cases.choose(loaded.engine, cases.parse_sizes((), n), None)
    names = [str(variant) for variant in plan.variants]
    with open_store(store_path) as store, shown_progress(f"tune {loaded.engine.name} {case}") as show:
        run = run_and_store(store, loaded, plan, case, budget=QUICK, baseline=names[0], show=show)
    if run.interrupted:
        raise Cancelled(f"interrupted: nothing was chosen; run {run.id} holds what was measured", cure="tune again")
    on_adapter = {
        str(variant)
        for variant in plan.variants
        if loaded.engine.device_of(variant, plan.device).partition(":")[0] == "webgpu"
    }
    tuned = conclude(run, names[0], on_adapter)
    path = remember(tuned)
    if as_json:
        print_json({"file": str(path), "tuned": tuned})
        return
    show_run(run)
    _say(tuned, run)
    click.echo(f"kept in {path}; run {run.id}")


def _say(tuned: Tuned, run: Run) -> None:
    where = f"{tuned.adapter} ({tuned.driver})" if tuned.adapter else "this CPU"
    click.echo(f"auto for {tuned.engine} at {run.case} is now {tuned.best}: {tuned.because}")
    if tuned.best_on_adapter:
        click.echo(f"on {where} itself it is {tuned.best_on_adapter}")
    if tuned.software and tuned.best != tuned.best_on_adapter:
        click.echo("that adapter is software: the CPU computes either way, so the CPU's own engine wins as it should")
