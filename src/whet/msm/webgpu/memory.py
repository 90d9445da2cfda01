"""The closed-form memory map of a sum, equal to the device's ledger to the byte, and what a budget buys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from whet.errors import BadInput, DeviceOutOfMemory
from whet.msm.webgpu.estimate import estimated_ns
from whet.msm.webgpu.geometry import RECORD_WORDS, Geometry, require_window_bits, window_bits
from whet.msm.webgpu.kernels import COUNTERS, TALLY_WORDS
from whet.msm.webgpu.knobs import Choice
from whet.protocol import MemoryRow

POINT_BYTES = 64
COORDINATE_BYTES = 32
COUNTER_BYTES = 16 * -(-len(COUNTERS) // 4)
MAX_POINTS = 1 << 22
FLOOR_BINDING_BYTES = 128 << 20
# Without a budget the scratch may take this share of the points' own bytes, but never less than the floor.
SCRATCH_SHARE = 1.4
SCRATCH_FLOOR_BYTES = 80_000_000
_OF_THE_ENGINE = ("points_x", "points_y")


@dataclass(frozen=True)
class Request:
    """What is to be computed: n points from `offset` on among `resident` ones, for `vectors` lists of scalars.

    `memory_budget` is in bytes, points and staging included. `limits` are the device's; the browser's floor by default.
    """

    n: int
    choice: Choice = field(default_factory=Choice)
    resident: int = 0
    offset: int = 0
    vectors: int = 1
    memory_budget: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MAX_POINTS:
            raise BadInput(f"a program for {self.n} points", cure=f"give 1 to {MAX_POINTS:,}")
        if self.vectors < 1 or self.offset < 0 or self.offset + self.n > self.resident:
            raise BadInput(
                f"{self.vectors} vectors for points {self.offset} to {self.offset + self.n} of {self.resident}",
                cure="ask for a part of the points, and for one vector or more",
            )


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
    rows = [MemoryRow(name, size, "engine" if name in _OF_THE_ENGINE else "plan") for name, size in sizes.items()]
    return [*rows, MemoryRow("staging", sizes["result"], "read")]


def buffer_sizes(geometry: Geometry, choice: Choice, resident: int) -> dict[str, int]:
    """Every buffer of a program, in closed form."""
    windows, columns, rows = geometry.batch_windows, geometry.columns, geometry.rows
    sizes = {
        "params": 4 * RECORD_WORDS * parameter_records(geometry, choice.planned),
        "points_x": COORDINATE_BYTES * resident * (2 if choice.glv else 1),
        "points_y": COORDINATE_BYTES * resident,
        "scalars": 4 * geometry.words * rows * geometry.vectors,
        "matrix": 4 * windows * geometry.tiles * columns,
        "starts": 4 * windows * (columns + 1),
        "handles": 4 * windows * rows,
        "buckets": POINT_BYTES * windows * columns,
        "tally": 4 * TALLY_WORDS,
        "result": POINT_BYTES * geometry.all_windows * geometry.window_bits + COUNTER_BYTES,
    }
    if choice.planned:
        sizes["blocks"] = 8 * geometry.blocks
        sizes["dense"] = 16 * max(1, geometry.dense)
        sizes["tally"] += 4 * geometry.max_tasks
        sizes["partials"] = 2 * POINT_BYTES * geometry.max_tasks
        if choice.scratch == "device":
            sizes["prefixes"] = COORDINATE_BYTES * geometry.max_tasks
    return sizes


def parameter_records(geometry: Geometry, planned: bool) -> int:
    """One per batch, one per batch and depth of the reduction, one per batch and level of the combining."""
    levels = geometry.combine_levels if planned else 0
    return len(geometry.batches) * (1 + (geometry.window_bits - 1) + levels)


def total_bytes(geometry: Geometry, choice: Choice, resident: int) -> int:
    """Everything at its peak: all buffers and the staging buffer of the result."""
    return _peak_bytes(buffer_sizes(geometry, choice, resident))


def _peak_bytes(sizes: Mapping[str, int]) -> int:
    return sum(sizes.values()) + sizes["result"]


@dataclass(frozen=True)
class Way:
    """One way to cut a sum into batches, with its bytes at the peak and its time by the model of `estimate`."""

    geometry: Geometry
    total_bytes: int
    estimated_ns: float


def ways(request: Request) -> list[Way]:
    """Every number of batches whose buffers a binding can hold, scalars whole or in slices; the fastest first."""
    choice = request.choice
    rows = 2 * request.n if choice.glv else request.n
    c = require_window_bits(choice.c or window_bits(rows, glv=choice.glv))
    whole = Geometry(request.n, c, choice.glv, request.vectors, 1, False, choice.most_tasks(rows), choice.group_tasks)
    counts = [min(choice.batches, whole.all_windows)] if choice.batches else range(1, whole.all_windows + 1)
    may_slice = not choice.glv and request.vectors == 1 and request.memory_budget is not None
    binding = request.limits.get("max-storage-buffer-binding-size", FLOOR_BINDING_BYTES)
    found = []
    for count, sliced in product(counts, (False, True) if may_slice else (False,)):
        geometry = replace(whole, batch_count=count, sliced=sliced)
        sizes = buffer_sizes(geometry, choice, request.resident)
        if max(sizes.values()) <= binding:
            found.append(Way(geometry, _peak_bytes(sizes), estimated_ns(geometry, planned=choice.planned)))
    if not found:
        raise DeviceOutOfMemory(
            f"{request.n:,} points need a binding of more than {binding:,} bytes",
            cure="use fewer points, more batches or a device with larger limits",
        )
    return sorted(found, key=lambda way: (way.estimated_ns, way.total_bytes))


def fit(request: Request) -> Geometry:
    """The fastest way that fits the budget. Without one: that is in proportion to the points, or the leanest."""
    allowed = request.memory_budget
    if allowed is None:
        points_bytes = POINT_BYTES * request.resident
        allowed = points_bytes + max(SCRATCH_FLOOR_BYTES, int(SCRATCH_SHARE * points_bytes))
    possible = ways(request)
    for way in possible:
        if way.total_bytes <= allowed:
            return way.geometry
    leanest = min(possible, key=lambda way: way.total_bytes)
    if request.memory_budget is not None:
        raise DeviceOutOfMemory(
            f"{request.n:,} points need {leanest.total_bytes:,} bytes at least, the budget is {allowed:,}",
            cure="raise memory_budget, lower the knob threads, or use fewer points",
        )
    return leanest.geometry
