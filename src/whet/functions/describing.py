"""What users say about their functions, read and checked: names, sizes, tolerance, and what to be careful about."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whet.errors import BadInput
from whet.functions.binding import asks_for, name_of
from whet.functions.engine import DRAWN_FROM, MOST_CASES, Description, Offered
from whet.protocol import BY_DTYPE, MAX_SIZE, Tolerance, parse_size

Sizes = Mapping[str, "int | str | Sequence[int | str]"]
ToleranceLike = Tolerance | float | None


def named(variants: Mapping[str, Any] | Sequence[Any]) -> dict[str, Callable[..., Any]]:
    """Functions by the name they are compared under."""
    if isinstance(variants, Mapping):
        pairs = [(str(name), function) for name, function in variants.items()]
    else:
        pairs = [(name_of(function), function) for function in variants]
    found: dict[str, Callable[..., Any]] = {}
    for name, function in pairs:
        if not callable(function):
            raise BadInput(f"variant {name!r} is {function!r}, no function", cure="give functions")
        if not name:
            raise BadInput("a lambda has no name of its own", cure='name it: {"fast": lambda x: ...}')
        if not name.strip() or any(mark in name for mark in ":,=/\\\0") or not name.isprintable():
            raise BadInput(f"{name!r} is no name for a variant", cure="use letters, digits, spaces, - and _")
        if name in found:
            raise BadInput(f"two variants are called {name}", cure="give them as a dict, each with its own name")
        found[name] = function
    if not found:
        raise BadInput("there are no variants", cure='give some: {"plain": plain, "fast": fast}')
    return found


def describe(
    variants: Mapping[str, Callable[..., Any]],
    inputs: Any,
    oracle: Any,
    *,
    name: str = "",
    sizes: Sizes | None = None,
    tolerance: ToleranceLike = None,
    summaries: Mapping[str, str] | None = None,
) -> Description:
    """All of it in one record. BadInput for what cannot be meant."""
    if not callable(inputs):
        raise BadInput(
            "inputs is missing" if inputs is None else f"inputs is a {type(inputs).__name__}, no function",
            cure='give a function that makes fresh ones: def make(n, rng): return {"x": rng.normal(size=n)}',
        )
    if not callable(oracle):
        raise BadInput(
            "there is no oracle" if oracle is None else f"oracle is a {type(oracle).__name__}, no function",
            cure="give a function that computes the answer in another way; slow is fine, it is never timed",
        )
    offered = [Offered(one, (summaries or {}).get(one) or _summary(function)) for one, function in variants.items()]
    return Description(
        name=name or _stem(next(iter(variants.values()))),
        variants=offered,
        sizes=read_sizes(sizes or {}),
        tolerance=read_tolerance(tolerance),
        file=_file(oracle) or _file(next(iter(variants.values()))),
        cautions=_cautions(variants, inputs, oracle),
    )


def read_sizes(sizes: Sizes) -> dict[str, list[int]]:
    """Each axis with all its values, each once, smallest first."""
    found: dict[str, list[int]] = {}
    count = 1
    for axis, given in sizes.items():
        values = [given] if isinstance(given, int | str) or not hasattr(given, "__iter__") else list(given)
        found[str(axis)] = sorted({_size(axis, value) for value in values})
        if not str(axis).isidentifier() or not values:
            raise BadInput(f"sizes has an axis {axis!r} of {given!r}", cure='write sizes={"n": 2**14}')
        count *= len(values)
    if count > MOST_CASES:
        raise BadInput(f"sizes makes {count:,} cases", cure=f"give at most {MOST_CASES}")
    return found


def _size(axis: str, value: Any) -> int:
    if isinstance(value, str):
        return parse_size(value, what=f"size of axis {axis}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= value.__index__() <= MAX_SIZE:
        raise BadInput(f"size {axis}={value!r} is not a whole number from 0 on", cure="write 4096, 2**12 or '2^12'")
    return int(value.__index__())


def read_tolerance(given: ToleranceLike) -> Tolerance:
    if given is None:
        return BY_DTYPE
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = Tolerance(relative=float(given), of_largest=float(given))
    if not isinstance(given, Tolerance) or not all(
        share >= 0 for share in (given.relative, given.absolute, given.of_largest)
    ):
        raise BadInput(f"tolerance {given!r} is no distance", cure="give a share such as 1e-9, or whet.Tolerance(...)")
    return given


def _cautions(variants: Mapping[str, Any], inputs: Any, oracle: Any) -> list[str]:
    said = [f"{name} is the oracle as well" for name, function in variants.items() if _same(function, oracle)]
    if not any(asks_for(inputs, name) for name in (*DRAWN_FROM, "case")):
        said.append(f"{name_of(inputs) or 'inputs'}() takes neither seed nor rng: every call gets the same inputs")
    return said


def _same(one: Any, other: Any) -> bool:
    codes = [getattr(function, "__code__", None) for function in (one, other)]
    return one is other or (codes[0] is not None and codes[0] is codes[1])


def _summary(function: Any) -> str:
    """The first line of what the function says about itself, unless that is its type's."""
    if not inspect.isroutine(function) and getattr(type(function), "__doc__", None) == getattr(
        function, "__doc__", None
    ):
        return ""
    text = (inspect.getdoc(function) or "").strip()
    return text.splitlines()[0].rstrip(".")[:120] if text else ""


def _stem(function: Any) -> str:
    """The file that the functions come from; a cell of a notebook has none that means anything."""
    file = Path(_file(function))
    return file.stem if file.is_file() and "ipykernel" not in str(file.parent) else "functions"


def _file(function: Any) -> str:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))
