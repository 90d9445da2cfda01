"""The sizes of one sum on the device, and the parameter records that tell them to the kernels.

The kernels know no size at compile time, so one set of pipelines serves every n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.msm.webgpu.layout import FIELDS

SCALAR_BITS = 255  # below r, and one bit so that the topmost signed digit is never negative
HALF_BITS = 127  # both halves of a GLV split are below 2^125.8 in magnitude
MAX_WINDOW_BITS = 16
MIN_WINDOW_BITS = 4
MAX_TILES = 16
TILE_ROWS = 4096
CHUNK_COLUMNS = 4096  # one histogram of 16 KiB, the workgroup memory that every browser grants
BLOCK_BUCKETS = 1024
TASK_ADDITIONS = 16  # of a task, if every digit counts: places for tasks are made for this
MIN_TASK_ADDITIONS = 8  # fewer are not worth a task
REDUCE_PAIRS = 8
COMBINE_RADIX = 8
ROOT_POINTS = 1 << 14  # of a pass that recovers y: passes are never cut, and a root takes long
RECORD_WORDS = 64  # 256 bytes: the alignment of a binding's offset


@dataclass(frozen=True)
class Batch:
    """Windows that go through the device together, and the 32-bit planes of the scalars that they read."""

    first_window: int
    windows: int
    first_word: int
    words: int


@dataclass(frozen=True)
class Geometry:
    """`rows` digits per window: one per point, or two with GLV. `batches` share the windows of all vectors evenly.

    `batch_count` becomes what it takes at batches of that size: five windows in four batches are three of two.
    """

    points: int
    window_bits: int
    glv: bool
    vectors: int
    batch_count: int
    sliced: bool
    most_tasks: int
    group_tasks: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_count", -(-self.all_windows // self.batch_windows))

    @cached_property
    def rows(self) -> int:
        return 2 * self.points if self.glv else self.points

    @property
    def columns(self) -> int:
        """Buckets per window: magnitudes 1 to 2^(c-1). The zero digit has none."""
        return 1 << (self.window_bits - 1)

    @property
    def vector_windows(self) -> int:
        return -(-(HALF_BITS if self.glv else SCALAR_BITS) // self.window_bits)

    @cached_property
    def all_windows(self) -> int:
        return self.vector_windows * self.vectors

    @cached_property
    def batch_windows(self) -> int:
        """Windows of the largest batch; all but the last have as many."""
        return -(-self.all_windows // self.batch_count)

    @property
    def all_words(self) -> int:
        """Planes of 32 bits per scalar. A half is sign-extended as far as its last window reads."""
        return -(-(self.vector_windows * self.window_bits + 1) // 32) if self.glv else 8

    @property
    def tiles(self) -> int:
        return min(MAX_TILES, max(1, -(-self.rows // TILE_ROWS)))

    @property
    def tile_rows(self) -> int:
        return -(-self.rows // self.tiles)

    @property
    def root_passes(self) -> int:
        """Passes that recover y, where x and a sign are all that stays of a point."""
        return -(-self.points // ROOT_POINTS)

    @property
    def chunks(self) -> int:
        return -(-self.columns // CHUNK_COLUMNS)

    @property
    def blocks(self) -> int:
        return -(-self.batch_windows * self.columns // BLOCK_BUCKETS)

    def blocks_of(self, batch: Batch) -> int:
        return -(-batch.windows * self.columns // BLOCK_BUCKETS)

    @property
    def dense(self) -> int:
        """The most buckets of a batch that can hold two points or more."""
        return min(self.batch_windows * self.columns, self.batch_windows * self.rows // 2)

    @cached_property
    def max_tasks(self) -> int:
        """Places for tasks, in whole workgroups, no more than there is work for.

        Drivers share workgroups out by their number, so idle ones at the end would leave whole cores idle.
        """
        wanted = -(-self.batch_windows * self.rows // TASK_ADDITIONS)
        return min(self.most_tasks, -(-wanted // self.group_tasks) * self.group_tasks)

    def most_rounds(self, windows: int) -> int:
        """The most additions that a task of a batch with so many windows can have, whatever the digits are."""
        return max(MIN_TASK_ADDITIONS, -(-windows * self.rows // self.max_tasks))

    @cached_property
    def combine_levels(self) -> int:
        levels, reach = 0, 1
        while reach < self.max_tasks:
            levels, reach = levels + 1, reach * COMBINE_RADIX
        return levels

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        made = []
        for first in range(0, self.all_windows, self.batch_windows):
            windows = min(self.batch_windows, self.all_windows - first)
            low, high = 0, self.all_words
            if self.sliced:
                low = first * self.window_bits // 32
                high = min(high, ((first + windows) * self.window_bits + 1 + 31) // 32)
            made.append(Batch(first, windows, low, high - low))
        return tuple(made)

    @property
    def words(self) -> int:
        """Planes that are on the device at once."""
        return max(batch.words for batch in self.batches) if self.sliced else self.all_words

    def record(self, batch: Batch, *, resident: int, offset: int, first_y: int, slots: int, **step: int) -> list[int]:
        """The parameters of one pass."""
        values = {
            "rows": self.rows,
            "window_bits": self.window_bits,
            "columns": self.columns,
            "vector_windows": self.vector_windows,
            "first_window": batch.first_window,
            "windows": batch.windows,
            "tiles": self.tiles,
            "tile_rows": self.tile_rows,
            "first_word": batch.first_word,
            "words": batch.words,
            "offset": offset,
            "resident": resident,
            "first_y": first_y,
            "points": self.points,
            "blocks": self.blocks_of(batch),
            "max_tasks": self.max_tasks,
            "max_threads": self.max_tasks // slots,
            "min_additions": MIN_TASK_ADDITIONS,
            "raw_mask": (2 << self.window_bits) - 1,
            "sign_mask": 1 << self.window_bits,
            **step,
        }
        row = [values.get(name, 0) for name in FIELDS]
        row += [0] + [self.columns >> j for j in range(1, self.window_bits)]
        return row + [0] * (RECORD_WORDS - len(row))


class Records:
    """Collects parameter records; equal ones are kept once. Each pass binds its own 256 bytes."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], int] = {}

    def place(self, row: Sequence[int]) -> int:
        """The byte offset of a record."""
        return 4 * RECORD_WORDS * self._rows.setdefault(tuple(row), len(self._rows))

    def array(self) -> npt.NDArray[np.uint32]:
        return np.array(list(self._rows), np.uint32).reshape(-1)


def window_bits(rows: int, *, glv: bool = False) -> int:
    """The c with the fewest additions: one per digit and two per bucket."""
    bits = HALF_BITS if glv else SCALAR_BITS

    def additions(c: int) -> int:
        return -(-bits // c) * (rows + (2 << (c - 1)))

    return min(range(MIN_WINDOW_BITS, MAX_WINDOW_BITS + 1), key=lambda c: (additions(c), c))


def require_window_bits(c: int) -> int:
    if not MIN_WINDOW_BITS <= c <= MAX_WINDOW_BITS:
        raise BadInput(f"c={c} is not a window size", cure=f"use {MIN_WINDOW_BITS} to {MAX_WINDOW_BITS}, or 0")
    return c
