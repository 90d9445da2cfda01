"""What referee, judge and bench have in common: they serve requests until the parent goes away."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from whet.errors import BadInput, WhetError
from whet.evidence.channel import Channel, PeerGone
from whet.evidence.messages import Answer, Failed, Hello, Request
from whet.evidence.registry import where
from whet.evidence.system import Granted
from whet.protocol import Array, Engine

Handler = Callable[..., Answer]


def answer_requests(
    channel_fd: int, hears: Any, handlers: Mapping[type[Request], Handler], pid: int, granted: Granted
) -> None:
    """Says hello, then answers in order. A WhetError goes back as one; anything else ends the process."""
    channel = Channel(socket.socket(fileno=channel_fd), hears)
    try:
        _greet(channel, pid, granted)
        while True:
            request = channel.receive()
            fds = channel.receive_fds(request.fds) if request.fds else []
            try:
                handler = handlers[type(request)]
                answer = handler(request, fds) if fds else handler(request)
            except WhetError as error:
                answer = Failed(kind=type(error).__name__, cause=error.cause, cure=error.cure)
            channel.send(answer)
    except PeerGone:
        return


def _greet(channel: Channel, pid: int, granted: Granted) -> None:
    """The listener goes to the parent and stays nowhere else: whoever holds it decides what this process may do."""
    listeners = [] if granted.listener is None else [granted.listener]
    channel.send(Hello(pid=pid, granted=granted.kept, missing=granted.missing, fds=len(listeners)), listeners)
    for fd in listeners:
        os.close(fd)


def map_bytes(fd: int, size_bytes: int, *, writeable: bool) -> Array:
    """The shared memory behind `fd` as an array of bytes, on huge pages where the system allows that. Closes `fd`."""
    memory = mmap.mmap(fd, max(1, size_bytes), access=mmap.ACCESS_WRITE if writeable else mmap.ACCESS_READ)
    os.close(fd)
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


def plain_arithmetic() -> None:
    """Round to nearest, no flushing of small numbers to zero: an import may have left other settings behind."""
    import ctypes
    import ctypes.util

    default_environment = ctypes.c_void_p(-1)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None).fesetenv(default_environment)


def ask(engine: Engine, method: str, *arguments: Any) -> Any:
    """Calls a describing method of an engine; what it raises becomes BadInput that names the line."""
    try:
        return getattr(engine, method)(*arguments)
    except WhetError:
        raise
    except Exception as error:
        raise BadInput(
            f"{where(error, engine.source)}: {method}() of engine {engine.name} raised {type(error).__name__}: {error}",
            cure="mend the engine, or choose a case it can make",
        ) from error


def memory_share(processes: int) -> int:
    """What each of so many processes may have of the memory that is free now."""
    import psutil

    return int(psutil.virtual_memory().available) * 9 // 10 // processes


def limit_memory(size_bytes: int) -> None:
    """A size beyond that ends in MemoryError here, not in the kernel killing a neighbour. It cannot be taken back."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (size_bytes, size_bytes))
