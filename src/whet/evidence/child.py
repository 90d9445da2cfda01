"""What the referee and the bench have in common: they serve requests until the parent goes away."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from whet.errors import BadInput, WhetError
from whet.evidence.frames import Channel, PeerGone
from whet.evidence.registry import where
from whet.protocol import Array, Engine

Handler = Callable[..., dict[str, Any]]


def serve(channel_fd: int, handlers: dict[str, Handler]) -> None:
    """Answers requests in order. A WhetError goes back as one; anything else ends the process."""
    die_with_parent()
    channel = Channel(socket.socket(fileno=channel_fd))
    while True:
        try:
            request = channel.receive()
            try:
                answer = handlers[request.pop("op")](**request)
            except WhetError as error:
                answer = {"error": {"kind": type(error).__name__, "cause": error.cause, "cure": error.cure}}
            channel.send(answer)
        except PeerGone:
            return


def die_with_parent() -> None:
    """A killed parent must not leave a kernel running. Elsewhere than on Linux the closed channel has to do."""
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)


def map_bytes(fd: int, size_bytes: int, *, writeable: bool) -> Array:
    """The shared memory behind `fd` as an array of bytes, on huge pages where the system allows that."""
    if writeable and os.fstat(fd).st_size < size_bytes:
        os.ftruncate(fd, size_bytes)
    memory = mmap.mmap(fd, size_bytes, access=mmap.ACCESS_WRITE if writeable else mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8)


def private_copy(values: Array) -> Array:
    """A copy on anonymous pages that nothing can write: huge ones where the system has them, as an allocator gives.

    Shared memory seldom gets huge pages, and a gather over a large table is then slower by an eighth.
    """
    memory = mmap.mmap(-1, max(1, values.nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    copied = np.frombuffer(memory, dtype=np.uint8)[: values.nbytes]
    copied[:] = values
    import ctypes

    ctypes.CDLL(None).mprotect(ctypes.c_void_p(copied.ctypes.data), ctypes.c_size_t(len(memory)), mmap.PROT_READ)
    copied.flags.writeable = False
    return copied


def ask(engine: Engine, method: str, *arguments: Any) -> Any:
    """Calls a describing method of an engine; what it raises becomes BadInput that names the line."""
    try:
        return getattr(engine, method)(*arguments)
    except WhetError:
        raise
    except Exception as error:
        source = Path(sys.modules[type(engine).__module__].__file__ or engine.name)
        raise BadInput(
            f"{where(error, source)}: {method}() of engine {engine.name} raised {type(error).__name__}: {error}",
            cure="mend the engine, or choose a case it can make",
        ) from error
