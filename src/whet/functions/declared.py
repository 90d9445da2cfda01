"""`@whet.variant`, `@whet.oracle`, `@whet.inputs`: they turn a module into an engine without a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from whet.errors import BadInput
from whet.functions.binding import name_of
from whet.functions.describing import Sizes, ToleranceLike, describe
from whet.functions.engine import FunctionEngine

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Declared:
    """What one module has declared so far. Declaring a name again replaces it, as running a cell again does."""

    variants: dict[str, Callable[..., Any]] = field(default_factory=dict)
    summaries: dict[str, str] = field(default_factory=dict)
    inputs: Callable[..., Any] | None = None
    oracle: Callable[..., Any] | None = None
    sizes: Sizes = field(default_factory=dict)
    tolerance: ToleranceLike = None


_BY_MODULE: dict[str, Declared] = {}


@overload
def variant(function: F, /) -> F: ...
@overload
def variant(*, name: str = "", summary: str = "") -> Callable[[F], F]: ...
def variant(function: Any = None, /, *, name: str = "", summary: str = "") -> Any:
    """Declares a function as a variant; the first one of a module is its baseline. Its docstring is its summary."""

    def declare(one: F) -> F:
        called = name or name_of(one)
        if not called:
            raise BadInput("a lambda has no name of its own", cure='@whet.variant(name="fast")')
        mine = _of(one)
        mine.variants[called] = one
        mine.summaries[called] = summary
        return one

    return declare if function is None else declare(function)


@overload
def oracle(function: F, /) -> F: ...
@overload
def oracle(*, tolerance: ToleranceLike = None) -> Callable[[F], F]: ...
def oracle(function: Any = None, /, *, tolerance: ToleranceLike = None) -> Any:
    """Declares the independent answer. `tolerance` is a share such as 1e-9, or a Tolerance; by dtype unless given."""

    def declare(one: F) -> F:
        mine = _of(one)
        mine.oracle, mine.tolerance = one, tolerance
        return one

    return declare if function is None else declare(function)


@overload
def inputs(function: F, /) -> F: ...
@overload
def inputs(*, sizes: Sizes) -> Callable[[F], F]: ...
def inputs(function: Any = None, /, *, sizes: Sizes | None = None) -> Any:
    """Declares what makes the inputs, and the sizes worth trying: the largest is timed, the others are gated first."""

    def declare(one: F) -> F:
        mine = _of(one)
        mine.inputs, mine.sizes = one, dict(sizes or {})
        return one

    return declare if function is None else declare(function)


def forget(module: str) -> None:
    """Before a module is run anew."""
    _BY_MODULE.pop(module, None)


def engine_of(module: str, name: str) -> FunctionEngine | None:
    """The engine that a module has declared; None if it has declared nothing."""
    found = _BY_MODULE.get(module)
    if found is None:
        return None
    if not found.variants:
        raise BadInput("no function is declared as a variant", cure="write @whet.variant above each of them")
    if found.inputs is None or found.oracle is None:
        missing = "inputs" if found.inputs is None else "oracle"
        raise BadInput(f"no function is declared as {missing}", cure=f"write @whet.{missing} above it")
    about = describe(
        found.variants,
        found.inputs,
        found.oracle,
        name=name,
        sizes=found.sizes,
        tolerance=found.tolerance,
        summaries=found.summaries,
    )
    return FunctionEngine(about, AtHand(found.variants, found.inputs, found.oracle))


@dataclass(frozen=True)
class AtHand:
    """Functions that this process has already."""

    _variants: dict[str, Callable[..., Any]]
    _inputs: Callable[..., Any]
    _oracle: Callable[..., Any]

    def inputs(self) -> Callable[..., Any]:
        return self._inputs

    def oracle(self) -> Callable[..., Any]:
        return self._oracle

    def variant(self, name: str) -> Callable[..., Any]:
        return self._variants[name]


def _of(function: Any) -> Declared:
    module = getattr(function, "__module__", None)
    if not callable(function) or not isinstance(module, str):
        raise BadInput(f"{function!r} is no function of a module", cure="declare functions that you define yourself")
    return _BY_MODULE.setdefault(module, Declared())
