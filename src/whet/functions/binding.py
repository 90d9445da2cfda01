"""Which argument of a function gets what: inputs by name, or by position where they have none; sizes by their axis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whet.errors import BadInput

OUT = "out"
CASE = "case"
INPUTS, OUTPUTS = "inputs", "outputs"
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Bound:
    """The names of what goes where, in the order of the call."""

    by_position: tuple[str, ...]
    by_keyword: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return *self.by_position, *self.by_keyword

    def call(self, function: Callable[..., Any], offered: Mapping[str, Any]) -> Any:
        named = {name: offered[name] for name in self.by_keyword}
        return function(*(offered[name] for name in self.by_position), **named)


def bind(function: Callable[..., Any], label: str, offered: Iterable[str], unnamed: Sequence[str] = ()) -> Bound:
    """Every parameter that has a name on offer gets that; `unnamed` fill the others in order.

    A parameter with a default may stay without. BadInput names the first that cannot be filled, or what is left over.
    """
    known = set(offered)
    parameters = _parameters(function)
    if parameters is None:
        return Bound(tuple(unnamed) or tuple(name for name in offered if name not in (OUT, CASE)))
    left = list(unnamed)
    by_position: list[str] = []
    by_keyword: list[str] = []
    skipped = False
    for one in parameters:
        if one.kind is inspect.Parameter.VAR_POSITIONAL:
            by_position += left
            left = []
        elif one.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        elif one.kind in _BY_POSITION and (one.name in known or left):
            name = one.name if one.name in known else left.pop(0)
            if skipped and one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and name == one.name:
                by_keyword.append(name)
            else:
                by_position.append(name)
        elif one.name in known:
            by_keyword.append(one.name)
        elif one.default is inspect.Parameter.empty:
            raise _nobody_makes(label, one.name, known, unnamed)
        else:
            skipped = True
    if left:
        taken = len(unnamed) - len(left)
        raise BadInput(
            f"{label} takes {taken} of the {len(unnamed)} inputs", cure="give it a parameter for each of them"
        )
    return Bound(tuple(by_position), tuple(by_keyword))


def takes_buffers(function: Callable[..., Any], offered: Iterable[str], unnamed: Sequence[str]) -> bool:
    """Whether it is written as `fn(inputs, outputs)`: two parameters, and nothing on offer is called like either.

    Where inputs have no names, two parameters may be two of them: then only these very words mean the buffers.
    """
    required = [one.name for one in _parameters(function) or () if one.default is inspect.Parameter.empty]
    if len(required) != 2 or set(required) & set(offered):
        return False
    return required == [INPUTS, OUTPUTS] or not unnamed


def asks_for(function: Callable[..., Any], name: str) -> bool:
    return any(one.name == name for one in _parameters(function) or ())


def name_of(function: Any) -> str:
    """As users know it; empty for a lambda."""
    found = getattr(function, "__name__", "")
    return found if isinstance(found, str) and found.isidentifier() else ""


def _nobody_makes(label: str, name: str, known: set[str], unnamed: Sequence[str]) -> BadInput:
    offer = ", ".join(sorted(known))
    if unnamed:
        return BadInput(
            f"{label} asks for {name!r}, and inputs() makes {len(unnamed)} without names",
            cure=f"inputs without names go by position; by name there are: {offer}",
        )
    return BadInput(
        f"{label} asks for {name!r}, which nobody makes",
        cure=f"rename it (on offer: {offer}), or write {label.removesuffix('()')}({INPUTS}, {OUTPUTS}) for the buffers",
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """None where Python cannot tell, as for ufuncs and some builtins."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
