"""Bad points and scalars by the hundred: each a BadInput that names the first bad element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whet._native.curve import write_points

from whet import msm
from whet.errors import BadInput
from whet.msm import inputs
from whet.msm.point import P, R

_FLAT = inputs.to_ints(write_points(inputs.points_from_logs(inputs.to_limbs([0, *range(1, 40), R - 1]))).reshape(-1, 4))
GOOD = list(zip(_FLAT[::2], _FLAT[1::2], strict=True))
MANY = settings(max_examples=400, deadline=None, derandomize=True)

# Defects that every form of input can carry: (x, y) to a pair of numbers below 2^256.
NUMERIC: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "y off by one": lambda x, y: (x, (y + 1) % P),
    "x off by one": lambda x, y: ((x + 1) % P, y if (y * y - pow(x + 1, 3, P) - 3) % P else y + 1),
    "swapped": lambda x, y: (5, 1),
    "only x": lambda x, y: (1, 0),
    "only y": lambda x, y: (0, 2),
    "x not reduced": lambda x, y: (x + P, y),
    "y not reduced": lambda x, y: (x, y + P),
    "x is p": lambda x, y: (P, y),
    "y is p": lambda x, y: (x, P),
    "largest": lambda x, y: (2**256 - 1, 2**256 - 1),
}
# Defects that only Python objects can have.
OBJECTS: dict[str, Callable[[int, int], Any]] = {
    "negative x": lambda x, y: (-x - 1, y),
    "negative y": lambda x, y: (x, -y - 1),
    "too large": lambda x, y: (2**256 + x, y),
    "float": lambda x, y: (1.0, 2.0),
    "text": lambda x, y: ("1", "2"),
    "None inside": lambda x, y: (x, None),
    "one number": lambda x, y: (x,),
    "three numbers": lambda x, y: (x, y, 1),
    "not a pair": lambda x, y: x,
    "bytes": lambda x, y: bytes(64),
    "empty": lambda x, y: (),
}
FORMS: dict[str, Callable[[list[tuple[int, int]]], tuple[Any, str]]] = {
    "pairs": lambda points: (points, "little"),
    "little bytes": lambda points: (_join(points, "little"), "little"),
    "big bytes": lambda points: (_join(points, "big"), "big"),
    "bytearray": lambda points: (bytearray(_join(points, "little")), "little"),
    "uint8 rows": lambda points: (np.frombuffer(_join(points, "big"), np.uint8).reshape(-1, 64), "big"),
    "uint8 strided": lambda points: (np.asfortranarray(FORMS["uint8 rows"](points)[0]), "big"),
    "uint64": lambda points: (np.frombuffer(_join(points, "little"), np.uint64).reshape(-1, 8), "little"),
}


def _join(points: list[tuple[int, int]], endian: Any) -> bytes:
    return b"".join(v.to_bytes(32, endian) for point in points for v in point)


def refused(call: Callable[[], object]) -> BadInput:
    with pytest.raises(BadInput) as caught:
        call()
    assert caught.value.cause and caught.value.cure
    return caught.value


@st.composite
def spoiled(draw, defects: dict[str, Any], forms: dict[str, Any]):
    """Good points with one to three bad ones among them, in some form; and where the first bad one is."""
    points: list[Any] = draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=12))
    places = draw(st.lists(st.integers(0, len(points) - 1), min_size=1, max_size=3, unique=True))
    for place in places:
        points[place] = defects[draw(st.sampled_from(sorted(defects)))](*points[place])
    data, endian = forms[draw(st.sampled_from(sorted(forms)))](points)
    return data, endian, min(places), len(points)


def test_bad_points_in_every_form(tried):
    count = 0

    @MANY
    @given(spoiled(NUMERIC, FORMS), st.sampled_from(["plain", "pippenger", "auto"]))
    def check(case, variant):
        nonlocal count
        data, endian, first, _ = case
        error = refused(lambda: msm.Engine(data, endian=endian, variant=variant))
        assert error.index == first and str(first) in error.cause
        count += 1

    check()
    tried("malformed inputs", count)


def test_bad_objects_among_points(tried):
    """A point off the curve before a float is the first bad one, although only one of them shows at once."""
    count = 0

    @MANY
    @given(spoiled(OBJECTS | NUMERIC, {"pairs": FORMS["pairs"]}))
    def check(case):
        nonlocal count
        data, _, first, n = case
        error = refused(lambda: msm.msm(data, [1] * n))
        assert error.index == first and str(first) in error.cause
        count += 1

    check()
    tried("malformed inputs", count)


def test_bad_scalars(tried):
    count = 0
    bad_values = st.sampled_from([-1, -(2**300), 2**256, 2**256 + 1, 2**999, 1.5, "7", None, b"\x01", (1,), 3j])

    @MANY
    @given(st.lists(st.integers(0, 2**256 - 1), max_size=9), bad_values, st.lists(bad_values, max_size=3))
    def check(good, bad, more):
        nonlocal count
        scalars = [*good, bad, *more]
        error = refused(lambda: msm.msm([(1, 2)] * len(scalars), scalars))
        assert error.index == len(good) and f"scalar {len(good)}" in error.cause
        count += 1

    check()
    tried("malformed inputs", count)


def test_montgomery_scalars_must_be_below_r(tried):
    for n in range(1, 12):
        for place in range(n):
            limbs = inputs.to_limbs([R if i == place else R - 1 for i in range(n)])
            error = refused(lambda limbs=limbs, n=n: msm.msm([(1, 2)] * n, limbs, scalars_montgomery=True))
            assert error.index == place
    tried("malformed inputs", 66)


def test_cut_short_buffers(tried):
    count = 0

    @MANY
    @given(st.integers(0, 5), st.integers(1, 63), st.booleans())
    def check(whole, rest, as_array):
        nonlocal count
        data: Any = _join(GOOD[:whole], "little") + bytes(rest)
        data = np.frombuffer(data, np.uint8) if as_array else data
        error = refused(lambda: msm.msm(data, [1] * whole))
        assert error.index == whole
        if rest % 32:
            scalars: Any = bytes(32 * whole + rest % 32)
            error = refused(lambda: msm.msm(GOOD[:whole], np.frombuffer(scalars, np.uint8) if as_array else scalars))
            assert error.index == whole
            count += 1
        count += 1

    check()
    tried("malformed inputs", count)


def test_a_bad_point_before_the_cut_comes_first():
    data = _join([GOOD[1], (1, 3), GOOD[2]], "little") + bytes(7)
    assert refused(lambda: msm.Engine(data)).index == 1


def test_lengths_that_differ(tried):
    count = 0
    for n in range(6):
        for m in range(6):
            if n != m:
                assert refused(lambda n=n, m=m: msm.msm(GOOD[:n], [1] * m)).index == min(n, m)
                with msm.Engine(GOOD[:n]) as engine:
                    assert refused(lambda engine=engine, m=m: engine([1] * m)).index == min(n, m)
                count += 2
    tried("malformed inputs", count)


WRONG_TYPES = [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.float32, np.float64, np.complex128, bool, object]


def test_wrong_types_and_shapes(tried):
    count = 0
    for dtype in (*WRONG_TYPES, ">u8"):
        for shape in ((2, 64), (2, 8), (128,)):
            refused(lambda dtype=dtype, shape=shape: msm.Engine(np.zeros(shape, dtype)))
            count += 1
        refused(lambda dtype=dtype: msm.msm([(1, 2)], np.zeros((1, 4), dtype)))
        count += 1
    for dtype, shapes in {
        np.uint8: [(2, 63), (2, 65), (2, 32, 2), (0, 63), ()],
        np.uint64: [(8,), (2, 7), (2, 9), (2, 4), (1, 4, 2), (1, 2, 8), ()],
    }.items():
        for shape in shapes:
            refused(lambda dtype=dtype, shape=shape: msm.Engine(np.zeros(shape, dtype)))
            count += 1
    for shape in [(4,), (1, 8), (1, 3), (1, 1, 4)]:
        refused(lambda shape=shape: msm.msm([(1, 2)], np.zeros(shape, np.uint64)))
        count += 1
    refused(lambda: msm.Engine(np.zeros((1, 8), np.uint64), endian="big"))
    for nothing in (None, 5, 1.5, "text", {}, {(1, 2)}, object(), iter([(1, 2)]), memoryview(np.zeros(8, np.uint64))):
        refused(lambda nothing=nothing: msm.Engine(nothing))
        refused(lambda nothing=nothing: msm.msm([(1, 2)], nothing))
        count += 2
    tried("malformed inputs", count + 1)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.integers(), inner),
    max_leaves=8,
)


def test_any_object_at_all_is_an_answer_or_a_typed_error(tried):
    count = 0

    @MANY
    @given(ANYTHING, ANYTHING)
    def check(points, scalars):
        nonlocal count
        try:
            assert isinstance(msm.msm(points, scalars), msm.Point)
        except BadInput as error:
            assert error.cause and error.cure
            count += 1

    check()
    tried("malformed inputs", count)
