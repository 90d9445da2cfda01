"""What goes into functions and comes out of them, as named buffers: arrays, scalars, tuples, dicts, tensors.

Buffers carry names alone, so a name says what the function gets: `x` an array, `x:int` a Python number, `x:torch` a
tensor, `0` an input without a name. Answers without names are `result`, or `result.0`, `result.1` of a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from whet.errors import BadInput
from whet.protocol import Array, Arrays

ONE = "result"
_SCALARS = (bool, int, float, complex)
TENSOR = "torch"


def named_inputs(made: Any, label: str) -> dict[str, Array]:
    """The buffers behind what `inputs` made: a dict by name, a tuple or one array by position."""
    if isinstance(made, Mapping):
        pairs = {str(name): value for name, value in made.items()}
        if wrong := [name for name in pairs if not name.isidentifier()]:
            raise BadInput(f"{label} names an input {wrong[0]!r}", cure="use the name of a parameter")
    elif made is None:
        raise BadInput(f"{label} returned nothing", cure="return {name: array}, one array or a tuple of arrays")
    else:
        pairs = dict(enumerated(made))
    buffers = {}
    for name, value in pairs.items():
        kind = next((one.__name__ for one in _SCALARS if type(value) is one), "")
        suffix = f":{TENSOR}" if is_tensor(value) else f":{kind}" if kind else ""
        buffers[f"{name}{suffix}"] = array_of(value, f"input {name!r} of {label}")
    return buffers


def enumerated(made: Any) -> list[tuple[str, Any]]:
    return [(str(at), value) for at, value in enumerate(made if isinstance(made, tuple) else (made,))]


def lent(inputs: Arrays) -> tuple[dict[str, Any], bool]:
    """What a function gets for these buffers, and whether it may be kept: a number has to be read anew."""
    values: dict[str, Any] = {}
    keep = True
    for name, buffer in inputs.items():
        plain, _, kind = name.partition(":")
        if kind == TENSOR:
            values[plain] = tensor_over(buffer)
        elif kind:
            values[plain], keep = buffer.item(), False
        else:
            values[plain] = buffer
    return values, keep


def is_number(name: str) -> bool:
    """Whether the function gets a Python number for this buffer."""
    return name.partition(":")[2] not in ("", TENSOR)


def import_for(names: Iterable[str]) -> None:
    """Imports what tensors need, before a process may no longer import anything large."""
    if any(name.endswith(f":{TENSOR}") for name in names):
        import torch  # noqa: F401


def unnamed(values: Mapping[str, Any]) -> list[str]:
    return [name for name in values if name.isdigit()]


def named_answer(answer: Any, label: str) -> dict[str, Array]:
    """The buffers behind an answer."""
    if answer is None:
        raise BadInput(f"{label} returned nothing", cure="return the answer: an array, a number, a tuple or a dict")
    if isinstance(answer, Mapping):
        parts = {str(name): value for name, value in answer.items()}
    elif isinstance(answer, tuple):
        parts = {f"{ONE}.{at}": value for at, value in enumerate(answer)}
    else:
        parts = {ONE: answer}
    if not parts:
        raise BadInput(f"{label} returned an empty answer", cure="return at least one array")
    return {name: array_of(value, f"{name!r} of {label}") for name, value in parts.items()}


def out_of(outputs: Arrays, *, tensors: bool) -> Any:
    """The buffers as `out`: one array, a tuple or a dict, as the oracle answers."""
    wrap: Callable[[Array], Any] = tensor_over if tensors else lambda one: one
    if set(outputs) == {ONE}:
        return wrap(outputs[ONE])
    if all(name.startswith(f"{ONE}.") for name in outputs):
        return tuple(wrap(one) for one in outputs.values())
    return {name: wrap(one) for name, one in outputs.items()}


def store(answer: Any, outputs: Arrays, label: str) -> None:
    """Copies what a variant returned into its buffers. Raises TypeError or ValueError where it does not fit."""
    if type(answer) is np.ndarray and len(outputs) == 1:
        for name, place in outputs.items():
            _put(name, place, answer, label)
        return
    if answer is None:
        raise TypeError(f"{label} returned nothing: return the answer, or take `out` and write into it")
    if isinstance(answer, Mapping):
        parts = {str(name): value for name, value in answer.items()}
    elif isinstance(answer, tuple | list) and (len(outputs) > 1 or f"{ONE}.0" in outputs):
        parts = dict(zip(outputs, answer, strict=False)) if len(answer) == len(outputs) else {}
    else:
        parts = {next(iter(outputs)) if len(outputs) == 1 else ONE: answer}
    if set(parts) != set(outputs):
        raise ValueError(f"{label} returned {_described(answer)}, the oracle's answer is {', '.join(outputs)}")
    for name, place in outputs.items():
        _put(name, place, array_of(parts[name], f"{name!r} of {label}"), label)


def _put(name: str, place: Array, value: Array, label: str) -> None:
    if value.shape != place.shape:
        told = f"{name} of {label} has shape {value.shape}, the oracle's answer {place.shape}"
        raise ValueError(f"{told}; shapes may depend on sizes, not on data: pad, and return the length beside it")
    np.copyto(place, value, casting="same_kind")


def _described(answer: Any) -> str:
    if isinstance(answer, Mapping):
        return f"a dict of {', '.join(map(str, answer)) or 'nothing'}"
    return f"{len(answer)} values" if isinstance(answer, tuple | list) else f"one {type(answer).__name__}"


def is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == TENSOR and hasattr(value, "detach")


def array_of(value: Any, what: str) -> Array:
    """`value` as an array of numbers, wherever it lives."""
    try:
        found = np.asarray(value.detach().cpu().numpy() if is_tensor(value) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        if is_tensor(value):
            raise BadInput(
                f"{what} is no array: {error}", cure="give a dense tensor of a type numpy knows: .float()"
            ) from None
        raise BadInput(f"{what} is no array: {error}", cure="return numbers that numpy knows") from None
    if found.dtype.hasobject or found.dtype.kind in "USMm":
        raise BadInput(f"{what} has dtype {found.dtype}", cure="use plain numbers")
    return found


def tensor_over(buffer: Array) -> Any:
    """A tensor on the same memory."""
    import warnings

    import torch

    with warnings.catch_warnings():
        # Inputs cannot be written; a tensor does not know that, the memory does.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(buffer)
