"""Submitting a whole workload in one call: the loop over tasks runs in native code, the rules are those of `submit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from whet._native import graph as _native
from whet.graph.bodies import NativeBody, kernel, resolve
from whet.graph.errors import BadInput
from whet.graph.replay import flat
from whet.graph.runtime import Runtime
from whet.graph.status import translated
from whet.graph.workloads.workload import ACCESS, EXTERNAL, Direction, Ints, Workload

Dependencies = Literal["inferred", "given", "both"]
# Addresses for buffers that no body touches: far from anything mapped, apart from each other.
NOWHERE = 1 << 44
WRITES = (Direction.OUT, Direction.INOUT, Direction.OUT_EXISTING)


class Batch:
    """A workload made ready: bodies per kind, memory per buffer, scalar words per task. Can be submitted many times.

    dependencies: `inferred` passes the tensors and no edges, `given` the edges and no tensors, `both` everything (what
    a manual scope wants). External buffers that are not given have an address but no memory: their bodies must not
    touch it. A task without scalars gets its number.
    """

    def __init__(
        self,
        work: Workload,
        bodies: Sequence[Any] | None = None,
        *,
        dependencies: Dependencies = "inferred",
        buffers: Mapping[int, npt.NDArray[Any]] | None = None,
        scalars: tuple[npt.NDArray[np.uint64], Ints] | None = None,
    ) -> None:
        if dependencies not in ("inferred", "given", "both"):
            raise BadInput(f"dependencies={dependencies!r} is not known", cure="inferred, given or both")
        self.work = work
        table = [kernel("empty")] * len(work.kinds) if bodies is None else [resolve(body) for body in bodies]
        if len(table) != len(work.kinds):
            raise BadInput(f"{len(table)} bodies for the kinds {', '.join(work.kinds)}", cure="one per kind")
        if not all(body is None or isinstance(body, NativeBody) for body in table):
            raise BadInput("a batch runs native bodies only", cure="submit Python bodies one by one")
        self._table = table
        if buffers is not None and not isinstance(buffers, Mapping):
            raise BadInput(f"buffers is a {type(buffers).__name__}", cure="{number of a buffer: array, ...}")
        self._buffers = dict(buffers or {})
        checked = _checked(work)
        padded = -(-np.maximum(flat(work.buffer_bytes, np.int64, "buffer_bytes"), 0) // 64) * 64
        bases = (NOWHERE + np.concatenate([[0], np.cumsum(padded[:-1])])).astype(np.uint64)
        for number, array in self._buffers.items():
            bases[number] = self._address_for(number, array)
        self._arrays = {**checked, **_scalars(scalars), "buffer_base": bases}
        self.scalars = self._arrays["scalars"], self._arrays["scalar_start"]
        self._arrays["buffer_given"] = np.zeros(len(bases), np.uint8)
        self._arrays["buffer_given"][list(self._buffers)] = 1
        for array in self._arrays.values():
            array.flags.writeable = False
        with translated():
            self._native = _native.Batch(
                {
                    **self._arrays,
                    "kinds": len(table),
                    "manual": bool(work.manual),
                    "with_tensors": dependencies != "given",
                    "with_dependencies": dependencies != "inferred",
                }
            )

    def _address_for(self, number: int, array: npt.NDArray[Any]) -> int:
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise BadInput(f"{number!r} is not the number of a buffer", cure="{number of a buffer: array, ...}")
        known = min(len(self.work.buffer_creator), len(self.work.buffer_bytes))
        if not 0 <= number < known or self.work.buffer_creator[number] != EXTERNAL:
            raise BadInput(f"buffer {number} is not an external one", cure="give memory for external buffers only")
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise BadInput(f"buffer {number} is no array of plain numbers", cure="np.asarray(...) first")
        if not array.flags.writeable and self._is_written(number):
            raise BadInput(f"buffer {number} is read-only, and tasks write to it", cure="a writable copy")
        if not array.flags.c_contiguous or array.nbytes < self.work.buffer_bytes[number]:
            raise BadInput(
                f"buffer {number} needs {self.work.buffer_bytes[number]} contiguous bytes", cure="np.ascontiguousarray"
            )
        return array.ctypes.data

    def _is_written(self, number: int) -> bool:
        of_buffer = self.work.accesses[self.work.accesses["buffer"] == number]
        return bool(np.isin(of_buffer["direction"], WRITES).any())

    def submit(self, runtime: Runtime) -> int:
        """Submits every task in order and returns the id of the first.

        Ids are consecutive unless another thread submits to the runtime meanwhile.
        """
        rows = []
        for name, body in zip(self.work.kinds, self._table, strict=True):
            address, user, built_in = (
                (body.address, body.user, body.built_in) if isinstance(body, NativeBody) else (0, 0, False)
            )
            rows.append((address, user, built_in, name))
        return runtime.submit_batch(self._native, rows, keep=self)


def _checked(work: Workload) -> dict[str, Any]:
    """Copies of a workload's arrays with the types that the core takes. What the numbers say is checked there."""
    accesses = np.array(work.accesses)
    if accesses.dtype != ACCESS or accesses.ndim != 1:
        raise BadInput(f"accesses have type {accesses.dtype}", cure="rows of workloads.ACCESS")
    numbers = accesses["task"]
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= work.tasks or (np.diff(numbers) < 0).any()):
        raise BadInput("accesses are not in the order of the tasks they belong to", cure="workloads.in_task_order")
    names = {"dependency_start": work.dep_start, "dependencies": work.dep_task}
    names |= {"buffer_bytes": work.buffer_bytes, "buffer_creator": work.buffer_creator}
    arrays = {name: flat(array, np.int64, name).copy() for name, array in names.items()}
    arrays["kind"] = flat(np.asarray(work.kind), np.uint16, "kind").copy()
    for name, array in (("scope_open", work.scope_open), ("scope_close", work.scope_close)):
        arrays[name] = flat(array, np.int8, name).copy()
    counts = np.bincount(numbers, minlength=len(arrays["kind"]))
    arrays["access_start"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    arrays["accesses"] = accesses.view(np.int64).reshape(-1, 7)
    return arrays


def _scalars(scalars: tuple[npt.NDArray[np.uint64], Ints] | None) -> dict[str, Any]:
    values, starts = scalars if scalars is not None else (np.zeros(0, np.uint64), np.zeros(0, np.int64))
    return {
        "scalars": np.array(values, np.uint64, ndmin=1),
        "scalar_start": flat(starts, np.int64, "the offsets of the scalars").copy(),
    }
