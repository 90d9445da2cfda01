"""What a budget buys: bytes against estimated time, from the closed-form map alone. No device is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from whet.msm.webgpu.estimate import estimated_ns, passes
from whet.msm.webgpu.geometry import Geometry
from whet.msm.webgpu.knobs import RESIDENT
from whet.msm.webgpu.memory import ways
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import total_bytes

NO_BUDGET = 1 << 62


@dataclass(frozen=True)
class Point:
    """One way to cut a sum into batches. `sliced`: scalars are sent batch by batch and never lie there as a whole.

    `points` says where they are between calls: they stay, are sent in pieces, or stay as x and a sign. A sum over as
    many `pieces` is done one after the other, each in these batches.
    """

    batches: int
    sliced: bool
    total_bytes: int
    passes: int
    estimated_ns: float
    points: str = RESIDENT
    pieces: int = 1


def at(request: Request, geometry: Geometry) -> Point:
    """Bytes and estimated time of one geometry."""
    choice = request.choice
    return Point(
        batches=geometry.batch_count,
        sliced=geometry.sliced,
        total_bytes=total_bytes(geometry, choice, request.resident),
        passes=passes(geometry, choice),
        estimated_ns=estimated_ns(geometry, choice),
    )


def frontier(request: Request) -> list[Point]:
    """What ever smaller budgets really give, the fewest bytes last: that is the floor.

    Each point is the choice of `fit` for its own bytes as the budget, so none is shown that a budget cannot buy.
    """
    unforced = replace(request, choice=replace(request.choice, batches=0), memory_budget=NO_BUDGET)
    found: list[Point] = []
    for way in ways(unforced):
        if not found or way.total_bytes < found[-1].total_bytes:
            found.append(at(unforced, way.geometry))
    return found
