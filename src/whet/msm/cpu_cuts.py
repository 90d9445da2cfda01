"""What memory does to a sum on the CPU, in closed form: multiples of points, then pieces, down to the floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whet.errors import BadInput
from whet.msm.affine import Affine
from whet.msm.budget import largest_piece, least_budget, reading_bytes
from whet.msm.options import PRECOMPUTE, within
from whet.protocol import BudgetFrontier, BudgetStep, MemoryRow, Variant

OFFERED_PRECOMPUTE = (2, 4, 8, 16)
SHARES = (1.0, 0.8, 0.6, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05)


@dataclass(frozen=True)
class Cut:
    """How a sum over n points is cut: points in memory at a time, and the map of a call with full-length scalars."""

    n: int
    budget_bytes: int | None
    piece: int
    rows: Sequence[MemoryRow]
    multiples: int = 1

    @property
    def total_bytes(self) -> int:
        return sum(row.size_bytes for row in self.rows)

    @property
    def pieces(self) -> int:
        return -(-self.n // max(1, self.piece))

    def __str__(self) -> str:
        if self.pieces > 1:
            return f"points read in {self.pieces} pieces by each call"
        return "points stay" if self.multiples == 1 else f"points stay, {self.multiples} multiples of each"

    def step(self, variant: Variant) -> BudgetStep:
        facts = {"budget_bytes": self.budget_bytes, "pieces": self.pieces, "multiples": self.multiples}
        like_this = Variant(variant.name, {**variant.knobs, PRECOMPUTE.name: self.multiples})
        return BudgetStep(self.total_bytes, str(self), facts, within(like_this, self.budget_bytes))


def cut(engine: Affine, n: int, budget_bytes: int | None) -> Cut:
    """In closed form: nothing of the size of the input is allocated."""
    if budget_bytes is None:
        engine.set_budget(0)
        return Cut(n, None, n, engine.memory_map(n, prepared=n), engine.multiples_of(n))
    piece = largest_piece(engine, n, budget_bytes)
    read = MemoryRow("records being read", reading_bytes(piece), "read")
    return Cut(n, budget_bytes, piece, [*engine.memory_map(piece, prepared=piece), read], engine.multiples_of(n))


def cuts(engine: Affine, n: int) -> list[Cut]:
    """Budgets from what a sum takes by itself down to the smallest that works."""
    free, floor_bytes = cut(engine, n, None), least_budget(engine, n)
    budgets = [int(share * free.total_bytes) for share in SHARES]
    return [free, *(cut(engine, n, budget) for budget in [*(b for b in budgets if b > floor_bytes), floor_bytes])]


def cpu_frontier(variant: Variant, n: int, budget_bytes: int | None, most: int) -> BudgetFrontier:
    if not 0 <= n <= most:
        raise BadInput(f"n = {n} is outside of 0 to {most}", cure="ask for less")
    knobs = variant.knobs
    budget_bytes = budget_bytes or int(knobs.get("memory_budget", 0)) or None
    backend, threads = str(knobs.get("backend", "auto")), int(knobs.get("threads", 0)) or None
    windows, precompute = int(knobs.get("windows", 0)), int(knobs.get("precompute", 1))

    def engine_with(most: int) -> Affine:
        return Affine(backend, threads, windows, most)

    chosen = cut(engine_with(precompute), n, budget_bytes)
    smaller = cuts(engine_with(1), n)
    richer = {one.multiples: one for one in (cut(engine_with(most), n, None) for most in OFFERED_PRECOMPUTE)}
    more = [one for one in richer.values() if one.multiples > 1]
    offered = sorted([*more, *smaller], key=lambda one: -one.total_bytes)
    return BudgetFrontier(
        variant=str(variant),
        n=n,
        rows=chosen.rows,
        chosen=chosen.step(variant),
        steps=[one.step(variant) for one in offered],
        floor_bytes=smaller[-1].budget_bytes or 0,
    )
