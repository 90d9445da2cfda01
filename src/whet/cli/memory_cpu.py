"""`whet memory msm --variant affine`: the map of a sum on the CPU, and what a budget does to it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from whet.cli.console import console, print_json
from whet.errors import BadInput
from whet.msm import Engine, inputs
from whet.msm.affine import Affine
from whet.msm.budget import largest_piece, least_budget, reading_bytes
from whet.msm.engine import MAX_N
from whet.msm.oracle import known_multiples, require_right
from whet.protocol import MemoryRow, Variant
from whet.units import duration, percent, ratio

SHARES = (1.0, 0.8, 0.6, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05)
REPEATS = 3


@dataclass(frozen=True)
class Cut:
    """How a sum over n points is cut: points in memory at a time, and the map of a call with full-length scalars."""

    n: int
    budget_bytes: int | None
    piece: int
    rows: Sequence[MemoryRow]

    @property
    def total_bytes(self) -> int:
        return sum(row.size_bytes for row in self.rows)

    @property
    def pieces(self) -> int:
        return -(-self.n // max(1, self.piece))

    def __str__(self) -> str:
        return "points stay" if self.pieces == 1 else f"points read in {self.pieces} pieces by each call"


def cut(engine: Affine, n: int, budget_bytes: int | None) -> Cut:
    """In closed form: nothing of the size of the input is allocated."""
    if budget_bytes is None:
        engine.set_budget(0)
        return Cut(n, None, n, engine.memory_map(n, prepared=n))
    piece = largest_piece(engine, n, budget_bytes)
    read = MemoryRow("records being read", reading_bytes(piece), "read")
    return Cut(n, budget_bytes, piece, [*engine.memory_map(piece, prepared=piece), read])


def frontier(engine: Affine, n: int) -> list[Cut]:
    """Budgets from what a sum takes by itself down to the smallest that works."""
    free, floor_bytes = cut(engine, n, None), least_budget(engine, n)
    budgets = [int(share * free.total_bytes) for share in SHARES]
    return [free, *(cut(engine, n, budget) for budget in [*(b for b in budgets if b > floor_bytes), floor_bytes])]


def show(variant: Variant, n: int, budget_bytes: int | None, *, measure: bool, as_json: bool) -> None:
    if not 0 <= n <= MAX_N:
        raise BadInput(f"n = {n} is outside of 0 to {MAX_N}", cure="ask for less")
    knobs = variant.knobs
    backend, threads = str(knobs.get("backend", "auto")), int(knobs.get("threads", 0)) or None
    engine = Affine(backend, threads, int(knobs.get("windows", 0)))
    chosen, cuts = cut(engine, n, budget_bytes), frontier(engine, n)
    taken = _measured_ns(variant, cuts) if measure else [None] * len(cuts)
    if as_json:
        print_json(
            {
                "engine": "msm",
                "variant": str(variant),
                "n": n,
                "budget_bytes": budget_bytes,
                "map": [{"name": r.name, "size_bytes": r.size_bytes, "lifetime": r.lifetime} for r in chosen.rows],
                "total_bytes": chosen.total_bytes,
                "pieces": chosen.pieces,
                "floor_bytes": cuts[-1].budget_bytes,
                "frontier": [
                    {
                        "budget_bytes": c.budget_bytes,
                        "total_bytes": c.total_bytes,
                        "pieces": c.pieces,
                        "measured_ns": ns,
                    }
                    for c, ns in zip(cuts, taken, strict=True)
                ],
            }
        )
        return
    click.echo(f"msm {variant}  n={n:,}  {chosen}")
    _show_map(chosen)
    if budget_bytes is not None:
        click.echo(f"budget {budget_bytes / 1e6:.1f} MB: kept, {chosen.total_bytes / 1e6:.1f} MB, {chosen}")
    _show_frontier(cuts, taken)


def _show_map(chosen: Cut) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("block", "bytes", "share", "lifetime"):
        table.add_column(title, justify="right" if title in ("bytes", "share") else "left")
    for row in sorted(chosen.rows, key=lambda r: -r.size_bytes):
        share = percent(row.size_bytes / max(1, chosen.total_bytes))
        table.add_row(row.name, f"{row.size_bytes:,}", share, row.lifetime)
    table.add_row("total", f"{chosen.total_bytes:,}", f"{chosen.total_bytes / 1e6:.1f} MB", "")
    console().print(table)


def _show_frontier(cuts: Sequence[Cut], taken: Sequence[int | None]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("budget", "total", "pieces", *(["measured", "ratio"] if taken[0] else [])):
        table.add_column(title, justify="right")
    for one, ns in zip(cuts, taken, strict=True):
        budget = "none" if one.budget_bytes is None else f"{one.budget_bytes / 1e6:.1f} MB"
        cells = [budget, f"{one.total_bytes / 1e6:.1f} MB", str(one.pieces)]
        table.add_row(*cells, *([duration(ns), ratio(ns / taken[0])] if ns and taken[0] else []))
    click.echo("frontier" if taken[0] else "frontier (--measure times it here)")
    console().print(table)


def _measured_ns(variant: Variant, cuts: Sequence[Cut]) -> list[int | None]:
    """The best of a few calls at each budget, in turn, each on fresh scalars; one wrong sum and there are no times."""
    n = cuts[0].n
    logs = inputs.logs("random", n, 1)
    points, known = inputs.points_from_logs(logs), inputs.to_ints(logs)
    budgets = [one.budget_bytes for one in cuts]
    best: list[int | None] = [None] * len(cuts)
    for repeat in range(REPEATS):
        scalars = inputs.scalars("random", n, 2 + repeat)
        expected = known_multiples(known, inputs.to_ints(scalars))
        for number, budget in enumerate(budgets):
            with Engine(points, montgomery=True, check=False, variant=str(variant), memory_budget=budget) as engine:
                engine.compute(scalars[:1], size=1)
                start = time.perf_counter_ns()
                answer = engine.compute(scalars)
                spent = time.perf_counter_ns() - start
            require_right(answer, expected, f"{variant} within {budget or 'any number of'} bytes")
            best[number] = min(spent, best[number] or spent)
    return best
