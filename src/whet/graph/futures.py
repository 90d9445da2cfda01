"""A submitted task as Python holds it, and the call of a Python body."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from whet.graph import notices
from whet.graph.errors import TaskCancelled, TaskFailed
from whet.graph.tensors import Tensor
from whet.graph.workloads.workload import Direction

if TYPE_CHECKING:
    from whet.graph.runtime import Runtime

_inside = threading.local()


def running_serial() -> int | None:
    """The runtime whose Python body this thread is in, if any."""
    return getattr(_inside, "serial", None)


class State(IntEnum):
    """Where a task is, in the numbers of the native core. From DONE on it is over."""

    WAITING = 0
    RUNNING = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4
    FORGOTTEN = 5


class Task:
    """A submitted task: a future with the methods of concurrent.futures.Future, which can be awaited as well.

    `outputs` are the arrays allocated for it; they live as long as somebody holds them.
    """

    __slots__ = ("_call", "_runtime", "id", "name", "outputs")

    def __init__(self, runtime: Runtime, number: int, name: str, outputs: tuple[Any, ...], call: Call | None) -> None:
        self._runtime = runtime
        self.id = number
        self.name = name
        self.outputs = outputs
        self._call = call

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
        """True if it has not begun and now never will; what depends on it does not run either.

        Python bodies alone can be told: a native one may have begun before anybody could say so, which is False.
        """
        if self.state() >= State.DONE:
            return self.cancelled()
        if self._call is None or not self._call.drop():
            return False
        self._runtime.tell(self)
        return True

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when the task is done. Raises its own error if it failed, TaskCancelled if it did not run; every
        time."""
        if self._dropped():
            raise TaskCancelled(f"{self} was cancelled before it began", cure="submit it again")
        self._runtime.wait_for(self, timeout_s)

    def result(self, timeout: float | None = None) -> Any:
        """What the Python body returned; None for native bodies. Raises as `wait` does: TaskFailed comes `from` what
        the body raised, with the body's own traceback. `timeout` is in seconds, 0 asks without waiting."""
        self.wait(timeout if timeout is None or timeout > 0 else 1e-9)
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
        if self.done():
            notices.call(function, self)
        else:
            self._runtime.notify(self, function)

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
        return self._call is not None and self._call.dropped

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.name}>"


class Call:
    """A Python body with its arguments. Called by a worker with the interpreter lock held; never raises."""

    __slots__ = ("arguments", "body", "dropped", "error", "errors", "number", "outputs", "serial", "ticket", "value")

    def __init__(
        self,
        body: Any,
        arguments: tuple[Any, ...],
        outputs: list[npt.NDArray[Any]],
        errors: list[tuple[Call, BaseException]],
        serial: int,
    ) -> None:
        self.body = body
        # Of another task only its call is needed; the task itself would keep its runtime.
        self.arguments = tuple(Passed(a._call) if isinstance(a, Task) else a for a in arguments)
        self.outputs = outputs
        self.errors = errors
        self.serial = serial
        self.number = -1  # set by the submission
        self.value: Any = None
        self.error: BaseException | None = None
        self.dropped = False
        self.ticket = [True]  # whoever takes it decides whether the body runs

    def drop(self) -> bool:
        """Keeps the body from being run; False if it has begun."""
        if not self._decide():
            return self.dropped
        self.dropped = True
        self._let_go()
        return True

    def _decide(self) -> bool:
        try:
            return self.ticket.pop()
        except IndexError:
            return False

    def _let_go(self) -> None:
        """The arrays of the arguments are no longer needed; the value may outlive them."""
        self.body = None
        self.arguments = ()
        self.outputs = []

    def __call__(self) -> Any:
        """True if the body went well, False if it raised, None if it was interrupted, NotImplemented if it is not to
        be run."""
        if not self._decide():
            return NotImplemented
        outer = running_serial()
        _inside.serial = self.serial
        try:
            fresh = iter(self.outputs)
            self.value = self.body(*[for_python(a, fresh) for a in self.arguments])
            return True
        except BaseException as error:
            self.error = error
            self.errors.append((self, error))
            return None if isinstance(error, KeyboardInterrupt) else False
        finally:
            _inside.serial = outer
            self._let_go()


class Passed:
    """The result of another task as an argument."""

    __slots__ = ("call",)

    def __init__(self, call: Call | None) -> None:
        self.call = call


def for_python(argument: Any, fresh: Iterator[npt.NDArray[Any]]) -> Any:
    """What a Python body gets: arrays, read-only ones for In; what a task returned; anything else as it is."""
    if isinstance(argument, Passed):
        return argument.call.value if argument.call is not None else None
    if not isinstance(argument, Tensor):
        return argument
    if argument.array is None:
        return next(fresh)
    if argument.direction is Direction.IN:
        view = argument.array.view()
        view.flags.writeable = False
        return view
    return argument.array
