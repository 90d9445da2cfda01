"""The closed-form memory map of a sum, equal to the device's ledger to the byte, and what a budget buys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from whet.errors import DeviceOutOfMemory
from whet.msm.webgpu.cuts import Cuts
from whet.msm.webgpu.estimate import estimated_ns, least_ns
from whet.msm.webgpu.geometry import Geometry
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import POINT_BYTES, buffer_sizes, kept_buffers, total_bytes
from whet.protocol import MemoryRow

# Without a budget the scratch may take this share of the points' own bytes, but never less than the floor.
SCRATCH_SHARE = 1.4
SCRATCH_FLOOR_BYTES = 80_000_000
# Where not even the leanest is within that, because results or scalars alone are more, this many times the leanest.
SPARE = 1.1


def memory_map(
    n: int,
    choice: Choice | None = None,
    *,
    limits: Mapping[str, int] | None = None,
    memory_budget: int | None = None,
    resident: int | None = None,
    vectors: int = 1,
) -> list[MemoryRow]:
    """Every buffer of `plan.build` with the same arguments, and the staging buffer that the result is read through."""
    request = Request(
        n, choice or Choice(), n if resident is None else resident, 0, vectors, memory_budget, limits or {}
    )
    geometry = fit(request)
    sizes = buffer_sizes(geometry, request.choice, request.resident)
    kept = kept_buffers(request.choice)
    rows = [MemoryRow(name, size, "engine" if name in kept else "plan") for name, size in sizes.items()]
    return [*rows, MemoryRow("staging", sizes["result"], "read")]


@dataclass(frozen=True)
class Way:
    """One way to cut a sum into batches, with its bytes at the peak and its time by the model of `estimate`."""

    geometry: Geometry
    total_bytes: int
    estimated_ns: float

    @property
    def order(self) -> tuple[float, int]:
        return self.estimated_ns, self.total_bytes


def ways(request: Request) -> list[Way]:
    """Every way that the limits admit, scalars whole or in slices; the fastest first."""
    cuts = Cuts(request)
    found = [_way(request, geometry) for sliced in (False, True) for geometry in cuts.of(sliced=sliced)]
    if not found:
        raise cuts.none()
    return sorted(found, key=lambda way: way.order)


def fit(request: Request) -> Geometry:
    """The fastest way that fits the budget. Without one: that is in proportion to the points, or nearly the leanest."""
    allowed = request.memory_budget
    if allowed is None:
        points_bytes = POINT_BYTES * request.resident
        allowed = points_bytes + max(SCRATCH_FLOOR_BYTES, int(SCRATCH_SHARE * points_bytes))
    fastest = _fastest(request, allowed)
    if fastest is not None:
        return fastest.geometry
    leanest = min(ways(request), key=lambda way: way.total_bytes)
    if request.memory_budget is not None:
        raise DeviceOutOfMemory(
            f"{request.n:,} points need {leanest.total_bytes:,} bytes at least, the budget is {allowed:,}",
            cure="raise memory_budget, lower the knob threads, or use fewer points",
        )
    return (_fastest(request, int(SPARE * leanest.total_bytes)) or leanest).geometry


def _fastest(request: Request, allowed: int) -> Way | None:
    return min(_worth_a_look(request, allowed), key=lambda way: way.order, default=None)


def _worth_a_look(request: Request, allowed: int) -> Iterator[Way]:
    """The ways within `allowed` bytes, up to the number of batches from which on none can be faster."""
    cuts = Cuts(request)
    for sliced in (False, True):
        fastest_ns = float("inf")
        for geometry in cuts.of(sliced=sliced, most_bytes=allowed):
            if least_ns(geometry, request.choice) > fastest_ns:
                break
            way = _way(request, geometry)
            if way.total_bytes <= allowed:
                fastest_ns = min(fastest_ns, way.estimated_ns)
                yield way


def _way(request: Request, geometry: Geometry) -> Way:
    total = total_bytes(geometry, request.choice, request.resident)
    return Way(geometry, total, estimated_ns(geometry, request.choice))
