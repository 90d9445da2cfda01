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


def raise_for(status: tuple[Any, ...], errors: list[tuple[Any, BaseException]]) -> NoReturn:
    """Raises what (name, cause, cure, detail, task, body result) means. `errors` holds what Python bodies raised."""
    name, cause, cure, detail, task, result = status
    text = f"{cause}: {detail}" if detail else cause
    if name == "interrupted":
        _raise_interrupt(errors)
    if name == "task_failed":
        _raise_failure(cure, detail, task, result, errors)
    if name in DEADLOCKS:
        ring, option = DEADLOCKS[name]
        raise GraphDeadlock(text, cure=cure, ring=ring, option=option) from None
    raise PLAIN.get(name, GraphError)(text, cure=cure) from None


@contextmanager
def translated(errors: list[tuple[Any, BaseException]]) -> Iterator[None]:
    """What the native core raises inside comes out typed."""
    try:
        yield
    except _native.StatusError as status:
        raise_for(status.args, errors)


def _raise_interrupt(errors: list[tuple[Any, BaseException]]) -> NoReturn:
    """A body was interrupted: the interrupt comes out of the wait as itself, once."""
    for place, (_, error) in enumerate(list(errors)):
        if isinstance(error, KeyboardInterrupt):
            del errors[place]
            raise error
    raise KeyboardInterrupt


def _raise_failure(cure: str, detail: str, task: int, result: int, errors: list[tuple[Any, BaseException]]) -> NoReturn:
    """The task's error with its name, `from` what the body raised."""
    for call, error in list(errors):
        if call.number != task:
            continue
        how = f"raised {type(error).__name__}: {error}"
        failed = TaskFailed(f"{detail.partition(' returned')[0]} {how}", cure=cure, task=task, name=_name(detail))
        raise failed from error
    raise TaskFailed(detail, cure=cure, task=task, name=_name(detail), status=result) from None


def _name(detail: str) -> str:
    """`task 7 (qk) returned 3` -> qk"""
    return detail.partition("(")[2].partition(")")[0]
