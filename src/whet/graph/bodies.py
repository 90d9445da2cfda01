"""What a task can run: a built-in kernel, a native function of any maker, a Python callable, or nothing.

A native body is `int body(void** tensors, const uint64_t* scalars, void* user)`: tensor addresses, scalar words (a
float travels as the bits of a double), and the pointer given with it. Zero means done; anything else fails the task.
It runs without the interpreter lock.
"""

from __future__ import annotations

import ctypes
import os
import struct
from _ctypes import CFuncPtr
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from whet._native import graph as _native
from whet.errors import BadInput
from whet.graph.context import open_runtime
from whet.graph.errors import KernelNotFound

if TYPE_CHECKING:
    from whet.graph.futures import Task
    from whet.graph.group import Group

SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p
)
"""The ctypes type of a native body."""

NUMBA_SIGNATURE = "int32(CPointer(voidptr), CPointer(uint64), voidptr)"
"""The same for `numba.cfunc`."""


if TYPE_CHECKING:

    class BodyFields:
        name: str
        address: int
        user: int
        keep: tuple[Any, ...]
        built_in: bool

        def __new__(
            cls, name: str, address: int, user: int = 0, keep: tuple[Any, ...] = (), built_in: bool = False
        ) -> Self: ...
else:
    BodyFields = _native.Body


class NativeBody(BodyFields):
    """A native function. `keep` is whatever must stay alive for `address` and `user` to be good."""

    __slots__ = ()

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.address, self.user, self.built_in

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, NativeBody) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<NativeBody {self.name} at {self.address:#x}>"

    def map(self, *arguments: Any, after: Iterable[Task | int] = (), name: str | None = None) -> Group:
        """`Runtime.map` of this function in the runtime that is open."""
        return open_runtime().map(self, *arguments, after=after, name=name)

    def with_user(self, words: np.ndarray[Any, Any]) -> NativeBody:
        """The same function with the address of a numpy array as its `user` pointer."""
        if not isinstance(words, np.ndarray) or not words.flags.c_contiguous:
            raise BadInput(
                f"the user data of {self.name} must be a C-contiguous numpy array", cure="np.ascontiguousarray"
            )
        return NativeBody(self.name, self.address, words.ctypes.data, (*self.keep, words), self.built_in)


Body = NativeBody | Callable[..., Any] | None

_DOUBLE = struct.Struct("<d")

KERNELS: dict[str, NativeBody] = {
    name: NativeBody(name, address, built_in=True) for name, address, _, _ in _native.KERNELS
}
"""The kernels that come with the runtime."""


def kernel(name: str) -> NativeBody:
    if name not in KERNELS:
        raise BadInput(f"there is no built-in kernel {name!r}", cure=f"kernels: {', '.join(KERNELS)}")
    return KERNELS[name]


def load(library: str | os.PathLike[str], symbol: str) -> NativeBody:
    """A body from a shared library. What the loader says is passed on when it fails."""
    if not isinstance(library, (str, os.PathLike)) or not isinstance(symbol, str) or not symbol:
        raise BadInput(f"load({library!r}, {symbol!r}) names no library and symbol", cure='load("libmine.so", "step")')
    path = os.fspath(library)
    try:
        opened = ctypes.CDLL(path)
    except OSError as error:
        raise KernelNotFound(
            f"library {path} with body {symbol} cannot be loaded: {error}",
            cure="check the path and what the library itself needs (ldd)",
            library=path,
            symbol=symbol,
        ) from error
    try:
        function = opened[symbol]
    except AttributeError as error:
        raise KernelNotFound(
            f"library {path} has no symbol {symbol}: {error}",
            cure='export it with C linkage (extern "C"); nm -D lists what is there',
            library=path,
            symbol=symbol,
        ) from error
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return NativeBody(symbol, address, keep=(opened,))


def resolve(body: Any) -> Body:
    """A body of any maker in its common form. Python callables and None stay as they are."""
    if body is None or isinstance(body, NativeBody):
        return body
    if isinstance(body, CFuncPtr):
        address = ctypes.cast(body, ctypes.c_void_p).value
        if not address:
            raise BadInput("the ctypes function pointer is null", cure="pass a function")
        return NativeBody(getattr(body, "__name__", "ctypes body"), address, keep=(body,))
    address = getattr(body, "address", None)
    if isinstance(address, int) and hasattr(body, "native_name"):  # numba's CFunc
        return NativeBody(str(getattr(body, "__name__", body.native_name)), address, keep=(body,))
    if type(body).__module__ == "_cffi_backend":
        word = int(import_module("_cffi_backend").FFI().cast("uintptr_t", body))
        if not word:
            raise BadInput("the cffi function pointer is null", cure="pass a function")
        return NativeBody("cffi body", word, keep=(body,))
    if callable(body):
        return body  # type: ignore[no-any-return]
    raise BadInput(
        f"{type(body).__name__} is not a task body",
        cure="pass a kernel, a ctypes, cffi or numba function pointer, a Python callable, or None for a barrier",
    )


def name_of(body: Body) -> str:
    if body is None:
        return "barrier"
    if isinstance(body, NativeBody):
        return body.name
    return getattr(body, "__name__", type(body).__name__)


def scalar_word(value: Any) -> int:
    """A scalar as the 64 bits a native body sees."""
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, np.integer)):
        number = int(value)
        if not -(2**63) <= number < 2**64:
            raise BadInput(f"scalar {number} does not fit 64 bits", cure="pass it in an array")
        return number & (2**64 - 1)
    if isinstance(value, (float, np.floating)):
        return int.from_bytes(_DOUBLE.pack(value), "little")
    raise BadInput(
        f"{type(value).__name__} is not a scalar", cure="pass int, float, bool, or a tensor with a direction"
    )


_native.configure(resolve=resolve, name_of=name_of, scalar_word=scalar_word)
