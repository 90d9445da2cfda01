"""The runtime that a `with` statement has opened, for calls that name none."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.graph.runtime import Runtime

_open: ContextVar[tuple[Runtime, ...]] = ContextVar("whet.graph open runtimes", default=())


def current_runtime() -> Runtime | None:
    """The innermost one of this thread or coroutine."""
    runtimes = _open.get()
    return runtimes[-1] if runtimes else None


def open_runtime() -> Runtime:
    """The same; for calls that need one."""
    runtime = current_runtime()
    if runtime is None:
        raise BadInput("no runtime is open here", cure="with Runtime() as rt: around it, or rt.map(body, ...)")
    return runtime


def enter(runtime: Runtime) -> None:
    _open.set((*_open.get(), runtime))


def leave(runtime: Runtime) -> None:
    _open.set(tuple(each for each in _open.get() if each is not runtime))
