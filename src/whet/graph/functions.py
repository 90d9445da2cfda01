"""Functions that know what they do with their arguments: the directions stand in the annotations.

@task
def blur(source: Reads, target: Writes, weight: float) -> None: ...

rt.submit(blur, a, b, 0.5)  # the same as rt.submit(plain_blur, In(a), OutExisting(b), 0.5)
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput, Unsupported
from whet.graph.bodies import NUMBA_SIGNATURE, NativeBody, resolve
from whet.graph.context import current_runtime, open_runtime
from whet.graph.futures import Task, running_serial
from whet.graph.group import Group
from whet.graph.tensors import In, InOut, NoDep, OutExisting, Tensor

Reads = Annotated[npt.NDArray[Any], In]
"""An array that the function reads."""
Updates = Annotated[npt.NDArray[Any], InOut]
"""An array that the function reads and writes."""
Writes = Annotated[npt.NDArray[Any], OutExisting]
"""An array that the function overwrites without reading."""

DIRECTIONS = (In, InOut, OutExisting, NoDep)


class TaskFunction:
    """A function made a task body by `@task`. Called where a runtime is open, it is submitted; elsewhere it runs."""

    def __init__(self, function: Callable[..., Any], *, compiled: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.compiled = compiled
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.directions = _directions(function)
        if compiled:
            _numba()  # says so where the function is written, not where it is first used
        self._bodies: dict[tuple[Any, ...], NativeBody] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Inside `with Runtime()` the Task that it was submitted as. In a body, and elsewhere, what it returns."""
        runtime = current_runtime() if not running_serial() else None
        if runtime is not None:
            return runtime.submit(self, *arguments)
        return self.function(*arguments)

    def map(self, *arguments: Any, after: Iterable[Task | int] = (), name: str | None = None) -> Group:
        """`Runtime.map` of this function in the runtime that is open."""
        return open_runtime().map(self, *arguments, after=after, name=name)

    def prepared(self, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The body to submit, and its arguments with their directions."""
        directed = self.directed(arguments)
        return self._compiled(directed) if self.compiled else (self.function, directed)

    def directed(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._directed(place, argument) for place, argument in enumerate(arguments))

    def _directed(self, place: int, argument: Any) -> Any:
        """An argument that already has a direction keeps it, so that Out(...) can be passed for any array."""
        direction = self.directions[place] if place < len(self.directions) else None
        if direction is None or isinstance(argument, Tensor):
            return argument
        if isinstance(argument, Task) and not argument.outputs:
            return argument
        if isinstance(argument, (list, tuple)):  # what `map` hands out one by one
            return [item if isinstance(item, Tensor) else direction(item) for item in argument]
        return direction(argument)

    def _compiled(self, arguments: tuple[Any, ...]) -> tuple[NativeBody, tuple[Any, ...]]:
        """One native body per combination of types. Shapes travel as scalars, before the function's own."""
        kinds = tuple(_kind(self.__name__, argument) for argument in arguments)
        body = self._bodies.get(kinds)
        if body is None:
            body = self._bodies[kinds] = compile_body(self.function, kinds, self.__name__)
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        sizes = [size for tensor in tensors for size in _shape(tensor)]
        rest = [a for a in arguments if not isinstance(a, Tensor)]
        return body, (*tensors, *sizes, *rest)


@typing.overload
def task(function: Callable[..., Any], /) -> TaskFunction: ...
@typing.overload
def task(*, numba: bool = False) -> Callable[[Callable[..., Any]], TaskFunction]: ...
def task(function: Callable[..., Any] | None = None, /, *, numba: bool = False) -> Any:
    """Makes a function a task body whose annotations say what it does with its arrays: Reads, Updates, Writes, or
    `Annotated[..., In]` with a type of one's own. With numba=True it is compiled and runs without the interpreter lock.
    """
    if function is None:
        return lambda given: TaskFunction(given, compiled=numba)
    if not callable(function):
        raise BadInput(f"@task makes a function a task, not a {type(function).__name__}", cure="@task above a def")
    return TaskFunction(function, compiled=numba)


def _directions(function: Callable[..., Any]) -> tuple[Callable[[Any], Tensor] | None, ...]:
    """Per parameter what makes a tensor of its argument; None where the annotation says nothing."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError) as error:
        name = getattr(function, "__name__", function)
        raise BadInput(f"the annotations of {name} cannot be read: {error}", cure="names of the module") from None
    found = []
    for name in parameters:
        marks = getattr(hints.get(name), "__metadata__", ())
        found.append(next((mark for mark in marks if mark in DIRECTIONS), None))
    return tuple(found)


def _numba() -> Any:
    try:
        import numba
    except ImportError as error:
        raise Unsupported(
            f"@task(numba=True) needs numba: {error}", cure="pip install numba, or leave numba=True out"
        ) from None
    return numba


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tensor.shape if tensor.array is None else tensor.array.shape


def _kind(name: str, argument: Any) -> tuple[str, ...]:
    """What the compiled code depends on."""
    if isinstance(argument, Tensor):
        array = argument.array
        if array is not None and not array.flags.c_contiguous:
            raise BadInput(f"{name} is compiled and gets a view with gaps", cure="np.ascontiguousarray, or no numba")
        kind = argument.dtype if array is None else array.dtype
        assert kind is not None
        if not _shape(argument):
            raise BadInput(f"{name} is compiled and gets an array without axes", cure="array.reshape(1)")
        return "array", kind.str, str(len(_shape(argument)))
    if isinstance(argument, (bool, np.bool_)):
        return ("bool",)
    if isinstance(argument, (int, np.integer)):
        return ("int",)
    if isinstance(argument, (float, np.floating)):
        return ("float",)
    raise BadInput(
        f"{name} is compiled and gets a {type(argument).__name__}", cure="arrays, int, float and bool; or no numba"
    )


def compile_body(function: Callable[..., Any], kinds: tuple[tuple[str, ...], ...], name: str) -> NativeBody:
    """A native body that makes arrays and values of its addresses and words and calls the compiled function.

    What the function raises fails the task with status 1; compiled code cannot say more.
    """
    numba = _numba()
    names: dict[str, Any] = {"carray": numba.carray, "inner": numba.njit(nogil=True)(function)}
    words = sum(int(kind[2]) for kind in kinds if kind[0] == "array")
    at_tensor, at_size, at_word, values = 0, 0, words, []
    for kind in kinds:
        if kind[0] == "array":
            sizes = "".join(f"scalars[{at_size + axis}], " for axis in range(int(kind[2])))
            names[f"type{at_tensor}"] = np.dtype(kind[1])
            values.append(f"carray(tensors[{at_tensor}], ({sizes}), type{at_tensor})")
            at_tensor, at_size = at_tensor + 1, at_size + int(kind[2])
            continue
        read = {"int": f"ints[{at_word}]", "float": f"floats[{at_word}]", "bool": f"ints[{at_word}] != 0"}
        values.append(read[kind[0]])
        at_word += 1
    total = max(1, at_word)
    names |= {"int64": np.int64, "float64": np.float64}
    source = f"""
def body(tensors, scalars, user):
    ints = carray(scalars, ({total},)).view(int64)
    floats = carray(scalars, ({total},)).view(float64)
    try:
        inner({", ".join(values)})
    except Exception:
        return 1
    return 0
"""
    exec(compile(source, f"<task {name}>", "exec"), names)
    try:
        made = resolve(numba.cfunc(NUMBA_SIGNATURE)(names["body"]))
    except numba.core.errors.NumbaError as error:
        raise BadInput(
            f"numba cannot compile {name}: {error}", cure="see its reason, or leave numba=True out"
        ) from error
    assert isinstance(made, NativeBody)
    return NativeBody(name, made.address, made.user, made.keep)
