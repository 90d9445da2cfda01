"""A point of BN254 G1 as users see it: two Python integers."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal

from whet.errors import BadInput

Endian = Literal["little", "big"]

# The base field, the order of the group, and b of y^2 = x^3 + b.
P = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
R = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
B = 3

POINT_BYTES = 64
SCALAR_BYTES = 32


@dataclass(frozen=True, slots=True)
class Point:
    """Affine coordinates, canonical. Infinity is (0, 0), which is not on the curve.

    Points add, subtract and take integer factors: `p + q`, `p - q`, `-p`, `5 * p`, `sum(points)`. For many products use
    `msm`. Not constant time.
    """

    x: int
    y: int

    @classmethod
    def infinity(cls) -> Point:
        return cls(0, 0)

    @property
    def is_infinity(self) -> bool:
        return self.x == 0 and self.y == 0

    @property
    def is_on_curve(self) -> bool:
        """Canonical coordinates and the equation, or infinity."""
        if not (0 <= self.x < P and 0 <= self.y < P):
            return False
        return self.is_infinity or (self.y * self.y - self.x * self.x * self.x - B) % P == 0

    def __neg__(self) -> Point:
        self._valid()
        return Point(self.x, -self.y % P)

    def __add__(self, other: Any) -> Point:
        if not isinstance(other, Point):
            return NotImplemented
        self._valid()
        other._valid()
        if self.is_infinity or other.is_infinity:
            return other if self.is_infinity else self
        if self.x != other.x:
            slope = (other.y - self.y) * pow(other.x - self.x, -1, P)
        elif self.y == other.y:  # no point of the curve has y = 0
            slope = 3 * self.x * self.x * pow(2 * self.y, -1, P)
        else:
            return Point.infinity()
        x = (slope * slope - self.x - other.x) % P
        return Point(x, (slope * (self.x - x) - self.y) % P)

    def __radd__(self, other: Any) -> Point:
        """What `sum` starts with is 0."""
        return self._valid() if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Any) -> Point:
        return self + -other if isinstance(other, Point) else NotImplemented

    def __mul__(self, factor: Any) -> Point:
        """Any integer, also a negative one; it counts modulo r."""
        from whet.msm.api import msm  # the sum itself is made of points

        try:
            k = operator.index(factor)
        except TypeError:
            return NotImplemented
        return msm([self], [k % R])

    __rmul__ = __mul__

    def _valid(self) -> Point:
        if not self.is_on_curve:
            raise BadInput(f"{self} is not on the curve y^2 = x^3 + 3", cure="check the coordinates and their order")
        return self

    def to_bytes(self, endian: Endian = "little") -> bytes:
        """64 bytes, x then y; infinity is 64 zero bytes. With "big" this is the EIP-196 form."""
        return self.x.to_bytes(32, endian) + self.y.to_bytes(32, endian)

    @classmethod
    def from_bytes(cls, data: bytes, endian: Endian = "little") -> Point:
        """The reverse of to_bytes. Reads the two numbers and checks nothing but the length."""
        if len(data) != POINT_BYTES:
            raise BadInput(f"a point is {POINT_BYTES} bytes, not {len(data)}", cure="give x and y, 32 bytes each")
        return cls(int.from_bytes(data[:32], endian), int.from_bytes(data[32:], endian))

    def __str__(self) -> str:
        return "infinity" if self.is_infinity else f"({self.x:#066x}, {self.y:#066x})"
