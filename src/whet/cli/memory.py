"""`whet memory`: the closed-form memory map, what a budget does to it, and how low it can go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.plan_options import EngineName

if TYPE_CHECKING:
    from whet.protocol import BudgetFrontier


@click.command("memory", short_help="the memory map, the budget lever, the frontier")
@click.argument("engine", type=EngineName())
@click.option("--n", default="2^20", show_default=True, metavar="SIZE", help="The size of the input; 2^20 is allowed.")
@click.option("--budget", metavar="BYTES", help="Fit into that much, inputs and staging included, such as 100MB.")
@click.option("--variant", metavar="VARIANT", help="With knobs; the engine's own choice unless given.")
@click.option("--measure", is_flag=True, help="Time some of the frontier on this machine, behind the gate.")
@options.as_json
def command(**given: Any) -> None:
    """Every byte that a call allocates, by name. No GPU is needed, unless --measure is given for one of its variants.

    \b
    whet memory msm --budget 100MB
    whet memory msm --variant affine --n 2^16

    The map is what the tests hold against real runs, to the byte. The frontier shows what ever smaller budgets cost.
    """
    show_memory(**given)


def show_memory(*, engine: str, n: str, budget: str | None, variant: str | None, measure: bool, as_json: bool) -> None:
    from whet.cli.console import print_json
    from whet.evidence.green_turns import frontier_times
    from whet.evidence.registry import load
    from whet.protocol import parse_bytes, parse_size

    loaded = load(engine)
    name = loaded.engine.name
    count = parse_size(n, what="n")
    allowed = None if budget is None else parse_bytes(budget, what="budget")
    found = loaded.engine.budget_frontier(variant, count, allowed)
    taken = frontier_times(loaded, found) if measure else [None] * len(found.steps)
    if as_json:
        print_json(_as_dict(name, found, allowed, taken))
        return
    _show_map(name, found, allowed)
    click.echo(f"floor: {_mb(found.floor_bytes)} with {found.steps[-1].words}")
    _show_frontier(found, taken)


def _as_dict(
    engine: str, found: BudgetFrontier, budget_bytes: int | None, taken: Sequence[int | None]
) -> dict[str, Any]:
    return {
        "engine": engine,
        "variant": found.variant,
        "n": found.n,
        **found.chosen.facts,
        "budget_bytes": budget_bytes,
        "map": [{"name": r.name, "size_bytes": r.size_bytes, "lifetime": r.lifetime} for r in found.rows],
        "total_bytes": found.chosen.total_bytes,
        "floor_bytes": found.floor_bytes,
        "frontier": [
            {**step.facts, "total_bytes": step.total_bytes, "measured_ns": ns}
            for step, ns in zip(found.steps, taken, strict=True)
        ],
        **({"estimated_by": found.model} if found.model else {}),
    }


def _show_map(engine: str, found: BudgetFrontier, budget_bytes: int | None) -> None:
    from rich.table import Table

    from whet.cli.console import console
    from whet.units import percent

    total_bytes, words = found.chosen.total_bytes, found.chosen.words
    click.echo(f"{engine} {found.variant}  n={found.n:,}  {words}")
    table = Table(box=None, pad_edge=False)
    for title in ("buffer", "bytes", "share", "lifetime"):
        table.add_column(title, justify="right" if title in ("bytes", "share") else "left")
    for row in sorted(found.rows, key=lambda r: -r.size_bytes):
        table.add_row(row.name, f"{row.size_bytes:,}", percent(row.size_bytes / max(1, total_bytes)), row.lifetime)
    table.add_row("total", f"{total_bytes:,}", _mb(total_bytes), "")
    console().print(table)
    if budget_bytes is not None:
        click.echo(f"budget {_mb(budget_bytes)}: kept, {_mb(total_bytes)} with {words}")


def _show_frontier(found: BudgetFrontier, taken: Sequence[int | None]) -> None:
    from rich.table import Table

    from whet.cli.console import console
    from whet.units import duration, ratio

    measured = any(taken)
    model = f"the time is a model: {found.model}" if found.model else ""
    notes = "; ".join(filter(None, (model, "" if measured else "--measure times it here")))
    click.echo(f"frontier ({notes})" if notes else "frontier")
    names = list(found.steps[0].facts)
    table = Table(box=None, pad_edge=False)
    for title in (*map(_heading, names), "total", *(["measured", "ratio"] if measured else [])):
        table.add_column(title, justify="right")
    for step, ns in zip(found.steps, taken, strict=True):
        cells = [*(_cell(name, step.facts[name]) for name in names), _mb(step.total_bytes)]
        if measured:
            cells += [duration(ns) if ns else "", ratio(ns / taken[0]) if ns and taken[0] else ""]
        table.add_row(*cells)
    console().print(table)


def _heading(name: str) -> str:
    return name.removesuffix("_bytes").removesuffix("_ns").replace("_", " ")


def _cell(name: str, value: int | None) -> str:
    from whet.units import duration

    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes"):
        return _mb(value)
    return duration(value) if name.endswith("_ns") else str(value)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
