"""What more batches buy: bytes against time, from the closed-form map alone. No device is asked.

The time is a model and says so. One addition costs ADDITION_NS, one pass PASS_NS whatever it does, and one more
submission SUBMISSION_NS. The first two follow published measurements of a sum of this kind on an integrated GPU
(Apple M2: 2^17 points in about 85 ms; M4: 105 us for an empty pass), the third is a round trip measured here. It knows
nothing of memory bandwidth or of batches too small to fill a device, so it flatters many batches;
`whet memory --measure` times real ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from whet.errors import DeviceOutOfMemory
from whet.msm.webgpu.geometry import Geometry
from whet.msm.webgpu.memory import Request, fit, total_bytes

NO_BUDGET = 1 << 62
ADDITION_NS = 30.0
PASS_NS = 105_000.0
SUBMISSION_NS = 300_000.0
MODEL = "30 ns per addition, 105 µs per pass, 0.3 ms per further submission"
SORT_PASSES, PLAN_PASSES, ACCUMULATE_PASSES, STORE_PASSES, GATHER_PASSES = 4, 3, 1, 1, 1


@dataclass(frozen=True)
class Point:
    """One way to cut a sum into batches. `sliced`: scalars are sent batch by batch and never lie there as a whole."""

    batches: int
    sliced: bool
    total_bytes: int
    passes: int
    estimated_ns: float


def additions(geometry: Geometry) -> int:
    """One per digit, two per bucket in the reduction."""
    return geometry.all_windows * (geometry.rows + 2 * geometry.columns)


def passes(geometry: Geometry, *, planned: bool) -> int:
    """Of all batches. `planned` is false for the reference accumulator, which needs no plan and no combining."""
    summing = PLAN_PASSES + ACCUMULATE_PASSES + geometry.combine_levels + STORE_PASSES if planned else ACCUMULATE_PASSES
    each = SORT_PASSES + summing + geometry.window_bits - 1 + GATHER_PASSES
    return each * len(geometry.batches)


def at(request: Request, geometry: Geometry) -> Point:
    """Bytes and estimated time of one geometry."""
    count = passes(geometry, planned=request.choice.accumulator != "gpu_plain")
    return Point(
        batches=len(geometry.batches),
        sliced=geometry.sliced,
        total_bytes=total_bytes(geometry, request.choice, request.resident),
        passes=count,
        estimated_ns=additions(geometry) * ADDITION_NS
        + count * PASS_NS
        + (SUBMISSION_NS * (len(geometry.batches) - 1) if geometry.sliced else 0.0),
    )


def frontier(request: Request) -> list[Point]:
    """What ever smaller budgets really give, the fewest bytes last: that is the floor.

    Each point is the choice of `fit` for its own bytes as the budget, so none is shown that a budget cannot buy.
    """
    found = []
    budget = NO_BUDGET
    unforced = replace(request, choice=replace(request.choice, batches=0))
    while True:
        try:
            found.append(at(unforced, fit(replace(unforced, memory_budget=budget))))
        except DeviceOutOfMemory:
            if found:
                return found
            raise
        budget = found[-1].total_bytes - 1
