"""`whet memory`: the closed-form memory map, what a budget does to it, and how low it can go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.subject import EngineName
from whet.errors import BadInput, DeviceOutOfMemory, Unsupported

if TYPE_CHECKING:
    from whet.msm.webgpu.frontier import Point
    from whet.msm.webgpu.memory import Request
    from whet.protocol import MemoryRow

MEASURED_ROWS = 4
REPEATS = 3


@click.command("memory", short_help="the memory map, the budget lever, the frontier")
@click.argument("engine", type=EngineName())
@click.option("--n", default="2^20", show_default=True, metavar="SIZE", help="Points; 2^20 is allowed.")
@click.option("--budget", metavar="BYTES", help="Fit into that much, points and staging included, such as 100MB.")
@click.option(
    "--variant",
    default="walker",
    show_default=True,
    metavar="VARIANT",
    help="A GPU variant with knobs, or affine for the CPU.",
)
@click.option("--measure", is_flag=True, help="Time some of the frontier on this machine's adapter.")
@options.as_json
def command(**given: Any) -> None:
    """Every byte that a sum allocates, by name. No GPU is needed, unless --measure is given for one of its variants.

    The map is what the tests hold against the ledger of real runs, to the byte. A budget is met by more batches over
    the windows, then by sending scalars batch by batch; the frontier shows what that costs by a stated model.
    """
    show_memory(**given)


def show_memory(*, engine: str, n: str, budget: str | None, variant: str, measure: bool, as_json: bool) -> None:
    from whet.cli.console import print_json
    from whet.evidence.registry import load
    from whet.msm.webgpu.estimate import MODEL
    from whet.msm.webgpu.frontier import at, frontier
    from whet.msm.webgpu.knobs import SPECS, Choice
    from whet.msm.webgpu.memory import Request, fit, memory_map
    from whet.protocol import choose_variant, parse_bytes, parse_size

    if engine != "msm":
        load(engine)
        raise Unsupported(f"engine {engine} has no budget lever", cure="its map is in the runs that `whet ab` stores")
    count = parse_size(n, what="n")
    allowed = None if budget is None else parse_bytes(budget, what="budget")
    if variant.partition(":")[0] == "affine":
        from whet.cli import memory_cpu
        from whet.msm.variants import choose

        memory_cpu.show(choose(variant), count, allowed, measure=measure, as_json=as_json)
        return
    chosen = choose_variant("msm on a GPU", list(SPECS.values()), variant)
    request = Request(count, Choice.of(chosen.name, chosen.knobs), count, memory_budget=allowed)
    points = frontier(request)
    try:
        point = at(request, fit(request))
    except DeviceOutOfMemory as error:
        raise BadInput(error.cause, cure=error.cure) from error
    rows = memory_map(count, request.choice, memory_budget=allowed)
    measured = _measured(request, points, str(chosen)) if measure else {}
    if as_json:
        print_json(
            {
                "engine": engine,
                "variant": str(chosen),
                "n": count,
                "budget_bytes": allowed,
                "map": [{"name": r.name, "size_bytes": r.size_bytes, "lifetime": r.lifetime} for r in rows],
                "total_bytes": point.total_bytes,
                "batches": point.batches,
                "scalars_sliced": point.sliced,
                "floor_bytes": min(p.total_bytes for p in points),
                "frontier": [_as_dict(p, measured) for p in points],
                "estimated_by": MODEL,
            }
        )
        return
    _show_map(str(chosen), request, point, rows)
    click.echo(f"floor: {_mb(points[-1].total_bytes)} with {_cut(points[-1])}")
    _show_frontier(points, measured)


def _as_dict(point: Point, measured: Mapping[int, int]) -> dict[str, Any]:
    return {
        "batches": point.batches,
        "scalars_sliced": point.sliced,
        "total_bytes": point.total_bytes,
        "passes": point.passes,
        "estimated_ns": round(point.estimated_ns),
        "measured_ns": measured.get(point.total_bytes),
    }


def _show_map(variant: str, request: Request, point: Point, rows: Sequence[MemoryRow]) -> None:
    from rich.table import Table

    from whet.cli.console import console
    from whet.units import percent

    click.echo(f"msm {variant}  n={request.n:,}  {_cut(point)}")
    table = Table(box=None, pad_edge=False)
    for title in ("buffer", "bytes", "share", "lifetime"):
        table.add_column(title, justify="right" if title in ("bytes", "share") else "left")
    for row in sorted(rows, key=lambda r: -r.size_bytes):
        table.add_row(row.name, f"{row.size_bytes:,}", percent(row.size_bytes / point.total_bytes), row.lifetime)
    table.add_row("total", f"{point.total_bytes:,}", _mb(point.total_bytes), "")
    console().print(table)
    if request.memory_budget is not None:
        click.echo(f"budget {_mb(request.memory_budget)}: kept, {_mb(point.total_bytes)} with {_cut(point)}")


def _show_frontier(points: Sequence[Point], measured: Mapping[int, int]) -> None:
    from rich.table import Table

    from whet.cli.console import console
    from whet.msm.webgpu.estimate import MODEL
    from whet.units import duration, ratio

    click.echo(f"frontier (the time is a model: {MODEL}; --measure times it here)")
    table = Table(box=None, pad_edge=False)
    for title in ("batches", "scalars", "total", "passes", "model", "ratio", *(["measured"] if measured else [])):
        table.add_column(title, justify="left" if title == "scalars" else "right")
    for p in points:
        cells = [str(p.batches), "sliced" if p.sliced else "whole", _mb(p.total_bytes), str(p.passes)]
        cells += [duration(p.estimated_ns), ratio(p.estimated_ns / points[0].estimated_ns)]
        taken = measured.get(p.total_bytes)
        table.add_row(*cells, *([duration(taken) if taken else ""] if measured else []))
    console().print(table)


def _cut(point: Point) -> str:
    return f"{point.batches} batch{'es' if point.batches > 1 else ''}, scalars {'sliced' if point.sliced else 'whole'}"


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _measured(request: Request, points: list[Point], variant: str) -> dict[int, int]:
    """The best of three calls at a few budgets along the frontier, first and last among them. By total bytes.

    Each call has fresh scalars and its sum is checked; one that is wrong and there are no times.
    """
    import time

    from whet._native import curve
    from whet.msm import Engine, inputs
    from whet.msm.oracle import known_multiples, require_right

    logs = inputs.logs("random", request.n, 1)
    table, known = curve.write_points(inputs.points_from_logs(logs)), inputs.to_ints(logs)
    vectors = [inputs.scalars("random", request.n, 2 + repeat) for repeat in range(REPEATS)]
    expected = [known_multiples(known, inputs.to_ints(scalars)) for scalars in vectors]
    step = max(1, (len(points) - 1) // (MEASURED_ROWS - 1))
    taken: dict[int, int] = {}
    for point in [*points[:-1:step], points[-1]]:
        with Engine(table, check=False, device="webgpu", variant=variant, memory_budget=point.total_bytes) as sums:
            sums.compute(vectors[0])
            spent = []
            for scalars, right in zip(vectors, expected, strict=True):
                start = time.monotonic_ns()
                answer = sums.compute(scalars)
                spent.append(time.monotonic_ns() - start)
                require_right(answer, right, f"{variant} within {point.total_bytes} bytes")
        taken[point.total_bytes] = min(spent)
    return taken
