"""Outputs against the oracle, element by element: what must pass and what must not."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.errors import BadInput
from whet.evidence.agreement import conform, disagreement, largest_error
from whet.evidence.buffers import (
    GUARD_BYTES,
    broken_guard,
    bytes_of,
    fill,
    lay_out,
    poison_word,
    set_guards,
    share_filled_with,
    views,
)
from whet.protocol import BY_DTYPE, Output, Tolerance

EXACT, CLOSE = Tolerance(), Tolerance(relative=1e-6, absolute=1e-9)
FLOATS = ["f2", "f4", "f8", "c8", "c16", "g"]


@pytest.mark.parametrize("dtype", [*FLOATS, "i1", "u2", "i8", "u8", "?"])
def test_equal_arrays_agree(dtype):
    values = np.arange(24).reshape(4, 6).astype(dtype)
    assert disagreement("y", values, values.copy(), EXACT) is None
    assert disagreement("y", values, values.copy(), CLOSE) is None


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("tolerance", [EXACT, CLOSE, Tolerance(relative=1e300, absolute=1e300)])
def test_what_is_not_finite_never_passes(dtype, bad, tolerance):
    want = np.ones(7, dtype)
    got = want.copy()
    got[3] = bad
    found = disagreement("y", got, want, tolerance)
    assert found is not None and found.reason == "not finite" and found.got["index"] == [3]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_an_oracle_that_expects_nan_gets_nan(dtype):
    want = np.array([1, np.nan, np.inf, -np.inf], dtype)
    assert disagreement("y", want.copy(), want, CLOSE) is None
    for place, value in ((1, 0), (2, -np.inf), (3, 7), (0, np.nan)):
        got = want.copy()
        got[place] = value
        assert disagreement("y", got, want, CLOSE) is not None


def test_exact_means_to_the_bit():
    assert disagreement("y", np.array([-0.0]), np.array([0.0]), EXACT) is not None
    assert disagreement("y", np.array([5e-324]), np.array([0.0]), EXACT) is not None
    assert disagreement("y", np.array([-0.0]), np.array([0.0]), CLOSE) is None


def test_integers_ignore_the_tolerance():
    loose = Tolerance(relative=1.0, absolute=100.0)
    assert disagreement("y", np.array([2**62 + 1]), np.array([2**62]), loose) is not None


@settings(max_examples=200, deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-9, 1e-2),
    st.floats(0.01, 100),
)
def test_the_tolerance_is_where_it_says(want, relative, share):
    got = want + share * (1e-9 + relative * abs(want))
    found = disagreement("y", np.array([got]), np.array([want]), Tolerance(relative=relative, absolute=1e-9))
    if share < 0.99:
        assert found is None
    if share > 1.01 and abs(got - want) > 1.0001 * (1e-9 + relative * abs(want)):
        assert found is not None


def test_slack_widens_for_two_inexact_answers():
    got, want = np.array([1 + 1.5e-6]), np.array([1.0])
    assert disagreement("y", got, want, CLOSE) is not None and disagreement("y", got, want, CLOSE, slack=2.0) is None


def test_conform_wants_the_same_names_shapes_and_kinds():
    shapes = {"y": Output((3,), np.int32)}
    assert conform({"y": [1, 2, 3]}, shapes)["y"].dtype == np.int32
    for answer in ({}, {"z": [1, 2, 3]}, {"y": [1, 2]}, {"y": [1.5, 2, 3]}, {"y": [[1, 2, 3]]}, {"y": 1, "z": 2}):
        with pytest.raises(BadInput):
            conform(answer, shapes)


@pytest.mark.parametrize("repeat", range(40))
def test_poison_is_nan_in_every_float_type_and_changes(repeat):
    memory = np.zeros(67, np.uint8)
    random = Random(repeat)
    word, other = poison_word(random), poison_word(random)
    fill(memory, word)
    for dtype in ("f2", "f4", "f8"):
        assert np.isnan(memory[:64].view(dtype)).all()
    assert np.isnan((memory[:64].view("u2").astype("u4") << 16).view("f4")).all(), "and in bfloat16"
    assert word != other and share_filled_with(memory, word) == 1 > share_filled_with(memory, other)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_largest_error_is_a_share_of_the_tolerance(dtype):
    want = np.array([1, 2, 4], dtype)
    got = want * np.array([1, 1 + 1 / 64, 1 - 1 / 32], dtype)
    assert largest_error(got, want, Tolerance(relative=0.125)) == pytest.approx(0.25, rel=1e-2)
    assert largest_error(got, want, EXACT) == 0.0 == largest_error(want, want, CLOSE)


def test_every_guard_byte_is_watched(tried):
    """A single flipped byte in any gap is seen, and blamed on a neighbour of the gap."""
    arena = lay_out([{"a": Output((5,), "u1"), "b": Output((3, 3), "f8")}, {"a": Output((0,), "u1")}])
    memory = np.zeros(arena.size_bytes, np.uint8)
    set_guards(memory, arena)
    assert broken_guard(memory, arena) is None
    positions = [place for start, end in arena.gaps() for place in range(start, end)]
    for place in positions[::37]:
        memory[place] ^= 1
        assert broken_guard(memory, arena) is not None
        memory[place] ^= 1
    for field in (field for group in arena.groups for field in group):
        assert field.offset % 64 == 0
        bytes_of(memory, field)[:] = 255
    assert broken_guard(memory, arena) is None and len(arena.gaps()) == 4
    assert min(end - start for start, end in arena.gaps()) >= GUARD_BYTES
    tried("planted faults", len(positions[::37]))


def test_views_do_not_overlap_and_follow_the_memory():
    arena = lay_out([{"x": Output((4,), "i4")}, {"x": Output((4,), "i4")}])
    memory = np.zeros(arena.size_bytes, np.uint8)
    one, two = (views(memory, group)["x"] for group in arena.groups)
    one[:], two[:] = 1, 2
    assert one.tolist() == [1] * 4 and two.tolist() == [2] * 4
    memory.flags.writeable = False
    assert not views(memory, arena.groups[0])["x"].flags.writeable


@pytest.mark.parametrize("dtype", [object, np.dtype([("a", "i4")]), "S3", "M8[s]"])
def test_types_that_cannot_be_shared_are_refused(dtype):
    if dtype in ("S3", "M8[s]"):
        assert lay_out([{"x": Output((2,), dtype)}]).groups[0][0].size_bytes == 2 * np.dtype(dtype).itemsize
    else:
        with pytest.raises(BadInput):
            lay_out([{"x": Output((2,), dtype)}])


def test_the_default_goes_by_type():
    """Round-off passes, the round-off of the next narrower type does not, and integers are equal or wrong."""
    want = np.array([1.0, -3.0, 1e-20, 250.0])
    for dtype, near, far in ((np.float64, 1e-13, 1e-8), (np.float32, 1e-6, 1e-3)):
        exact = want.astype(dtype)
        assert disagreement("y", (want + near).astype(dtype), exact, BY_DTYPE) is None
        found = disagreement("y", (want * (1 + far)).astype(dtype), exact, BY_DTYPE)
        assert found is not None and f"the default for {np.dtype(dtype)}" in found.detail
    assert disagreement("y", np.array([2]), np.array([1]), BY_DTYPE) is not None


def test_small_answers_are_held_to_their_own_scale():
    """An absolute default would let zeros pass for them."""
    want = np.array([1e-15, -2e-15])
    assert disagreement("y", np.zeros(2), want, BY_DTYPE) is not None
    assert disagreement("y", np.zeros(2), want, Tolerance(absolute=1e-9)) is None


def test_a_refusal_tells_the_largest_distance_and_what_was_allowed():
    got, want = np.array([1.0, 2.5, 3.25]), np.array([1.0, 2.0, 3.0])
    told = disagreement("y", got, want, Tolerance(absolute=0.01)).detail
    assert "y[1] is 2.5, the oracle says 2.0; 2 of 3 elements differ" in told
    assert "the largest distance is 0.5 at y[1], 0.01 is allowed there: 0.01" in told
    told = disagreement("y", got, want, Tolerance()).detail
    assert "equal bits are asked for: the tolerance is exact; set one, such as Tolerance(relative=1e-12)" in told
    assert disagreement("y", np.array(2.5), np.array(2.0), BY_DTYPE).detail.startswith("y is 2.5, the oracle says 2.0")
    assert "integers have to be equal" in disagreement("y", np.array([1]), np.array([2]), BY_DTYPE).detail


def test_the_largest_error_goes_by_the_default_too():
    want = np.array([0.0, 1.0])
    assert largest_error(np.array([1e-11, 1.0]), want, BY_DTYPE) == pytest.approx(0.1)
