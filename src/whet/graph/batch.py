"""Submitting a whole workload in one call: the loop over tasks runs in native code, the rules are those of `submit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from whet.graph.bodies import NativeBody, kernel, resolve
from whet.graph.errors import BadInput
from whet.graph.runtime import Runtime
from whet.graph.workloads.workload import EXTERNAL, Ints, Workload

Dependencies = Literal["inferred", "given", "both"]
# Addresses for buffers that no body touches: far from anything mapped, apart from each other.
NOWHERE = 1 << 44


class Batch:
    """A workload made ready: bodies per kind, memory per buffer, scalar words per task. Can be submitted many times.

    dependencies: `inferred` passes the tensors and no edges, `given` the edges and no tensors, `both` everything (what
    a manual scope wants). External buffers that are not given have an address but no memory: their bodies must not
    touch it. A task without scalars gets its number. `buffer_base` tells afterwards where the runtime put the others.
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
        self._buffers = dict(buffers or {})
        padded = -(-work.buffer_bytes // 64) * 64
        self.buffer_base = (NOWHERE + np.concatenate([[0], np.cumsum(padded[:-1])])).astype(np.uint64)
        for number, array in self._buffers.items():
            self._place(number, array)
        self._values, self._starts = scalars if scalars is not None else (np.zeros(0, np.uint64), np.zeros(0, np.int64))
        if scalars is not None and (len(self._starts) != work.tasks + 1 or self._starts[-1] != len(self._values)):
            raise BadInput("scalars do not fit the tasks", cure="(values, start) with one offset per task plus one")
        self._arrays = {
            "kind": work.kind.astype(np.uint16),
            "accesses": work.accesses.view(np.int64).reshape(-1, 7),
            "access_start": work.access_start(),
            "buffer_bytes": work.buffer_bytes,
            "buffer_creator": work.buffer_creator,
            "dependency_start": work.dep_start,
            "dependencies": work.dep_task,
            "scope_open": work.scope_open,
            "scope_close": work.scope_close,
            "scalars": np.ascontiguousarray(self._values, np.uint64),
            "scalar_start": np.ascontiguousarray(self._starts, np.int64),
        }
        self._flags = {
            "manual": bool(work.manual),
            "with_tensors": dependencies != "given",
            "with_dependencies": dependencies != "inferred",
        }

    def _place(self, number: int, array: npt.NDArray[Any]) -> None:
        if not 0 <= number < len(self.buffer_base) or self.work.buffer_creator[number] != EXTERNAL:
            raise BadInput(f"buffer {number} is not an external one", cure="give memory for external buffers only")
        if not array.flags.c_contiguous or array.nbytes < self.work.buffer_bytes[number]:
            raise BadInput(
                f"buffer {number} needs {self.work.buffer_bytes[number]} contiguous bytes", cure="np.ascontiguousarray"
            )
        self.buffer_base[number] = array.ctypes.data

    def submit(self, runtime: Runtime) -> int:
        """Submits every task in order and returns the id of the first; ids are consecutive."""
        rows = []
        for name, body in zip(self.work.kinds, self._table, strict=True):
            address, user, built_in = (
                (body.address, body.user, body.built_in) if isinstance(body, NativeBody) else (0, 0, False)
            )
            rows.append((address, user, built_in, name))
        return runtime.submit_arrays(rows, {**self._arrays, **self._flags, "buffer_base": self.buffer_base}, keep=self)
