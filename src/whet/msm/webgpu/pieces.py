"""Where points are between calls: they stay, they are sent in pieces, or x and a sign stay and each call recovers y.

Points stay on the device wherever a budget holds them. Below that a sum is done in pieces, each a sum of its own with a
plan of its own size, and the host adds their points. Of `pieces` only one is on the device, sent by each call anew; of
`compressed` points x and signs stay, and each piece begins with the roots of its points. Both reduce the buckets once
per piece, so the fewest pieces are taken; which of the two it is, the model of `estimate` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from whet.errors import DeviceOutOfMemory
from whet.msm.webgpu.estimate import upload_ns
from whet.msm.webgpu.frontier import NO_BUDGET, Point, at, frontier
from whet.msm.webgpu.knobs import AUTO, COMPRESSED, PIECES, RESIDENT
from whet.msm.webgpu.memory import Way, fit, memory_map, ways
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import points_bytes
from whet.protocol import MemoryRow

MOST_PIECES = 64
LEAST_POINTS = 256  # of a piece: below that its passes are hardly worth their overhead
BELOW_THE_FLOOR = (PIECES, COMPRESSED)


@dataclass(frozen=True)
class Placement:
    """Where the points of a request are. `piece` is the request of the largest piece; one piece is all points."""

    piece: Request
    pieces: int

    @property
    def points(self) -> str:
        return self.piece.choice.points

    @cached_property
    def point(self) -> Point:
        """Bytes and estimated time of a call with all points, in the cut that the budget buys."""
        return self.priced(at(self.piece, fit(self.piece)))

    def priced(self, one: Point) -> Point:
        """What all pieces take together, if each is like this one."""
        each_ns = one.estimated_ns
        if self.points == PIECES:
            each_ns += upload_ns(points_bytes(self.piece.choice, self.piece.n))
        return replace(
            one,
            points=self.points,
            pieces=self.pieces,
            passes=self.pieces * one.passes,
            estimated_ns=self.pieces * each_ns,
        )


def place(request: Request) -> Placement:
    """As the knob `points` says. Where that is `auto`: they stay if the budget holds them, else the faster of the two
    ways in pieces.
    """
    asked = request.choice.points
    if asked in BELOW_THE_FLOOR:
        return _fewest(request, asked)
    try:
        fit(request)
    except DeviceOutOfMemory:
        if asked == RESIDENT:
            raise
        return _faster(request)
    return _placed(request, RESIDENT, 1)


def map_of(request: Request) -> list[MemoryRow]:
    """The memory map of the largest piece: what a call with all points has on the device at its peak."""
    piece = place(request).piece
    return memory_map(
        piece.n,
        piece.choice,
        limits=piece.limits,
        memory_budget=piece.memory_budget,
        resident=piece.resident,
        vectors=piece.vectors,
    )


def whole_frontier(request: Request) -> list[Point]:
    """What ever smaller budgets give, wherever points may be: each step is what its own bytes as the budget buy."""
    asked = request.choice.points
    found = frontier(request) if asked in (AUTO, RESIDENT) else []
    if asked == RESIDENT:
        return found
    floor = found[-1].total_bytes if found else NO_BUDGET
    ladders = [_ladder(request, kind) for kind in BELOW_THE_FLOOR if asked in (AUTO, kind)]
    budgets = {way.total_bytes for ladder in ladders for _, all_ways in ladder for way in all_ways}
    for budget in sorted(budgets, reverse=True):
        bought = [point for ladder in ladders if (point := _bought(ladder, budget)) is not None]
        point = min(bought, key=lambda one: one.estimated_ns)
        if point.total_bytes == budget < floor:
            found.append(point)
    return found


def cut(n: int, most: int) -> list[tuple[int, int]]:
    """The parts of n points, as even as can be, none above `most`."""
    parts = -(-n // most)
    return [(n * i // parts, n * (i + 1) // parts) for i in range(parts)]


def _faster(request: Request) -> Placement:
    """Of the two ways in pieces."""
    found, refused = [], []
    for kind in BELOW_THE_FLOOR:
        try:
            found.append(_fewest(request, kind))
        except DeviceOutOfMemory as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return min(found, key=lambda one: one.point.estimated_ns)


def _fewest(request: Request, kind: str) -> Placement:
    """The fewest pieces, a power of two, of which the budget holds one."""
    for pieces in _counts(request):
        placement = _placed(request, kind, pieces)
        try:
            fit(placement.piece)
        except DeviceOutOfMemory as error:
            refused = error
        else:
            return placement
    raise refused


def _placed(request: Request, kind: str, pieces: int) -> Placement:
    points = -(-request.n // pieces)
    choice = replace(request.choice, points=kind)
    if kind == PIECES:
        return Placement(replace(request, choice=choice, n=points, resident=points, offset=0), pieces)
    return Placement(replace(request, choice=choice, n=points), pieces)


def _counts(request: Request) -> Iterator[int]:
    """Two pieces at least, unless there are too few points for that."""
    if request.n < 2 * LEAST_POINTS:
        yield 1
    pieces = 2
    while pieces <= MOST_PIECES and request.n >= pieces * LEAST_POINTS:
        yield pieces
        pieces *= 2


def _ladder(request: Request, kind: str) -> list[tuple[Placement, list[Way]]]:
    """Every number of pieces with all ways to cut one of them, the fastest first."""
    unforced = replace(request, choice=replace(request.choice, batches=0), memory_budget=NO_BUDGET)
    placements = [_placed(unforced, kind, pieces) for pieces in _counts(request)]
    return [(placement, ways(placement.piece)) for placement in placements]


def _bought(ladder: list[tuple[Placement, list[Way]]], budget: int) -> Point | None:
    """What `place` would buy with a budget: the fewest pieces that fit, in the fastest cut that does."""
    for placement, all_ways in ladder:
        for way in all_ways:
            if way.total_bytes <= budget:
                return placement.priced(at(placement.piece, way.geometry))
    return None
