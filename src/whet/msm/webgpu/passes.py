"""The passes of one batch with their workgroups, in order: what the planner checks and what the program records."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from whet.msm.webgpu.estimate import ROOT_ADDITIONS
from whet.msm.webgpu.geometry import BLOCK_BUCKETS, COMBINE_RADIX, REDUCE_PAIRS, ROOT_POINTS, Geometry
from whet.msm.webgpu.kernels import ROOTS_WORKGROUP, WORKGROUP
from whet.msm.webgpu.knobs import Choice

REDUCE_THREADS = 256
COLUMNS_WORKGROUP = 256


class Dispatch(NamedTuple):
    """A pass by the name of its kernel, its workgroups, the additions that it makes or is worth at most, and its own
    parameters.
    """

    name: str
    workgroups: tuple[int, int, int]
    additions: int = 0
    step: Mapping[str, int] = MappingProxyType({})


def to_points(geometry: Geometry) -> list[Dispatch]:
    """From x and signs to the y of all points of a sum, some points at a time."""
    made = []
    for first in range(0, geometry.points, ROOT_POINTS):
        points = min(ROOT_POINTS, geometry.points - first)
        made.append(_line("decompress", points, ROOTS_WORKGROUP, ROOT_ADDITIONS * points, stride=first))
    return made


def to_buckets(geometry: Geometry, choice: Choice, windows: int) -> list[Dispatch]:
    """From the scalars to the bucket sums of a batch of that many windows."""
    columns = geometry.columns
    grid = (geometry.tiles, windows, geometry.chunks)
    sort = [
        Dispatch("count", grid),
        Dispatch("columns", (-(-columns // COLUMNS_WORKGROUP), windows, 1)),
        Dispatch("starts", (windows, 1, 1)),
        Dispatch("scatter", grid),
    ]
    if not choice.planned:
        return [*sort, _line("accumulate", windows * columns, WORKGROUP, windows * geometry.rows)]
    tasks = geometry.max_tasks
    return [
        *sort,
        _line("classify", windows * columns, BLOCK_BUCKETS),
        Dispatch("totals", (1, 1, 1)),
        _line("list", windows * columns, BLOCK_BUCKETS),
        *_accumulated(geometry, choice, windows),
        *(
            _line("combine", tasks, COMBINE_RADIX * WORKGROUP, stride=COMBINE_RADIX**level)
            for level in range(geometry.combine_levels)
        ),
        _line("store", tasks, WORKGROUP),
    ]


def _accumulated(geometry: Geometry, choice: Choice, windows: int) -> list[Dispatch]:
    """From the plan to partial sums: one pass, or two per round of additions and one to begin."""
    threads = geometry.max_tasks // choice.slots
    if not choice.in_passes:
        return [_line("accumulate", threads, choice.tpb, windows * geometry.rows)]
    made = [_line("begin", threads, choice.tpb)]
    for number in range(geometry.most_rounds(windows)):
        made.append(_line("invert", threads, choice.g * WORKGROUP))
        # Every other round goes through the slots from the last one down.
        made.append(_line("accumulate", threads, choice.tpb, geometry.max_tasks, stride=(number + 1) % 2))
    return made


def to_result(geometry: Geometry, windows: int) -> list[Dispatch]:
    """From the bucket sums to c points per window: depth d folds d + 1 arrays."""
    made = []
    for arrays in range(1, geometry.window_bits):
        half = geometry.columns >> arrays
        pairs = windows * half * arrays
        threads = reduce_threads(pairs)
        made.append(_line("reduce", threads, WORKGROUP, pairs, half=half, arrays=arrays, threads=threads))
    return [*made, _line("gather", windows * geometry.window_bits, WORKGROUP)]


def reduce_threads(pairs: int) -> int:
    """Enough threads to keep a device busy before pairs share an inversion, but never more than eight pairs each."""
    return max(-(-pairs // REDUCE_PAIRS), min(pairs, REDUCE_THREADS))


def _line(name: str, items: int, per_workgroup: int, additions: int = 0, **step: int) -> Dispatch:
    return Dispatch(name, (-(-items // per_workgroup), 1, 1), additions, step)
