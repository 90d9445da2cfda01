"""`whet sweep`: the same trial over axes, as a growth table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.subject import (
    EngineName,
    VariantName,
    budget_name,
    budget_options,
    make_plan,
    run_and_store,
    shown_progress,
    subject_options,
)
from whet.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from whet.protocol import Case, Engine

MAX_POINTS = 200


@click.command("sweep", short_help="the same over axes")
@click.argument("engine", type=EngineName())
@click.argument("variants", nargs=-1, type=VariantName(), metavar="[VARIANT]...")
@click.option(
    "--axis", "axes", multiple=True, required=True, metavar="AXIS=SIZE,SIZE...", help="Sizes to go through; repeatable."
)
@subject_options
@budget_options
@options.store_path
@options.as_json
def command(**given: Any) -> ExitCode:
    """How does each variant grow? One stored run per point; time, ratio, cost per element and fitted exponent.

    Without a variant it goes through all of them; the first one is the baseline.

    Exit codes: 3 if any variant is refused at any point, else 0.
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
    quick: bool,
    rigorous: bool,
    effect: float,
    store_path: Path | None,
    as_json: bool,
    **planned: Any,
) -> ExitCode:
    from whet.cli.console import print_json
    from whet.cli.growth_view import show_growth
    from whet.cli.settings import open_store
    from whet.evidence import cases
    from whet.evidence.registry import load

    budget = budget_name(quick, rigorous)
    loaded = load(engine)
    plan = make_plan(loaded, variants or [spec.name for spec in loaded.engine.variants()], **planned)
    points = grid(loaded.engine, axes, cases.parse_sizes(sizes, n), profile)
    runs = []
    with open_store(store_path) as store, shown_progress(f"sweep {loaded.engine.name}") as show:
        for number, case in enumerate(points):

            def shifted(share: float, note: str, number: int = number, case: Case = case) -> None:
                show((number + share) / len(points), f"{case}: {note}")

            base = str(plan.variants[0])
            runs.append(
                run_and_store(store, loaded, plan, case, budget=budget, baseline=base, effect=effect, show=shifted)
            )
    if as_json:
        print_json({"runs": runs})
    else:
        show_growth(runs)
    return ExitCode.REFUSED if any(not gate.green for run in runs for gate in run.gates) else ExitCode.OK


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
