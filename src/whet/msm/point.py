"""A point of BN254 G1 as users see it: two Python integers."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal

from whet.errors import BadInput
from whet.msm.options import shown

Endian = Literal["little", "big"]
Compressed = Literal["gnark", "ark", "halo2", "aztec"]

# The base field, the order of the group, and b of y^2 = x^3 + b.
P = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
R = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
B = 3

POINT_BYTES = 64
SCALAR_BYTES = 32

# 32 bytes of x with the sign of y in its spare bits: byte order, whether negative means y > -y or an odd y, and the two
# top bits for a positive sign, a negative sign, infinity.
COMPRESSED: dict[str, tuple[Endian, Literal["larger", "odd"], int, int, int | None]] = {
    "gnark": ("big", "larger", 0b10, 0b11, 0b01),
    "ark": ("little", "larger", 0b00, 0b10, 0b01),
    "halo2": ("little", "odd", 0b00, 0b10, 0b01),
    "aztec": ("big", "odd", 0b00, 0b10, None),
}


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
        # Numbers of numpy would overflow without a word.
        if not (isinstance(self.x, int) and isinstance(self.y, int) and 0 <= self.x < P and 0 <= self.y < P):
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
            raise BadInput(
                f"{self} is not on the curve y^2 = x^3 + 3",
                cure="check the coordinates, which are Python integers, and their order",
            )
        return self

    def to_bytes(self, endian: Endian = "little") -> bytes:
        """64 bytes, x then y; infinity is 64 zero bytes. With "big" this is the EIP-196 form."""
        try:
            return self.x.to_bytes(32, endian) + self.y.to_bytes(32, endian)
        except (AttributeError, OverflowError, TypeError, ValueError):
            raise BadInput(
                f"{self} has no bytes in {shown(endian)} order",
                cure='coordinates are Python integers from 0 on and below 2^256, orders "little" and "big"',
            ) from None

    @classmethod
    def from_bytes(cls, data: bytes, endian: Endian = "little") -> Point:
        """The reverse of to_bytes. Reads the two numbers and checks nothing but the length."""
        data = data if isinstance(data, bytes) else _bytes_of(data)
        if len(data) != POINT_BYTES:
            raise BadInput(f"a point is {POINT_BYTES} bytes, not {len(data)}", cure="give x and y, 32 bytes each")
        try:
            return cls(int.from_bytes(data[:32], endian), int.from_bytes(data[32:], endian))
        except (TypeError, ValueError):
            raise BadInput(f"endian={shown(endian)} is not known", cure='write "little" or "big"') from None

    def compress(self, form: Compressed) -> bytes:
        """32 bytes, as gnark-crypto, arkworks, halo2curves or Aztec's compressed reference string have a point."""
        endian, sign, positive, negative, infinity = _form(form)
        self._valid()
        if self.is_infinity:
            if infinity is None:
                raise BadInput(f"infinity has no {form} form", cure="use gnark, ark or halo2")
            flag = infinity
        else:
            is_negative = 2 * self.y > P if sign == "larger" else self.y % 2 == 1
            flag = negative if is_negative else positive
        return (self.x | flag << 254).to_bytes(32, endian)

    @classmethod
    def decompress(cls, data: bytes, form: Compressed) -> Point:
        """The reverse of compress. What is no point in that form is BadInput."""
        endian, sign, positive, negative, infinity = _form(form)
        data = _bytes_of(data)
        if len(data) != 32:
            raise BadInput(f"a compressed point is 32 bytes, not {len(data)}", cure="give x and its flags")
        number = int.from_bytes(data, endian)
        x, flag = number & ((1 << 254) - 1), number >> 254
        if flag == infinity and x == 0:
            return cls.infinity()
        y = pow(x**3 + B, (P + 1) // 4, P)
        if flag not in (positive, negative) or x >= P or y * y % P != (x**3 + B) % P:
            raise BadInput(f"{data.hex()} is no point in the form of {form}", cure="check the form and the byte order")
        is_negative = 2 * y > P if sign == "larger" else y % 2 == 1
        return cls(x, y if is_negative == (flag == negative) else P - y)

    def __str__(self) -> str:
        given: tuple[Any, Any] = (self.x, self.y)
        if not all(isinstance(coordinate, int) for coordinate in given):
            return f"({shown(self.x)}, {shown(self.y)})"
        return "infinity" if self.is_infinity else f"({self.x:#066x}, {self.y:#066x})"


def _bytes_of(data: Any) -> bytes:
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise BadInput(f"the bytes of a point are {shown(data)}", cure="give bytes") from None


def _form(name: str) -> tuple[Endian, Literal["larger", "odd"], int, int, int | None]:
    if not isinstance(name, str) or name not in COMPRESSED:
        raise BadInput(f"no compressed form {shown(name)}", cure=f"forms: {', '.join(COMPRESSED)}")
    return COMPRESSED[name]
