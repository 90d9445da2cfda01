"""The alt_bn128 addition and multiplication of EIP-196, through the public API: big-endian bytes, infinity as zeros.

Every expected value is either stated by the group law (O, G, -G, order r) or computed here by py-ecc.
"""

from __future__ import annotations

import pytest
from py_ecc.fields import optimized_bn128_FQ as FQ
from py_ecc.optimized_bn128 import optimized_curve as reference

from whet import msm
from whet.errors import BadInput
from whet.msm.point import P, Point, R

O = bytes(64)  # noqa: E741
G = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")
MINUS_G = (1).to_bytes(32, "big") + (P - 2).to_bytes(32, "big")
# 2 G from the chord-and-tangent rule with slope 3 x^2 / 2 y = 3 / 4.
TWO_G_X = (pow(4, -2, P) * 9 - 2) % P
TWO_G_Y = (3 * pow(4, -1, P) * (1 - TWO_G_X) - 2) % P
TWO_G = TWO_G_X.to_bytes(32, "big") + TWO_G_Y.to_bytes(32, "big")


def ecadd(a: bytes, b: bytes, variant: str = "auto") -> bytes:
    one = (1).to_bytes(32, "big")
    return msm.msm(a + b, one + one, endian="big", variant=variant).to_bytes("big")


def ecmul(point: bytes, scalar: int, variant: str = "auto") -> bytes:
    return msm.msm(point, scalar.to_bytes(32, "big"), endian="big", variant=variant).to_bytes("big")


def from_py_ecc(k: int) -> bytes:
    if k % R == 0:
        return O
    x, y = reference.normalize(reference.multiply((FQ(1), FQ(2), FQ.one()), k % R))
    return int(x).to_bytes(32, "big") + int(y).to_bytes(32, "big")


VARIANTS = pytest.mark.parametrize("variant", ["plain", "pippenger", "pippenger:glv=true", "pippenger:c=2"])

ADDITIONS = {
    "O + O": (O, O, O),
    "O + G": (O, G, G),
    "G + O": (G, O, G),
    "G + G": (G, G, TWO_G),
    "G - G": (G, MINUS_G, O),
    "-G + G": (MINUS_G, G, O),
    "2G - G": (TWO_G, MINUS_G, G),
    "2G + G": (TWO_G, G, from_py_ecc(3)),
    "2G + 2G": (TWO_G, TWO_G, from_py_ecc(4)),
    "77G + 99G": (from_py_ecc(77), from_py_ecc(99), from_py_ecc(176)),
}

MULTIPLICATIONS = {
    "0 G": (G, 0, O),
    "1 G": (G, 1, G),
    "2 G": (G, 2, TWO_G),
    "9 G": (G, 9, from_py_ecc(9)),
    "(r - 1) G": (G, R - 1, MINUS_G),
    "r G": (G, R, O),
    "(r + 1) G": (G, R + 1, G),
    "p G": (G, P, from_py_ecc(P)),
    "(2^256 - 1) G": (G, 2**256 - 1, from_py_ecc(2**256 - 1)),
    "0 O": (O, 0, O),
    "1 O": (O, 1, O),
    "(2^256 - 1) O": (O, 2**256 - 1, O),
    "(r - 1) 2G": (TWO_G, R - 1, from_py_ecc(R - 2)),
    "(2^256 - 1) 77G": (from_py_ecc(77), 2**256 - 1, from_py_ecc(77 * (2**256 - 1))),
}


def test_two_g_is_the_known_point():
    assert TWO_G_X == 0x030644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD3
    assert TWO_G_Y == 0x15ED738C0E0A7C92E7845F96B2AE9C0A68A6A449E3538FC7FF3EBF7A5A18A2C4
    assert from_py_ecc(2) == TWO_G


@VARIANTS
@pytest.mark.parametrize("name", ADDITIONS)
def test_ecadd(name, variant):
    a, b, want = ADDITIONS[name]
    assert ecadd(a, b, variant) == want
    assert ecadd(b, a, variant) == want


@VARIANTS
@pytest.mark.parametrize("name", MULTIPLICATIONS)
def test_ecmul(name, variant):
    point, scalar, want = MULTIPLICATIONS[name]
    assert ecmul(point, scalar, variant) == want


@pytest.mark.parametrize(
    ("x", "y"),
    [(1, 1), (0, 1), (1, 0), (2, 2), (P - 1, 0), (P, 2), (1, P), (1, P + 2), (P + 1, 2), (P, P), (2**256 - 1,) * 2],
)
def test_invalid_points_are_refused(x, y, tried):
    bad = x.to_bytes(32, "big") + y.to_bytes(32, "big")
    for points in (bad + G, G + bad):
        with pytest.raises(BadInput) as caught:
            ecadd(points[:64], points[64:])
        assert caught.value.index == (0 if points.startswith(bad) else 1)
    with pytest.raises(BadInput):
        ecmul(bad, 0)
    tried("malformed inputs", 3)


def test_point_bytes_go_both_ways():
    assert Point.from_bytes(TWO_G, "big").to_bytes("big") == TWO_G
    assert Point.from_bytes(O).is_infinity and Point.infinity().to_bytes() == O
    assert Point.from_bytes(TWO_G, "big").to_bytes("little") == TWO_G_X.to_bytes(32, "little") + TWO_G_Y.to_bytes(
        32, "little"
    )
