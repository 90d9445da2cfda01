"""Answers that cost nothing, and answers that are damaged: what a good task refuses.

A free answer is made without the work: zeros, a constant, an input, the answer to another question. A damaged one is
the right answer with something lost on the way: precision, order, signs, the second half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from whet.evidence.agreement import disagreement, largest_error
from whet.protocol import Array, Arrays, Case, Tolerance

# Unit round-off of the formats that an answer may be squeezed through.
ROUND_OFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
HALF = ("float16", "bfloat16")


@dataclass(frozen=True)
class Known:
    """A case with its inputs and the oracle's answers, one of each per seed; the seeds are the same in every case."""

    case: Case
    inputs: Sequence[Arrays]
    expected: Sequence[Arrays]

    @property
    def one_answer(self) -> bool:
        """Whatever the seed, the oracle says the same."""
        return all(same_values(self.expected[0], other) for other in self.expected[1:])


def free_answers(known: Known, number: int, smaller: Known | None) -> dict[str, dict[str, list[Array]]]:
    """By name: for each output what might pass for it, when seed `number` is asked about."""
    expected, other = known.expected[number], known.expected[number + 1]
    given = known.inputs[number]
    offers: dict[str, dict[str, list[Array]]] = {
        "zeros": {name: [np.zeros_like(want)] for name, want in expected.items()},
        "ones": {name: [np.ones_like(want)] for name, want in expected.items()},
        "a constant": {name: [_constant(other[name])] for name in expected},
        "the answer to another seed": {name: [other[name]] for name in expected},
    }
    passed = {name: [_cast(value, want) for value in given.values()] for name, want in expected.items()}
    offers["an input passed through"] = {
        name: [value for value in values if value is not None] for name, values in passed.items()
    }
    if smaller is not None:
        small = smaller.expected[number]
        offers["the answer to a smaller case, repeated"] = {
            name: [np.resize(small[name], want.shape).astype(want.dtype)]
            for name, want in expected.items()
            if small[name].size
        }
    return offers


def damaged_answers(expected: Arrays) -> dict[str, dict[str, Array]]:
    """By name: the right answer with something lost. One that loses nothing is left as it was."""
    found = {
        "the sorted answer": {name: np.sort(want, axis=None).reshape(want.shape) for name, want in expected.items()},
        "the first half of the answer": {name: _first_half(want) for name, want in expected.items()},
    }
    if any(want.dtype.kind in "ifc" for want in expected.values()):
        found["the negated answer"] = {name: _signed(want, np.negative) for name, want in expected.items()}
    if any(want.dtype.kind in "if" for want in expected.values()):
        found["the answer without signs"] = {name: _signed(want, np.abs) for name, want in expected.items()}
    for form in ROUND_OFF:
        if any(_holds_more(want.dtype, form) for want in expected.values()):
            found[f"the answer in {form}"] = {name: _squeezed(want, form) for name, want in expected.items()}
    return found


def passes(offer: Mapping[str, Array], expected: Arrays, tolerance: Tolerance) -> bool:
    """By the very comparison that judges a variant."""
    return all(disagreement(name, offer[name], want, tolerance) is None for name, want in expected.items())


def passing(offers: Mapping[str, Sequence[Array]], expected: Arrays, tolerance: Tolerance) -> dict[str, Array] | None:
    """One array per output that agrees with what is expected, if there is one for each."""
    found: dict[str, Array] = {}
    for name, want in expected.items():
        for offer in offers.get(name, ()):
            if disagreement(name, offer, want, tolerance) is None:
                found[name] = offer
                break
        else:
            return None
    return found


def share_used(offer: Arrays, expected: Arrays, tolerance: Tolerance) -> float:
    """How much of the tolerance the largest error takes."""
    return max((largest_error(offer[name], want, tolerance) for name, want in expected.items()), default=0.0)


def same_bits(one: Arrays, other: Arrays) -> bool:
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


def same_values(one: Arrays, other: Arrays) -> bool:
    """Zeros of either sign are one value, and so are all NaNs."""
    return all(np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind in "fc") for name in one)


def _constant(other: Array) -> Array:
    """The mean of another answer, everywhere."""
    if not other.size:
        return other
    with np.errstate(all="ignore"):
        mean = np.mean(other, dtype=np.complex128 if other.dtype.kind == "c" else np.float64)
        if other.dtype.kind in "iub":
            # A mean of very large integers leaves their range by rounding; their middle element does not.
            mean = np.sort(other, axis=None)[other.size // 2]
        return np.full(other.shape, mean).astype(other.dtype)


def _cast(value: Array, want: Array) -> Array | None:
    if value.size != want.size or not value.size:
        return None
    with np.errstate(all="ignore"):
        plain = value.real if value.dtype.kind == "c" and want.dtype.kind != "c" else value
        cast: Array = np.ascontiguousarray(plain).reshape(want.shape).astype(want.dtype)
    return cast


def _first_half(want: Array) -> Array:
    kept = want.copy()
    kept.reshape(-1)[want.size - want.size // 2 :] = 0
    return kept


def _signed(want: Array, change: np.ufunc) -> Array:
    if want.dtype.kind not in "ifc" or (want.dtype.kind == "c" and change is np.abs):
        return want
    with np.errstate(all="ignore"):
        changed: Array = change(want)
    return changed


def _holds_more(dtype: np.dtype, form: str) -> bool:
    return dtype.kind in "fc" and np.finfo(dtype).eps / 2 < ROUND_OFF[form]


def _squeezed(want: Array, form: str) -> Array:
    if not _holds_more(want.dtype, form):
        return want
    if want.dtype.kind == "c":
        parts = np.ascontiguousarray(want).view(f"f{want.dtype.itemsize // 2}")
        return _squeezed(parts, form).view(want.dtype).reshape(want.shape)
    with np.errstate(all="ignore"):
        if form != "bfloat16":
            return want.astype(form).astype(want.dtype)
        bits = want.astype(np.float32).reshape(-1).view(np.uint32)
        # To nearest, as hardware does it: half of the last kept place is added before the rest is cut off.
        bits = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
        rounded: Array = bits.view(np.float32).reshape(want.shape).astype(want.dtype)
        return np.where(np.isfinite(want), rounded, want)
