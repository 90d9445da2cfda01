"""Which parameter gets what, and what is said where that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from whet.errors import BadInput
from whet.functions.binding import asks_for, bind, name_of


def called(function, offered, unnamed=()):
    values = {**offered, **{name: float(name) for name in unnamed}}
    return bind(function, "f()", offered, unnamed).call(function, values)


def test_by_name_whatever_the_order():
    assert called(lambda y, x: (y, x), {"x": 1, "y": 2}) == (2, 1)


def test_a_function_gets_what_it_asks_for_and_no_more():
    assert called(lambda x, n: (x, n), {"x": 1, "y": 2, "n": 3}) == (1, 3)


def test_by_position_in_the_gaps_that_names_leave():
    assert called(lambda a, n, b: (a, n, b), {"n": 7}, ("0", "1")) == (0.0, 7, 1.0)


def test_defaults_and_keywords():
    assert called(lambda a=5, *, x, k=3: (a, x, k), {"x": 1}) == (5, 1, 3)
    assert called(lambda a=5, x=2: (a, x), {"x": 1}) == (5, 1)
    assert called(lambda *rest, n: (rest, n), {"n": 2}, ("0", "1")) == ((0.0, 1.0), 2)


def test_without_a_signature_by_position():
    assert called(np.add, {"out": None}, ("0", "1")) == 1.0


@pytest.mark.parametrize(
    ("function", "offered", "unnamed", "said"),
    [
        (
            lambda z: z,
            {"x": 1, "n": 2},
            (),
            r"f\(\) asks for 'z', which nobody makes \(rename it \(on offer: n, x\), or write f\(inputs, outputs\)",
        ),
        (lambda a, b: a, {"n": 1}, ("0",), r"asks for 'b', and inputs\(\) makes 1 without names"),
        (lambda a: a, {}, ("0", "1"), r"takes 1 of the 2 inputs"),
        (lambda *, z: z, {"x": 1}, (), "asks for 'z'"),
    ],
)
def test_what_cannot_be_filled_is_named(function, offered, unnamed, said):
    with pytest.raises(BadInput, match=said):
        bind(function, "f()", offered, unnamed)


def test_names():
    assert name_of(called) == "called" and name_of(lambda: 0) == "" and name_of(3) == ""
    assert asks_for(lambda x, out: 0, "out") and not asks_for(max, "out")
