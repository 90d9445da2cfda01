"""Every buffer of a sum in bytes, in closed form."""

from __future__ import annotations

from whet.msm.webgpu.geometry import RECORD_WORDS, Geometry
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.layout import COUNTERS, SLOT_WORDS, TALLY_WORDS

POINT_BYTES = 64
COORDINATE_BYTES = 32
COUNTER_BYTES = 16 * -(-len(COUNTERS) // 4)


def kept_buffers(choice: Choice) -> tuple[str, str]:
    """What stays on the device between calls."""
    return ("points_x", "signs") if choice.compressed else ("points_x", "points_y")


def points_bytes(choice: Choice, points: int) -> int:
    """Of whole points: x and y, and with GLV the x of their images."""
    return COORDINATE_BYTES * points * (3 if choice.glv else 2)


def buffer_sizes(geometry: Geometry, choice: Choice, resident: int) -> dict[str, int]:
    """Every buffer of a program. None shrinks with the windows of a batch but the parameters and sliced scalars."""
    windows, columns, rows = geometry.batch_windows, geometry.columns, geometry.rows
    sizes = {
        "params": 4 * RECORD_WORDS * parameter_records(geometry, choice),
        "points_x": COORDINATE_BYTES * resident * (2 if choice.glv else 1),
        "points_y": COORDINATE_BYTES * (geometry.points if choice.compressed else resident),
        "scalars": 4 * geometry.words * rows * geometry.vectors,
        "matrix": 4 * windows * geometry.tiles * columns,
        "starts": 4 * windows * (columns + 1),
        "handles": 4 * windows * rows,
        "buckets": POINT_BYTES * windows * columns,
        "tally": 4 * TALLY_WORDS,
        "result": POINT_BYTES * geometry.all_windows * geometry.window_bits + COUNTER_BYTES,
    }
    if choice.compressed:
        sizes["signs"] = 4 * -(-resident // 32)
    if choice.planned:
        sizes["blocks"] = 8 * geometry.blocks
        sizes["dense"] = 16 * max(1, geometry.dense)
        sizes["tally"] += 4 * geometry.max_tasks
        sizes["partials"] = 2 * POINT_BYTES * geometry.max_tasks
        if choice.scratch == "device":
            sizes["prefixes"] = COORDINATE_BYTES * geometry.max_tasks
        if choice.in_passes:
            threads = geometry.max_tasks // choice.slots
            sizes["tally"] += 4 * (SLOT_WORDS * geometry.max_tasks + threads)
            sizes["prefixes"] = COORDINATE_BYTES * (geometry.max_tasks + threads)
    return sizes


def parameter_records(geometry: Geometry, choice: Choice) -> int:
    """One per batch, one per batch and depth of the reduction, one per batch and level of the combining; of roots one
    per pass.
    """
    levels = geometry.combine_levels if choice.planned else 0
    roots = geometry.root_passes if choice.compressed else 0
    return roots + geometry.batch_count * (1 + (geometry.window_bits - 1) + levels)


def total_bytes(geometry: Geometry, choice: Choice, resident: int) -> int:
    """Everything at its peak: all buffers and the staging buffer of the result."""
    sizes = buffer_sizes(geometry, choice, resident)
    return sum(sizes.values()) + sizes["result"]
