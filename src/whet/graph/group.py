"""Several tasks as one: waiting for all of them, for whichever is done next, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from whet.graph.errors import BadInput, GraphTimeout, TaskCancelled, TaskFailed
from whet.graph.futures import State, Task
from whet.graph.options import limit_of

if TYPE_CHECKING:
    from whet.graph.runtime import Runtime

Ids = npt.NDArray[np.uint64]


class Progress(NamedTuple):
    """How far a group is. `done` counts what is over in any way, `failed` and `cancelled` are among them."""

    done: int
    total: int
    failed: int
    cancelled: int


class Group(Sequence[Task]):
    """Tasks of one runtime in their order. `outputs` are the arrays allocated for all of them together, by `map`."""

    def __init__(
        self,
        runtime: Runtime | None,
        ids: Ids,
        task: Callable[[int], Task],
        *,
        outputs: tuple[npt.NDArray[Any], ...] = (),
    ) -> None:
        self._runtime = runtime
        self._ids = ids
        self._task = task
        self.outputs = outputs

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> Group: ...
    def __getitem__(self, place: int | slice) -> Task | Group:
        if isinstance(place, slice):
            where = range(len(self))[place]
            return Group(self._runtime, self._ids[place], lambda at: self._task(where[at]))
        return self._task(range(len(self))[place])

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when every task is done. Then raises the error of the first in order that has one; every time."""
        if self._runtime is None:
            return
        self._runtime.wait_all_of(self._ids, timeout_s)
        states = self._states()
        wrong = np.flatnonzero(states != State.DONE)
        if len(wrong):
            self[int(wrong[0])].wait()

    def results(self, timeout: float | None = None) -> list[Any]:
        """What the bodies returned, in order. Raises as `wait` does. `timeout` is in seconds."""
        self.wait(limit_of(timeout))
        return [task._value() for task in self]

    def done(self) -> bool:
        return bool((self._states() >= State.DONE).all())

    def progress(self) -> Progress:
        states = self._states()
        return Progress(
            int((states >= State.DONE).sum()),
            len(self),
            int((states == State.FAILED).sum()),
            int((states == State.CANCELLED).sum()),
        )

    def cancel(self) -> None:
        """Tasks of the group that have not begun are cancelled; those that run finish. `progress` tells them apart."""
        if self._runtime is not None:
            self._runtime.cancel_these(self._ids)

    def __await__(self) -> Generator[Any, None, list[Any]]:
        """The results, in any event loop."""
        for task in self:
            if not task.done():
                with suppress(TaskFailed, TaskCancelled):  # told below, for the first one in order
                    yield from task.__await__()
        return self.results()

    def _states(self) -> npt.NDArray[np.uint8]:
        return np.zeros(0, np.uint8) if self._runtime is None else self._runtime.states(self._ids)

    def __repr__(self) -> str:
        return f"<Group of {len(self)} tasks>"


def gather(*tasks: Task) -> Group:
    """Tasks of one runtime as one: `gather(a, b).results()`, or `await gather(a, b)`."""
    given = _tasks(tasks)
    ids = np.array([task.id for task in given], np.uint64)
    return Group(given[0]._runtime if given else None, ids, given.__getitem__)


def as_completed(tasks: Iterable[Task], timeout: float | None = None) -> Iterator[Task]:
    """The tasks, each as soon as it is done, whatever became of it. The thread that asks runs tasks meanwhile.

    Raises GraphTimeout when not all of them are done `timeout` seconds after the call.
    """
    given = list(dict.fromkeys(_tasks(tuple(tasks))))
    limit_s = limit_of(timeout)
    return _as_completed(given, None if limit_s is None else time.monotonic() + limit_s, timeout)


def _as_completed(left: list[Task], until: float | None, timeout: float | None) -> Iterator[Task]:
    while left:
        runtime = left[0]._runtime
        ids = np.array([task.id for task in left], np.uint64)
        states = runtime.states(ids)
        over = [task for task, state in zip(left, states, strict=True) if state >= State.DONE or task._dropped()]
        if over:
            gone = set(over)
            left = [task for task in left if task not in gone]
            yield from over
            continue
        if until is not None and time.monotonic() >= until:
            raise GraphTimeout(
                f"{len(left)} of the tasks are not done after {timeout} s, the first is {left[0]}", cure="wait longer"
            )
        with suppress(GraphTimeout):  # said above, once what is done by then has been handed out
            runtime.wait_any_of(ids, None if until is None else max(1e-9, until - time.monotonic()))


def _tasks(given: Sequence[Any]) -> list[Task]:
    for task in given:
        if not isinstance(task, Task):
            raise BadInput(f"{type(task).__name__} is not a task", cure="pass what submit returned")
        if task._runtime is not given[0]._runtime:
            raise BadInput(f"{task} belongs to another runtime than {given[0]}", cure="one call per runtime")
    return list(given)
