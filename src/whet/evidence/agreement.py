"""Does an output agree with the oracle? Written so that NaN, infinities and poison never pass by accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.errors import BadInput
from whet.protocol import Array, Output, Tolerance

# Exponent bits per float width: all ones means infinity or NaN.
_EXPONENT = {2: 0x7C00, 4: 0x7F80_0000, 8: 0x7FF0_0000_0000_0000}


@dataclass(frozen=True)
class Disagreement:
    """The first wrong element of one output."""

    reason: str
    detail: str
    expected: dict[str, Any]
    got: dict[str, Any]


def conform(answer: Mapping[str, Any], shapes: Mapping[str, Output]) -> dict[str, Array]:
    """The oracle's answer in the very shapes and types of the output buffers, or BadInput."""
    if set(answer) != set(shapes):
        raise BadInput(
            f"the oracle answers {sorted(answer)}, but the outputs are {sorted(shapes)}",
            cure="name the same buffers in both",
        )
    conformed = {}
    for name, output in shapes.items():
        value = np.asarray(answer[name])
        dtype = np.dtype(output.dtype)
        if value.shape != tuple(output.shape):
            raise BadInput(
                f"the oracle's {name!r} has shape {value.shape}, but the output has {tuple(output.shape)}",
                cure="give both the same shape",
            )
        if value.dtype != dtype and not np.can_cast(value.dtype, dtype, casting="same_kind"):
            raise BadInput(
                f"the oracle's {name!r} is {value.dtype}, but the output is {dtype}", cure="give both the same type"
            )
        # Not ascontiguousarray, which gives a number one dimension.
        conformed[name] = np.asarray(value, dtype, order="C")
    return conformed


def disagreement(
    name: str, got: Array, want: Array, tolerance: Tolerance, *, slack: float = 1.0
) -> Disagreement | None:
    """None if every element agrees. `slack` widens the tolerance where two inexact answers are compared."""
    own = tolerance.of(got.dtype)
    inexact = not own.exact and got.dtype.kind not in "iub"
    wrong = _outside(got, want, own, slack) if inexact else _bits_differ(got, want)
    found = np.flatnonzero(wrong)
    if not len(found):
        return None
    first = int(found[0])
    index = tuple(int(i) for i in np.unravel_index(first, got.shape)) if got.shape else ()
    mine, theirs = str(got.reshape(-1)[first]), str(want.reshape(-1)[first])
    not_finite = np.flatnonzero(wrong & ~finite(got).reshape(-1) & finite(want).reshape(-1))
    reason = "not finite" if len(not_finite) else "wrong output"
    detail = (
        f"{_place(name, index)} is {mine}, the oracle says {theirs}; {len(found):,} of {got.size:,} elements differ"
        + (f", {len(not_finite):,} are not finite" if len(not_finite) else "")
        + _how_far(name, got, want, tolerance)
    )
    place = {"output": name, "index": list(index)}
    return Disagreement(reason, detail, {**place, "value": theirs}, {**place, "value": mine})


def _place(name: str, index: tuple[int, ...]) -> str:
    return f"{name}{list(index)}" if index else name


def _how_far(name: str, got: Array, want: Array, tolerance: Tolerance) -> str:
    """The largest distance of all, beside what is allowed there and why."""
    kind = got.dtype.kind
    if kind in "iub":
        return "; integers have to be equal"
    if kind == "c":
        return f"; allowed is {_said(tolerance, got.dtype)}, for real and imaginary parts alike"
    ours, theirs = _wide(got), _wide(want)
    with np.errstate(all="ignore"):
        distance = np.where(np.isfinite(ours) & np.isfinite(theirs), np.abs(ours - theirs), -1.0)
    at = int(distance.argmax())
    if distance[at] < 0:
        return f"; allowed is {_said(tolerance, got.dtype)}"
    index = tuple(int(i) for i in np.unravel_index(at, got.shape)) if got.shape else ()
    allowed = _limit(theirs, tolerance.of(got.dtype))[at]
    there = "equal bits are asked for" if tolerance.of(got.dtype).exact else f"{allowed:.2g} is allowed there"
    return (
        f"; the largest distance is {distance[at]:.2g} at {_place(name, index)}, {there}: {_said(tolerance, got.dtype)}"
    )


def _said(tolerance: Tolerance, dtype: np.dtype[Any]) -> str:
    if tolerance.exact:
        return "the tolerance is exact; set one, such as Tolerance(relative=1e-12)"
    return tolerance.of(dtype).in_words() + (f", the default for {dtype}" if tolerance.by_dtype else "")


def _limit(theirs: Array, tolerance: Tolerance) -> Array:
    """What is allowed at each element, from the oracle's wide values."""
    limit: Array = tolerance.absolute + tolerance.relative * np.abs(theirs)
    if tolerance.of_largest:
        sound = theirs[np.isfinite(theirs)]
        limit = limit + tolerance.of_largest * (np.abs(sound).max() if sound.size else 0.0)
    return limit


def largest_error(got: Array, want: Array, tolerance: Tolerance) -> float:
    """The largest distance from the oracle as a share of what is tolerated; 0 where only equal bits pass."""
    tolerance = tolerance.of(got.dtype)
    if tolerance.exact or got.dtype.kind in "iub" or not got.size:
        return 0.0
    if got.dtype.kind == "c":
        return largest_error(_parts(got), _parts(want), tolerance)
    ours, theirs = _wide(got), _wide(want)
    with np.errstate(all="ignore"):
        share = np.abs(ours - theirs) / _limit(theirs, tolerance)
    told = share[np.isfinite(share)]
    return float(told.max()) if told.size else 0.0


def _bits_differ(got: Array, want: Array) -> Array:
    width = got.dtype.itemsize
    differ: Array = (_raw(got) != _raw(want)).reshape(-1, width).any(axis=1)
    return differ


def _raw(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _outside(got: Array, want: Array, tolerance: Tolerance, slack: float) -> Array:
    if got.dtype.kind == "c":
        either: Array = np.any(_outside(_parts(got), _parts(want), tolerance, slack).reshape(-1, 2), axis=1)
        return either
    ours, theirs = _wide(got), _wide(want)
    with np.errstate(all="ignore"):
        near = np.abs(ours - theirs) <= slack * _limit(theirs, tolerance)
    near &= finite(got).reshape(-1) & finite(want).reshape(-1)
    # Where the oracle itself is not finite, the very kind of it must come back.
    near |= (np.isnan(theirs) & np.isnan(ours)) | (np.isinf(theirs) & (ours == theirs))
    outside: Array = ~near
    return outside


def _parts(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(f"f{values.dtype.itemsize // 2}")


def _wide(values: Array) -> Array:
    flat = values.reshape(-1)
    return flat if flat.dtype.kind == "f" and flat.dtype.itemsize > 8 else flat.astype(np.float64)


def finite(values: Array) -> Array:
    """Finiteness on bit patterns: compilers and fast-math libraries may fold isfinite() to true."""
    if values.dtype.kind in "iub":
        return np.ones(values.shape, dtype=bool)
    if values.dtype.kind == "c":
        both: Array = np.asarray(np.all(finite(_parts(values)).reshape(*values.shape, 2), axis=-1))
        return both
    mask = _EXPONENT.get(values.dtype.itemsize) if values.dtype.kind == "f" else None
    if mask is None:
        return np.isfinite(_wide(values)).reshape(values.shape)
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    below: Array = (bits & mask) != mask
    return below
