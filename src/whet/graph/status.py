"""The codes of the native core as typed errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from whet._native import graph as _native
from whet.graph.errors import (
    BadInput,
    GraphClosed,
    GraphDeadlock,
    GraphError,
    GraphForked,
    GraphStalled,
    GraphTimeout,
    OutcomeForgotten,
    OutputRetired,
    TaskCancelled,
    TaskFailed,
)

DEADLOCKS = {
    "window_deadlock": ("window", "window"),
    "heap_deadlock": ("heap", "heap_bytes"),
    "tensormap_deadlock": ("tensor map", "tensormap_capacity"),
    "output_too_large": ("heap", "heap_bytes"),
}
PLAIN: dict[str, type[GraphError | BadInput]] = {
    "bad_argument": BadInput,
    "too_many_tensors": BadInput,
    "unknown_task": BadInput,
    "scope_mismatch": BadInput,
    "nested_submit": BadInput,
    "output_retired": OutputRetired,
    "timed_out": GraphTimeout,
    "stalled": GraphStalled,
    "forked": GraphForked,
    "shut_down": GraphClosed,
    "cancelled": TaskCancelled,
    "outcome_forgotten": OutcomeForgotten,
}


def raise_for(status: tuple[Any, ...]) -> NoReturn:
    """Raises what (name, cause, cure, detail, task, body result, what a Python body raised or None) means."""
    name, cause, cure, detail, task, result, raised = status
    text = f"{cause}: {detail}" if detail else cause
    if name == "interrupted":
        raise raised if raised is not None else KeyboardInterrupt
    if name == "task_failed":
        _raise_failure(cure, detail, task, result, raised)
    if name in DEADLOCKS:
        ring, option = DEADLOCKS[name]
        raise GraphDeadlock(text, cure=cure, ring=ring, option=option) from None
    raise PLAIN.get(name, GraphError)(text, cure=cure) from None


@contextmanager
def translated() -> Iterator[None]:
    """What the native core raises inside comes out typed."""
    try:
        yield
    except _native.StatusError as status:
        raise_for(status.args)


def _raise_failure(cure: str, detail: str, task: int, result: int, raised: BaseException | None) -> NoReturn:
    """The task's error with its name, `from` what the body raised."""
    if raised is None:
        raise TaskFailed(detail, cure=cure, task=task, name=_name(detail, task, result), status=result) from None
    name = _name(detail, task, result)
    who = f"task {task} ({name})" if name else f"task {task}"
    raise TaskFailed(f"{who} {how_raised(raised)}", cure=cure, task=task, name=name) from raised


def how_raised(error: BaseException) -> str:
    """In words. The text of an exception is code of the user's, which may raise in its turn."""
    try:
        return f"raised {type(error).__name__}: {error}"
    except Exception as other:
        return f"raised {type(error).__name__}, whose text raises {type(other).__name__}"


def _name(detail: str, task: int, result: int) -> str:
    """`task 7 (qk) returned 3` -> qk. A name may hold anything, brackets and these words too."""
    begin, end = f"task {task} (", f") returned {result}"
    if not detail.startswith(begin):
        return ""
    rest = detail[len(begin) :]
    return rest[: -len(end)] if rest.endswith(end) else rest.partition("): ")[0]
