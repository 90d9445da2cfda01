"""A submitted task as Python holds it. Its fields and the call of a Python body are native."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self

from whet._native import graph as _native
from whet.graph import notices
from whet.graph.errors import TaskCancelled, TaskFailed
from whet.graph.options import limit_of

if TYPE_CHECKING:
    from whet.graph.runtime import Runtime


def running_serial() -> int:
    """The runtime whose Python body this thread is in, 0 if it is in none."""
    return int(_native.running_serial())


class State(IntEnum):
    """Where a task is, in the numbers of the native core. From DONE on it is over."""

    WAITING = 0
    RUNNING = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4
    FORGOTTEN = 5


if TYPE_CHECKING:

    class Call:
        """A Python body with its arguments, and what came of it."""

        value: Any
        error: BaseException | None
        dropped: bool

        def drop(self) -> bool: ...

    class TaskFields:
        id: int
        name: str
        outputs: tuple[Any, ...]
        _runtime: Runtime
        _call: Call | None
        _standard: notices.Standard | None
        _withdrawn: bool

        def __new__(
            cls, runtime: Runtime, id: int, name: str, outputs: tuple[Any, ...], call: Call | None = None
        ) -> Self: ...
else:
    Call = _native.Call
    TaskFields = _native.Task


class Task(TaskFields):
    """A submitted task: a future with the methods of concurrent.futures.Future, which can be awaited as well.

    `outputs` are the arrays allocated for it; they live as long as somebody holds them.
    """

    __slots__ = ()

    def done(self) -> bool:
        """Whether it has run, failed or been cancelled."""
        return self.state() >= State.DONE

    def running(self) -> bool:
        return self.state() is State.RUNNING

    def cancelled(self) -> bool:
        """Whether it did not run and never will."""
        return self.state() is State.CANCELLED

    def state(self) -> State:
        state = self._runtime.state(self)
        return State.CANCELLED if state < State.DONE and self._dropped() else state

    def cancel(self) -> bool:
        """True if it has not begun and now never will; what depends on it does not run either."""
        if self.state() >= State.DONE:
            return self.cancelled()
        if self._call is not None:
            dropped = self._call.drop()
        else:
            dropped = self._withdrawn = self._runtime.withdraw(self)
        if dropped:
            self._runtime.tell(self)
        return dropped

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when the task is done. Raises its own error if it failed, TaskCancelled if it did not run; every
        time."""
        if self._dropped():
            raise TaskCancelled(f"{self} was cancelled before it began", cure="submit it again")
        self._runtime.wait_for(self, timeout_s)

    def result(self, timeout: float | None = None) -> Any:
        """What the Python body returned; None for native bodies. Raises as `wait` does: TaskFailed comes `from` what
        the body raised, with the body's own traceback. `timeout` is in seconds, 0 asks without waiting."""
        self.wait(limit_of(timeout))
        return self._value()

    def exception(self, timeout: float | None = None) -> TaskFailed | None:
        """What `result` would raise because the body failed; None if it went well. TaskCancelled is raised."""
        try:
            self.result(timeout)
        except TaskFailed as error:
            return error
        return None

    def add_done_callback(self, function: Callable[[Task], object]) -> None:
        """Calls `function(task)` once the task is done: at once if it is, and else on a thread of the runtime's own,
        where it may use the runtime. What it raises is logged."""
        if not self.done():
            self._runtime.notify(self, function)
            return
        interrupt = notices.call(function, self)
        if interrupt is not None:
            raise interrupt

    def __await__(self) -> Generator[Any, None, Any]:
        """The result, in any event loop. The task goes on if whoever awaits it is cancelled."""
        import asyncio  # whoever awaits has it; nobody else should pay for it

        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def arrive() -> None:
            if not arrived.done():
                arrived.set_result(None)

        def tell(_: Task) -> None:
            with suppress(RuntimeError):  # the loop has been closed: nobody awaits any more
                loop.call_soon_threadsafe(arrive)

        self.add_done_callback(tell)
        yield from arrived
        return self.result()

    def _value(self) -> Any:
        return self._call.value if self._call is not None else None

    def _dropped(self) -> bool:
        return self._withdrawn or (self._call is not None and self._call.dropped)

    # What concurrent.futures.wait and as_completed look at.

    @property
    def _condition(self) -> threading.Condition:
        return self._as_standard().condition

    @property
    def _state(self) -> str:
        return self._as_standard().state

    @property
    def _waiters(self) -> list[Any]:
        return self._as_standard().waiters

    def _as_standard(self) -> notices.Standard:
        with notices.making:
            if self._standard is None:
                standard = notices.Standard()
                self.add_done_callback(standard.finish)
                self._standard = standard  # last: one that nothing finishes would never end a wait
            return self._standard

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.name}>"


_native.configure(task=Task)
