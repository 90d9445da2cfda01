"""A point of BN254 G1 as users see it: two Python integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """Affine coordinates, canonical. Infinity is (0, 0), which is not on the curve."""

    x: int
    y: int

    @classmethod
    def infinity(cls) -> Point:
        return cls(0, 0)

    @property
    def is_infinity(self) -> bool:
        return self.x == 0 and self.y == 0

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
