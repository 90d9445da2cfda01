"""Tensor arguments: a numpy array or view with a direction, or a shape that the runtime allocates.

Nothing is copied. Two arguments conflict when they share bytes of the same buffer; the buffer of a view is the memory
of the object at the end of its `.base` chain. Memory that is reached through two unrelated objects (two maps of one
file, say) is not recognised as the same: give such an order with `after=`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.graph.workloads.workload import Direction

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor argument. Make it with In, InOut, OutExisting, NoDep or Out."""

    direction: Direction
    array: Array | None = None
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None


class OutputMemory:
    """Memory that the runtime allocated. Arrays over it keep the heap mapped; its owner decides how long it is good."""

    __slots__ = ("__array_interface__", "_keep", "address", "owner", "runtime")

    def __init__(self, tensor: Tensor, address: int, *, runtime: int, owner: int, keep: Any) -> None:
        assert tensor.dtype is not None
        self.runtime = runtime
        self.owner = owner
        self.address = address
        self._keep = keep
        self.__array_interface__ = {
            "shape": tensor.shape,
            "typestr": tensor.dtype.str,
            "data": (address, False),
            "version": 3,
        }


def In(array: Any) -> Tensor:  # noqa: N802
    """The task reads it."""
    return Tensor(Direction.IN, _array(array, "In"))


def InOut(array: Any) -> Tensor:  # noqa: N802
    """The task reads and writes it."""
    return Tensor(Direction.INOUT, _writable(_array(array, "InOut"), "InOut"))


def OutExisting(array: Any) -> Tensor:  # noqa: N802
    """The task overwrites it without reading."""
    return Tensor(Direction.OUT_EXISTING, _writable(_array(array, "OutExisting"), "OutExisting"))


def NoDep(array: Any) -> Tensor:  # noqa: N802
    """Passed on without being tracked; only the task that allocated it is waited for."""
    return Tensor(Direction.NO_DEP, _array(array, "NoDep"))


def Out(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Tensor:  # noqa: N802
    """The runtime allocates it from its heap; the array is in `task.outputs`."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise BadInput(f"Out: {shape!r} is not a shape", cure="a whole number or a tuple of them, 0 or more")
    try:
        kind = np.dtype(dtype)
    except Exception as error:  # numpy parses texts and mappings here and fails in many ways
        raise BadInput(f"Out: {dtype!r} is not a numpy type: {error}", cure="np.float32, 'int64', ...") from None
    if kind.hasobject or kind.itemsize == 0:
        raise BadInput(f"Out: type {kind} cannot live in the heap", cure="numbers of a fixed size")
    if math.prod(sizes) * kind.itemsize >= 2**62:
        raise BadInput(f"Out: {shape!r} of {kind} is too large", cure="smaller than the heap")
    return Tensor(Direction.OUT, None, tuple(int(s) for s in sizes), kind)


def _array(array: Any, how: str) -> Array:
    outputs = getattr(array, "outputs", None)
    if isinstance(outputs, tuple):
        if len(outputs) != 1:
            raise BadInput(f"{how}: the task has {len(outputs)} outputs", cure="name one: task.outputs[i]")
        array = outputs[0]
    if not isinstance(array, np.ndarray):
        raise BadInput(f"{how}: {type(array).__name__} is not a numpy array", cure="np.asarray(...) first")
    if array.dtype.hasobject:
        raise BadInput(f"{how}: an array of Python objects has no bytes to track", cure="numbers of a fixed size")
    return array


def _writable(array: Array, how: str) -> Array:
    if not array.flags.writeable:
        raise BadInput(f"{how}: the array is read-only", cure="pass it with In, or a writable copy")
    return array


def buffer_of(array: Array) -> tuple[int, OutputMemory | None]:
    """Where the buffer behind an array begins, and whose heap output it is if it is one."""
    at: Any = array
    root = array
    while isinstance(at, np.ndarray):
        root = at
        at = at.base
    while isinstance(at, memoryview):
        at = at.obj
    if isinstance(at, OutputMemory):
        return at.address, at
    if at is not None:
        try:
            return int(np.frombuffer(at, np.uint8).ctypes.data), None
        except (TypeError, ValueError, BufferError):
            pass  # not an exporter of bytes: the outermost array is all there is to go by
    return _lowest_address(root), None


def _lowest_address(array: Array) -> int:
    backwards: list[int] = [min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True) if n > 0]
    address: int = array.ctypes.data
    return address + sum(backwards)


def describe(tensor: Tensor, runtime: int) -> tuple[Any, ...]:
    """What the native side takes: base, offset, item bytes, shape, strides, direction, owner, bytes to allocate."""
    if tensor.array is None:
        assert tensor.dtype is not None
        return 0, 0, 1, (), (), int(tensor.direction), None, math.prod(tensor.shape) * tensor.dtype.itemsize
    array = tensor.array
    base, memory = buffer_of(array)
    owner = None
    if memory is not None:
        if memory.runtime != runtime:
            raise BadInput("an output of another runtime is passed", cure="copy it, or use one runtime")
        owner = memory.owner
    direction = tensor.direction
    if array.size == 0:
        direction = Direction.NO_DEP
    offset = int(array.ctypes.data) - base
    if offset < 0:
        raise BadInput("the array lies outside the buffer it is a view of", cure="pass the buffer itself")
    return base, offset, array.itemsize, array.shape, array.strides, int(direction), owner, 0
