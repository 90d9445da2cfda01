"""A submitted task as Python holds it, and the call of a Python body."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from whet.graph.tensors import Tensor
from whet.graph.workloads.workload import Direction

if TYPE_CHECKING:
    from whet.graph.runtime import Runtime

_inside = threading.local()


def running_serial() -> int | None:
    """The runtime whose Python body this thread is in, if any."""
    return getattr(_inside, "serial", None)


class Task:
    """A submitted task. `outputs` are the arrays allocated for it; they live as long as somebody holds them."""

    __slots__ = ("_call", "_runtime", "id", "name", "outputs")

    def __init__(self, runtime: Runtime, number: int, name: str, outputs: tuple[Any, ...], call: Call | None) -> None:
        self._runtime = runtime
        self.id = number
        self.name = name
        self.outputs = outputs
        self._call = call

    @property
    def done(self) -> bool:
        return self._runtime.done(self)

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when the task is done. Raises its own error if it failed, Cancelled if it did not run; every time."""
        self._runtime.wait_for(self, timeout_s)

    def result(self, timeout_s: float | None = None) -> Any:
        """What the Python body returned; None for native bodies. Raises as `wait` does."""
        self.wait(timeout_s)
        return self._call.value if self._call is not None else None

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.name}>"


class Call:
    """A Python body with its arguments. Called by a worker with the interpreter lock held; never raises."""

    __slots__ = ("arguments", "body", "error", "errors", "number", "outputs", "serial", "value")

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

    def __call__(self) -> bool | None:
        """True if the body went well, False if it raised, None if it was interrupted."""
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
            # The arrays of the arguments are no longer needed; the value may outlive them.
            self.body = None
            self.arguments = ()
            self.outputs = []


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
