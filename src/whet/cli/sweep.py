"""`whet sweep`: the same trial over axes, as a growth table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.budget import BudgetChoice, budget_options
from whet.cli.on_cluster import Away, on_options
from whet.cli.plan_options import (
    EngineName,
    VariantName,
    plan_options,
    run_and_store,
    shown_progress,
)
from whet.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from whet.cluster.everywhere import Gathered
    from whet.evidence.record import Run
    from whet.protocol import Case, Engine

MAX_POINTS = 200


@click.command("sweep", short_help="the same over axes")
@click.argument("engine", type=EngineName())
@click.argument("variants", nargs=-1, type=VariantName(), metavar="[VARIANT]...")
@click.option(
    "--axis",
    "axes",
    multiple=True,
    required=True,
    metavar="AXIS=VALUE,VALUE...",
    help="Sizes or values of a knob to go through; repeatable.",
)
@plan_options
@budget_options
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write an HTML report: growth of every variant, and where one overtakes another.",
)
@on_options
@options.store_path
@options.as_json
def command(**given: Any) -> ExitCode:
    """How does each variant grow? One stored run per point; time, ratio, cost per element and fitted exponent.

    \b
    whet sweep msm affine pippenger --axis n=2^10,2^12,2^14
    whet sweep msm walker --axis slots=1,4,16 --n 2^12

    Each value of a knob is a variant, timed beside the others. Without a variant it goes through all of them;
    the first one is the baseline. With --on every kind of machine of a Ray cluster goes through all points, and the
    machines of a kind share them.

    Exit codes: 3 if any variant is refused at any point, else 4 if --on has no run of some kind, else 0.
    """
    return sweep(**given)


def sweep(
    *,
    engine: str,
    variants: tuple[str, ...],
    axes: tuple[str, ...],
    n: str | None,
    sizes: tuple[str, ...],
    profile: str | None,
    budget: BudgetChoice,
    away: Away | None,
    report: Path | None,
    store_path: Path | None,
    as_json: bool,
    **planned: Any,
) -> ExitCode:
    from whet.cli.console import print_json
    from whet.cli.growth_view import show_growth
    from whet.cli.on_cluster import exit_code_of, run_away
    from whet.cli.output import require_writable, write_report
    from whet.cli.settings import open_store
    from whet.evidence import cases
    from whet.evidence.comparison import make_plan
    from whet.evidence.elsewhere import reached
    from whet.evidence.registry import load

    require_writable(report)
    loaded = load(engine)
    named = variants or tuple(spec.name for spec in loaded.engine.variants())
    size_axes, knob_axes = split_axes(loaded.engine, named, axes)
    spelled = with_knobs(loaded.engine, named, knob_axes)
    points = grid(loaded.engine, size_axes, cases.parse_sizes(sizes, n), profile)
    if away is not None:
        found = run_away(away, loaded, spelled, points, budget=budget, planned=planned, store_path=store_path)
        _show_away(away.address, found, as_json=as_json)
        write_report(report, found.runs, quiet=as_json)
        return exit_code_of(found, _exit_code(found.runs))
    devices = every_device(planned.pop("device", None))
    plans = [make_plan(loaded, spelled, device=device, **planned) for device in devices]
    runs = []
    with open_store(store_path) as store, shown_progress(f"sweep {loaded.engine.name}") as show:
        for at, plan in enumerate(plans):
            with reached(plan.device) as place:
                there = replace(plan, elsewhere=place)
                for number, case in enumerate(points):
                    done, where = at * len(points) + number, f"{plan.device} {case}"

                    def shifted(share: float, note: str, done: int = done, where: str = where) -> None:
                        show((done + share) / len(points) / len(plans), f"{where}: {note}")

                    base = str(plan.variants[0])
                    runs.append(run_and_store(store, loaded, there, case, budget=budget, baseline=base, show=shifted))
                    if runs[-1].interrupted:
                        break
            if runs[-1].interrupted:
                break
    if as_json:
        print_json({"runs": runs})
    else:
        for plan in plans:
            own = [run for run in runs if run.device == plan.device]
            if own:
                show_growth(own)
    write_report(report, runs, quiet=as_json)
    return _exit_code(runs)


def _show_away(address: str, found: Gathered, *, as_json: bool) -> None:
    from whet.cli.console import print_json
    from whet.cli.growth_view import show_growth
    from whet.cli.on_cluster import as_records, show_gathered

    if as_json:
        return print_json(as_records(address, found))
    for kind in dict.fromkeys(one.kind for one in found.outcomes):
        if own := [one.run for one in found.outcomes if one.kind == kind and one.run is not None]:
            show_growth(own)
    show_gathered(found)


def _exit_code(runs: Sequence[Run]) -> ExitCode:
    if any(run.interrupted for run in runs):
        return ExitCode.INTERRUPTED
    return ExitCode.REFUSED if any(not gate.green for run in runs for gate in run.gates) else ExitCode.OK


def every_device(device: str | None) -> list[str | None]:
    """The device asked for; `lab:all` is every one that is connected to this user's lab."""
    if device != "lab:all":
        return [device]
    from whet.lab.operator_link import Operator

    found: list[str | None] = [f"lab:{one.name}" for one in Operator().devices()]
    if not found:
        raise BadInput("no device is connected to the lab", cure="open the page on one: whet lab shows the link")
    return found


def split_axes(engine: Engine, variants: Sequence[str], axes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Axes of the case, and those that are knobs of a variant that takes part."""
    from whet.evidence import cases
    from whet.evidence.asked_variants import read_variant

    known = set(engine.cases()[0].sizes)
    offered = _knobs(engine)
    chosen = [read_variant(engine, text) for text in variants]
    knobs = {knob for variant in chosen if not variant.file for knob in offered[variant.name]} - known
    for text in axes:
        if (axis := cases.axis_of(text)) not in known | knobs:
            cure = f"axes: {', '.join(sorted(known))}" + (f"; knobs: {', '.join(sorted(knobs))}" if knobs else "")
            raise BadInput(f"engine {engine.name} has no axis {axis!r}", cure=cure)
    of_knobs = [text for text in axes if cases.axis_of(text) in knobs]
    return [text for text in axes if text not in of_knobs], of_knobs


def with_knobs(engine: Engine, variants: Sequence[str], axes: Sequence[str]) -> list[str]:
    """Each variant once per value of a knob that it has; the others as they are."""
    offered, spelled = _knobs(engine), list(variants)
    for text in axes:
        knob, _, values = text.partition("=")
        knob = knob.strip()
        grown = []
        for variant in spelled:
            if knob in offered.get(variant.partition(":")[0], ()):
                joint = "," if ":" in variant else ":"
                grown += [f"{variant}{joint}{knob}={value.strip()}" for value in values.split(",")]
            else:
                grown.append(variant)
        spelled = grown
    if len(spelled) > MAX_POINTS:
        raise BadInput(f"more than {MAX_POINTS} variants", cure="sweep fewer values at once")
    return spelled


def _knobs(engine: Engine) -> dict[str, set[str]]:
    return {spec.name: {knob.name for knob in spec.knobs} for spec in engine.variants()}


def grid(engine: Engine, axes: Sequence[str], sizes: dict[str, int], profile: str | None) -> list[Case]:
    """Every combination of the axes, in the order given."""
    from whet.evidence import cases

    named = [cases.parse_axis(text) for text in axes]
    names = [name for name, _ in named]
    if len(set(names)) != len(names) or set(names) & set(sizes):
        raise BadInput("an axis is given twice", cure="give each axis once, with --axis or with --size")
    combinations = list(itertools.islice(itertools.product(*(values for _, values in named)), MAX_POINTS + 1))
    if len(combinations) > MAX_POINTS:
        raise BadInput(f"more than {MAX_POINTS} points", cure="sweep fewer values at once")
    return [
        cases.choose(engine, {**sizes, **dict(zip(names, values, strict=True))}, profile) for values in combinations
    ]
