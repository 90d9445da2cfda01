"""Many tasks of one body in one call: arguments are taken apart along their first axis.

Native bodies are submitted in one native call, which costs a small part of as many submissions. Python bodies, and
what rows cannot express, are submitted one by one; the rules are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from whet._native import graph as _native
from whet.graph.bodies import NativeBody, name_of, resolve, scalar_word
from whet.graph.errors import BadInput
from whet.graph.functions import TaskFunction
from whet.graph.futures import Task
from whet.graph.group import Group
from whet.graph.status import translated
from whet.graph.tensors import OutExisting, Tensor, buffer_of

if TYPE_CHECKING:
    from whet.graph.runtime import Runtime

# Of an access: address and bytes of the buffer; in it where runs of bytes begin, and how far on those of the next task;
# how many runs, their bytes and distance; direction. See native/bind/graph_rows.hpp.
COLUMNS = 8


@dataclass(frozen=True, eq=False)
class Column:
    """One argument of all tasks: `whole` cut along its first axis, one of `each`, or `same` for every task."""

    whole: Tensor | None = None
    each: Sequence[Any] | None = None
    same: Any = None

    @property
    def tasks(self) -> int | None:
        if self.whole is not None:
            return int(_array(self.whole).shape[0])
        return None if self.each is None else len(self.each)

    @property
    def has_tensors(self) -> bool:
        return self.whole is not None or (self.each is not None and any(isinstance(v, Tensor) for v in self.each))

    def at(self, task: int) -> Any:
        if self.whole is not None:
            return Tensor(self.whole.direction, _array(self.whole)[task, ...])
        return self.same if self.each is None else self.each[task]


def map_tasks(
    runtime: Runtime, body: Any, arguments: tuple[Any, ...], *, after: Iterable[Task | int], name: str | None
) -> Group:
    directed = body.directed(arguments) if isinstance(body, TaskFunction) else arguments
    outputs: list[npt.NDArray[Any]] = []
    columns = [_column(argument, outputs) for argument in directed]
    counts = {column.tasks for column in columns} - {None}
    if len(counts) != 1:
        raise BadInput(
            f"map: the arguments have {sorted(c for c in counts if c is not None) or 'no'} rows",
            cure="arrays and sequences with the same number of rows, at least one of them",
        )
    tasks = counts.pop() or 0
    before = list(after)
    if tasks and not before and not runtime.is_recording:
        resolved, native = _native_form(body, columns)
        ids = _submit_rows(runtime, resolved, native, tasks, name) if isinstance(resolved, NativeBody) else None
        if ids is not None:
            label = name or name_of(resolved)
            return Group(runtime, ids, lambda at: Task(runtime, int(ids[at]), label, (), None), outputs=tuple(outputs))
    made = [runtime.submit(body, *[c.at(task) for c in columns], after=before, name=name) for task in range(tasks)]
    numbers = np.array([task.id for task in made], np.uint64)
    return Group(runtime, numbers, made.__getitem__, outputs=tuple(outputs))


def _column(argument: Any, outputs: list[npt.NDArray[Any]]) -> Column:
    """Out is allocated here, once for all tasks; each of them overwrites its row."""
    if isinstance(argument, Tensor):
        if argument.array is None:
            whole = np.empty(argument.shape, argument.dtype)
            outputs.append(whole)
            argument = OutExisting(whole)
        if not _array(argument).ndim:
            raise BadInput("map: an array without axes cannot be cut into rows", cure="array.reshape(1)")
        return Column(whole=argument)
    if isinstance(argument, np.ndarray):
        if argument.ndim != 1:
            raise BadInput("map: an array argument has no direction", cure="In(array), InOut(array), ...")
        return Column(each=argument.tolist())
    if isinstance(argument, (list, tuple)):
        return Column(each=argument)
    return Column(same=argument)


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    assert tensor.array is not None
    return tensor.array


def _native_form(body: Any, columns: list[Column]) -> tuple[Any, list[Column]]:
    """The resolved body and its columns in the order that it takes them."""
    if not isinstance(body, TaskFunction):
        return resolve(body), columns
    resolved, first = body.prepared(tuple(column.at(0) for column in columns))
    if not isinstance(resolved, NativeBody):
        return resolved, columns
    tensors = [column for column in columns if isinstance(column.at(0), Tensor)]
    if any(column.whole is None for column in tensors):
        return None, columns  # shapes may differ, and so may the code
    rest = [column for column in columns if not isinstance(column.at(0), Tensor)]
    sizes = first[len(tensors) : len(first) - len(rest)]
    return resolved, [*tensors, *(Column(same=size) for size in sizes), *rest]


def _submit_rows(
    runtime: Runtime, body: NativeBody, columns: list[Column], tasks: int, name: str | None
) -> npt.NDArray[np.uint64] | None:
    """The ids of the tasks; None if rows cannot express them."""
    tensors = [column for column in columns if column.has_tensors]
    scalars = [column for column in columns if not column.has_tensors]
    if any(isinstance(value, Task) for column in scalars for value in (column.each or (column.same,))):
        return None
    described = _described(tensors, tasks)
    if described is None:
        return None
    each = any(column.each is not None for column in scalars)
    words = np.zeros((tasks if each else 1, len(scalars)), np.uint64)
    for place, column in enumerate(scalars):
        words[:, place] = scalar_word(column.same) if column.each is None else [scalar_word(v) for v in column.each]
    with translated():
        rows = _native.Rows(tasks, described, words)
    row = (body.address, body.user, body.built_in, name or body.name)
    return runtime.submit_rows(rows, row, tasks, keep=(body, columns, rows))


def _described(tensors: list[Column], tasks: int) -> npt.NDArray[np.int64] | None:
    """What the first task touches and how far the next one's lies from it; where arrays come one by one, every task's.

    None if the rows are no runs of bytes at one distance, or no plain memory.
    """
    alike = all(column.whole is not None for column in tensors)
    if alike:
        accesses = [_access(column.whole, tasks) for column in tensors if column.whole is not None]
    else:
        accesses = []
        for task, column in product(range(tasks), tensors):
            tensor = column.at(task)
            if not isinstance(tensor, Tensor) or tensor.array is None:
                return None
            accesses.append(_access(Tensor(tensor.direction, tensor.array[None]), 1))
    if any(access is None for access in accesses):
        return None
    return np.array(accesses, np.int64).reshape(1 if alike else tasks, len(tensors), COLUMNS)


def _access(tensor: Tensor, tasks: int) -> tuple[int, ...] | None:
    """Of the first row, with the distance to the next one. See COLUMNS."""
    array = _array(tensor)
    runs = _runs(array)
    held = buffer_of(array)
    if runs is None or held.memory is not None:
        return None
    begin = int(array.ctypes.data) - held.address
    step = array.strides[0] if len(array) > 1 else 0
    rows, row_bytes, stride = runs
    end = begin + (tasks - 1) * step + (rows - 1) * stride + row_bytes
    return held.address, held.nbytes or end, begin, step, rows, row_bytes, stride, int(tensor.direction)


def _runs(array: npt.NDArray[Any]) -> tuple[int, int, int] | None:
    """One row of the array as (runs, bytes per run, distance)."""
    row = array[0]
    if not isinstance(row, np.ndarray):
        row = array[0, ...]
    if array.size == 0 or any(stride < 0 for stride in array.strides):
        return None
    if row.flags.c_contiguous:
        return 1, row.nbytes, row.nbytes
    if row[0].flags.c_contiguous:
        return row.shape[0], row[0].nbytes, row.strides[0]
    return None
