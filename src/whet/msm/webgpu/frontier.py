"""What more batches buy: bytes against time, from the closed-form map alone. No device is asked.

The time is a model and says so. One addition costs ADDITION_NS, one pass PASS_NS whatever it does, and one more
submission SUBMISSION_NS. The first two follow published measurements of a sum of this kind on an integrated GPU
(Apple M2: 2^17 points in about 85 ms; M4: 105 us for an empty pass), the third is a round trip measured here. It knows
nothing of memory bandwidth or of batches too small to fill a device, so it flatters many batches;
`whet memory --measure` times real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whet.msm.webgpu.geometry import Geometry
from whet.msm.webgpu.memory import FLOOR_BINDING_BYTES, Request, buffer_sizes, fit, total_bytes

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
    """Every cut that no other beats in both bytes and estimated time, fewest batches first. The last is the floor."""
    unbound = replace(request, memory_budget=None, choice=replace(request.choice, batches=0))
    start = fit(unbound)
    may_slice = not request.choice.glv and request.vectors == 1
    found = []
    for sliced in (False, True) if may_slice else (False,):
        for count in range(1, start.all_windows + 1):
            geometry = replace(start, batch_count=count, sliced=sliced)
            binding = unbound.limits.get("max-storage-buffer-binding-size", FLOOR_BINDING_BYTES)
            if max(buffer_sizes(geometry, unbound.choice, unbound.resident).values()) <= binding:
                found.append(at(unbound, geometry))
    return _undominated(found)


def _undominated(points: Sequence[Point]) -> list[Point]:
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.estimated_ns, p.total_bytes, p.sliced)):
        if not kept or point.total_bytes < kept[-1].total_bytes:
            kept.append(point)
    return kept
