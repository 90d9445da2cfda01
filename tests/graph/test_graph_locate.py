"""The native look at an array says what the walk in Python says, and nothing where only that one knows the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from whet._native import graph as _native

from whet.graph.tensors import buffer_of

cuts = st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-3, -2, -1, 1, 2, 3]))


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    dtype=st.sampled_from(["u1", "i2", "f4", "f8", "c16", "S3"]),
    slices=st.lists(cuts, min_size=1, max_size=6),
    transpose=st.booleans(),
)
def test_views_are_found_where_they_are(shape, dtype, slices, transpose):
    view = np.zeros(shape, dtype)
    for number, (begin, end, step) in enumerate(slices):
        place = [slice(None)] * view.ndim
        place[number % view.ndim] = slice(begin or None, end or None, step)
        view = view[tuple(place)]
    view = view.T if transpose else view
    found = _native.locate(view)
    if view.size == 0:
        assert found is None
        return
    base, offset, item_bytes, dimensions, strides, nbytes = found
    held = buffer_of(view)
    assert (base, nbytes) == (held.address, held.nbytes)
    assert base + offset == view.ctypes.data
    assert (item_bytes, dimensions, strides) == (view.itemsize, view.shape, view.strides)


@pytest.mark.parametrize(
    "array",
    [
        np.frombuffer(bytearray(64)),
        np.memmap("/dev/zero", mode="r", shape=16)[2:],
        as_strided(np.zeros(4), shape=(8,), strides=(8,)),
        as_strided(np.zeros(8)[4:], shape=(8,), strides=(-8,)),
        np.zeros((0, 4)),
        [1, 2, 3],
    ],
    ids=["bytes", "file", "beyond", "before", "empty", "list"],
)
def test_what_arrays_alone_do_not_explain_is_left_to_python(array):
    assert _native.locate(array) is None


def test_kinds_of_arrays_that_own_their_memory_are_found():
    for array in (np.zeros(()), np.zeros((2, 3)).reshape(3, 2), np.ma.zeros(4), np.zeros(3).view(np.recarray)):
        found = _native.locate(array)
        assert found is not None and found[0] + found[1] == array.ctypes.data
