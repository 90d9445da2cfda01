"""Tensor arguments: a numpy array or view with a direction, or a shape that the runtime allocates.

Nothing is copied. Two arguments conflict when they share bytes, whoever made the arrays: memory is compared by address.
Where the object at the end of a view's `.base` chain is known to hold its memory, strided views of it are told apart
exactly. One memory that is mapped at two addresses (two maps of one file, say) is not recognised as the same: give such
an order with `after=`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from whet._native import graph as _native
from whet.errors import BadInput
from whet.graph.workloads.workload import Direction

Array = npt.NDArray[Any]

MOST_BYTES = 2**63  # beyond every address

_native.locate(np.zeros(1))  # learns how numpy lays its arrays out, while no other thread can ask


if TYPE_CHECKING:

    class Tensor:
        """One tensor argument. Make it with In, InOut, OutExisting, NoDep or Out."""

        direction: Direction
        array: Array | None
        shape: tuple[int, ...]
        dtype: np.dtype[Any] | None
        nbytes: int

        def __init__(
            self,
            direction: Direction,
            array: Array | None = None,
            shape: tuple[int, ...] = (),
            dtype: np.dtype[Any] | None = None,
        ) -> None: ...

    def In(array: Any) -> Tensor: ...  # noqa: N802
    def InOut(array: Any) -> Tensor: ...  # noqa: N802
    def OutExisting(array: Any) -> Tensor: ...  # noqa: N802
    def NoDep(array: Any) -> Tensor: ...  # noqa: N802
else:
    Tensor = _native.Tensor
    In = _native.In
    InOut = _native.InOut
    OutExisting = _native.OutExisting
    NoDep = _native.NoDep


class OutputMemory:
    """Memory that the runtime allocated, and the task that fills it. It is given back with the last array over it."""

    __slots__ = ("__array_interface__", "address", "block", "nbytes", "owner", "runtime")

    def __init__(self, tensor: Tensor, block: Any, *, runtime: int) -> None:
        assert tensor.dtype is not None
        self.runtime = runtime
        self.owner: int | None = None  # set by the submission
        self.block = block
        self.address: int = block.address
        self.nbytes: int = block.bytes
        self.__array_interface__ = {
            "shape": tensor.shape,
            "typestr": tensor.dtype.str,
            "data": (self.address, False),
            "version": 3,
        }


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


def array_of(given: Any, how: str, writes: bool) -> Array:
    """What a tensor is made over, if it is not an array or may not be used as it is. Called by In and the like."""
    array: Array
    if isinstance(given, np.ndarray):
        array = given
    else:
        outputs = getattr(given, "outputs", None)
        if not isinstance(outputs, tuple):
            array = _shared(given, how)
        elif len(outputs) == 1:
            array = outputs[0] if isinstance(outputs[0], np.ndarray) else _shared(outputs[0], how)
        else:
            raise BadInput(f"{how}: the task has {len(outputs)} outputs", cure="name one: task.outputs[i]")
    if array.dtype.hasobject:
        raise BadInput(f"{how}: an array of Python objects has no bytes to track", cure="numbers of a fixed size")
    if writes and not array.flags.writeable:
        raise BadInput(f"{how}: the array is read-only", cure="pass it with In, or a writable copy")
    return array


def _shared(given: Any, how: str) -> Array:
    """An array over the memory of something else, without a copy: DLPack, a buffer, or what numpy can read."""
    reason: Exception | None = None
    # DLPack first: torch's __array__ knows no `copy`, and numpy warns of that at every call.
    for take in (np.from_dlpack, _without_copy) if hasattr(given, "__dlpack__") else (_without_copy,):
        try:
            return take(given)
        except Exception as error:  # numpy says so in several ways, and so do those who give their memory away
            reason = reason or error
    raise BadInput(
        f"{how}: {type(given).__name__} is not a numpy array and does not share its memory: {reason}",
        cure="np.asarray(...) first",
    )


def _without_copy(given: Any) -> Array:
    return np.asarray(given, copy=False)


class Buffer(NamedTuple):
    """The memory behind an array: where it begins, how much is known to be there (0: unknown), whose output it is."""

    address: int
    nbytes: int
    memory: OutputMemory | None = None


def buffer_of(array: Array) -> Buffer:
    """Follows the chain of bases to what holds the memory. If that is not known, the array itself is all there is."""
    begin, end = extent(array)
    at: Any = array
    while True:
        held = _holds(at)
        if held is not None and held.address <= begin and end <= held.address + held.nbytes:
            return held
        following = at.obj if isinstance(at, memoryview) else getattr(at, "base", None)
        if following is None or following is at:
            return Buffer(begin, 0)
        at = following


def _holds(at: Any) -> Buffer | None:
    """The buffer that an object at the end of a chain of bases holds; None if the chain goes on or nothing is known."""
    if isinstance(at, OutputMemory):
        return Buffer(at.address, at.nbytes, at)
    if isinstance(at, np.ndarray):
        return Buffer(int(at.ctypes.data), at.nbytes) if at.base is None and at.flags.owndata else None
    if isinstance(at, memoryview):
        return None
    try:
        whole = np.frombuffer(at, np.uint8)
    except (TypeError, ValueError, BufferError, AttributeError):
        return None  # not an exporter of bytes
    return Buffer(int(whole.ctypes.data), whole.nbytes)


def extent(array: Array) -> tuple[int, int]:
    """The lowest address that the array touches, and the end of the highest."""
    address: int = array.ctypes.data
    if array.size == 0:
        return address, address
    steps: list[int] = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    begin = address + sum(step for step in steps if step < 0)
    return begin, address + sum(step for step in steps if step > 0) + array.itemsize


def describe(tensor: Tensor, runtime: int) -> tuple[Any, ...]:
    """What the native side takes for a tensor whose memory it did not find by itself, or for a sketch: base, offset,
    item bytes, shape, strides, direction, maker, bytes of the buffer."""
    array = tensor.array
    assert array is not None
    found = _native.locate(array)
    if found is not None:  # `buffer_of` would say the same
        base, offset, item_bytes, shape, strides, nbytes = found
        return base, offset, item_bytes, shape, strides, int(tensor.direction), None, nbytes
    begin, end = extent(array)
    if begin < 0 or end > MOST_BYTES:
        raise BadInput(f"a view of shape {array.shape} is larger than memory", cure="check its strides")
    held = buffer_of(array)
    maker = None
    if held.memory is not None:
        if held.memory.runtime != runtime:
            raise BadInput("an output of another runtime is passed", cure="copy it, or use one runtime")
        maker = held.memory.owner
    direction = Direction.NO_DEP if array.size == 0 else tensor.direction
    offset = int(array.ctypes.data) - held.address
    return held.address, offset, array.itemsize, array.shape, array.strides, int(direction), maker, held.nbytes


def output_over(tensor: Tensor, block: Any, runtime: int) -> Array:
    """The array of an output; its base says whose it is."""
    array: Array = np.asarray(OutputMemory(tensor, block, runtime=runtime))
    return array


def _refuse(cause: str, cure: str) -> None:
    raise BadInput(cause, cure=cure)


_native.configure(refuse=_refuse, array_of=array_of, describe=describe, output=output_over, directions=tuple(Direction))
