"""What a workload is: tasks, the bytes each one touches, the scopes around them and the edges that must follow.

Everything is a flat numpy array, so that 65,792 tasks are made, submitted and checked without a Python loop. `accesses`
is what a runtime that infers dependencies is fed; `edges` is the closed form of what must come out, which the tests
compare with an independent inference and which the peers are given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

EXTERNAL = -1


class Direction(IntEnum):
    """How a task uses a tensor. The numbers are those of the native core."""

    IN = 0
    OUT = 1
    INOUT = 2
    OUT_EXISTING = 3
    NO_DEP = 4


ACCESS = np.dtype(
    [
        ("task", np.int64),
        ("buffer", np.int64),
        ("offset", np.int64),
        ("rows", np.int64),
        ("row_bytes", np.int64),
        ("stride", np.int64),
        ("direction", np.int64),
    ]
)
"""One tensor argument: `rows` runs of `row_bytes`, `stride` bytes apart, from `offset` in its buffer."""


@dataclass(frozen=True)
class Workload:
    """A named graph. `buffer_creator` is the task whose OUT argument allocates a buffer, or EXTERNAL."""

    name: str
    kinds: tuple[str, ...]
    kind: npt.NDArray[np.int8]
    accesses: npt.NDArray[Any]
    buffer_bytes: Ints
    buffer_creator: Ints
    dep_start: Ints
    dep_task: Ints
    manual: bool = False
    scope_close: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    scope_open: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return len(self.kind)

    @property
    def edges(self) -> int:
        return len(self.dep_task)

    @property
    def max_fan_in(self) -> int:
        return int(np.diff(self.dep_start).max(initial=0))

    def access_start(self) -> Ints:
        """CSR offsets of `accesses`, which are in task order."""
        counts = np.bincount(self.accesses["task"], minlength=self.tasks)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def predecessors(self, task: int) -> Ints:
        return self.dep_task[self.dep_start[task] : self.dep_start[task + 1]]


def access_rows(rows: list[tuple[int, int, int, int, int, int, int]]) -> npt.NDArray[Any]:
    return np.array(rows, dtype=ACCESS)


def contiguous(task: npt.ArrayLike, buffer: npt.ArrayLike, size_bytes: int, direction: Direction) -> npt.NDArray[Any]:
    """Accesses of one whole run of bytes from the start of each buffer."""
    tasks, buffers = np.broadcast_arrays(np.asarray(task), np.asarray(buffer))
    table = np.zeros(tasks.size, dtype=ACCESS)
    table["task"], table["buffer"] = tasks.ravel(), buffers.ravel()
    table["rows"], table["row_bytes"], table["stride"] = 1, size_bytes, size_bytes
    table["direction"] = int(direction)
    return table


def in_task_order(*parts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    table = np.concatenate(parts)
    return table[np.argsort(table["task"], kind="stable")]


def csr(tasks: int, consumer: npt.ArrayLike, producer: npt.ArrayLike) -> tuple[Ints, Ints]:
    """Predecessor lists from an edge list; duplicates go, producers ascend."""
    pairs = np.stack([np.asarray(consumer, np.int64), np.asarray(producer, np.int64)], axis=1)
    key = np.unique(pairs[:, 0] * np.int64(tasks) + pairs[:, 1]) if len(pairs) else np.zeros(0, np.int64)
    counts = np.bincount(key // tasks, minlength=tasks) if len(key) else np.zeros(tasks, np.int64)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), (key % tasks).astype(np.int64)
