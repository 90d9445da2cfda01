"""How one record of bytes becomes one point or one scalar. What files differ in besides their headers is all here.

A decoder takes an (n, record_bytes) array and returns limbs, (n, 8) in Montgomery form for points and (n, 4) plain for
scalars; infinity is zeros. Anything else raises `BadRecord` with the first bad position. Where the facts come from:

- gnark-crypto `ecc/bn254/marshal.go`: the two top bits of a big-endian x are 10 (smaller y), 11 (larger y),
  01 (infinity) or 00 (uncompressed, 64 bytes, infinity as zeros).
- arkworks `SWFlags`: the two top bits of the last little-endian byte, 0x80 for y > -y and 0x40 for infinity.
  Uncompressed points carry them in y. Releases before 0.4 leave the sign out of those and write infinity as (0, 1).
- halo2curves `CompressedFlagConfig::TwoSpare`: the last little-endian byte, 0x80 for an odd y and 0x40 for infinity.
- Aztec `bn254_g1_compressed.dat`: big-endian x, bit 255 for an odd y; there is no infinity.
- Aztec Ignition `Transcript_spec.md`: four words, least significant first, big-endian inside a word, canonical.
- EIP-196: x and y big-endian and canonical, infinity as zeros.

All are stricter than their origins in one respect: an infinity whose other bits are not zero is refused, because two
spellings of one point are one too many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whet.msm.points import batch
from whet.msm.points.source import Bytes
from whet.msm.validate import Limbs

VALUE_BITS = 0x3F
BOTH_FLAGS = "has both flag bits set (sign and infinity)"


class BadRecord(Exception):
    """The first record that is wrong, counted from the start of the array that was given."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


@dataclass(frozen=True)
class Encoding:
    """A record format. `decode(raw, check_curve)`; a compressed point cannot be off the curve, a scalar neither."""

    name: str
    record_bytes: int
    decode: Callable[[Bytes, bool], Limbs]


def _swap(raw: Bytes, word_bytes: int) -> Bytes:
    """Reverses the bytes inside each word."""
    count, record_bytes = raw.shape
    words = raw.reshape(count, record_bytes // word_bytes, word_bytes)
    return np.ascontiguousarray(words[:, :, ::-1]).reshape(count, record_bytes)


def _settle(result: batch.Batch, refused: int | None = None, reason: str = "") -> Limbs:
    """Raises for whichever came first: what the batch found, or the record that Python refused before calling it."""
    decoded, index, found = result
    if index >= 0:
        raise BadRecord(index, found)
    if refused is not None:
        raise BadRecord(refused, reason)
    return decoded


def _first(mask: np.typing.NDArray[np.bool_]) -> int | None:
    return int(mask.argmax()) if mask.any() else None


def affine(name: str, *, word_bytes: int = 0, montgomery: bool = False) -> Encoding:
    """64 bytes of x and y. `word_bytes` is what a big-endian writer calls a word: 0 for little-endian files."""

    def decode(raw: Bytes, check_curve: bool) -> Limbs:
        little = _swap(raw, word_bytes) if word_bytes else raw
        return _settle(batch.decode_affine(little, montgomery=montgomery, check_curve=check_curve))

    return Encoding(name, 64, decode)


def scalar(name: str, *, word_bytes: int = 0, montgomery: bool = False, canonical: bool = False) -> Encoding:
    """32 bytes. Without `canonical` any 256-bit value is legal, and it is kept as it is."""

    def decode(raw: Bytes, check_curve: bool) -> Limbs:
        little = _swap(raw, word_bytes) if word_bytes else raw
        return _settle(batch.decode_scalars(little, montgomery=montgomery, canonical=canonical))

    return Encoding(name, 32, decode)


def _decompress(x: Bytes, wanted: Bytes, by_size: bool, refused: int | None = None, why: str = "") -> Limbs:
    """The points up to the refused record; `x` has its flag bits cleared, `wanted` is as in batch.decompress."""
    return _settle(batch.decompress(x[:refused], wanted[:refused], by_size=by_size), refused, why)


def _decode_gnark_compressed(raw: Bytes, check_curve: bool) -> Limbs:
    flags = raw[:, 0] >> 6
    x = _swap(raw, 32)
    x[:, 31] &= VALUE_BITS
    wanted = np.array([0, 2, 0, 1], dtype=np.uint8)[flags]
    why = "has the flag of an uncompressed point (top bits 00)"
    return _decompress(x, wanted, True, _first(flags == 0), why)


def _decode_flags_in_last_byte(raw: Bytes, by_size: bool) -> Limbs:
    flags = raw[:, 31] >> 6
    x = raw.copy()
    x[:, 31] &= VALUE_BITS
    wanted = np.array([0, 2, 1, 3], dtype=np.uint8)[flags]
    return _decompress(x, wanted, by_size, _first(flags == 3), BOTH_FLAGS)


def _decode_aztec_compressed(raw: Bytes, check_curve: bool) -> Limbs:
    x = _swap(raw, 32)
    wanted = x[:, 31] >> np.uint8(7)
    x[:, 31] &= 0x7F
    return _decompress(x, wanted, False)


def _decode_ark_uncompressed(raw: Bytes, check_curve: bool) -> Limbs:
    flags = raw[:, 63] >> 6
    little = raw.copy()
    little[:, 63] &= VALUE_BITS
    infinite = flags == 1
    zero_or_one = ~little[:, :32].any(axis=1) & (little[:, 32] <= 1) & ~little[:, 33:].any(axis=1)
    checks = {
        BOTH_FLAGS: flags == 3,
        "is marked as infinity but has coordinates": infinite & ~zero_or_one,
        "is zero but not marked as infinity": ~infinite & ~little.any(axis=1),
        "is marked with the larger y but holds the smaller": (flags == 2) & ~batch.is_larger_root(little[:, 32:]),
    }
    firsts = [(index, why) for why, mask in checks.items() if (index := _first(mask)) is not None]
    refused, why = min(firsts, default=(None, ""))
    little[infinite] = 0
    end = len(little) if refused is None else refused
    return _settle(batch.decode_affine(little[:end], montgomery=False, check_curve=check_curve), refused, why)


EIP196 = affine("64 bytes, big-endian", word_bytes=32)
LITTLE = affine("64 bytes, little-endian")
LITTLE_MONTGOMERY = affine("64 bytes, little-endian Montgomery", montgomery=True)
BIG_MONTGOMERY = affine("64 bytes, big-endian Montgomery", word_bytes=32, montgomery=True)
IGNITION = affine("64 bytes, big-endian words, least significant first", word_bytes=8)
GNARK_COMPRESSED = Encoding("32 bytes, big-endian, gnark flags", 32, _decode_gnark_compressed)
ARK_COMPRESSED = Encoding(
    "32 bytes, little-endian, arkworks flags", 32, lambda raw, _: _decode_flags_in_last_byte(raw, True)
)
HALO2_COMPRESSED = Encoding(
    "32 bytes, little-endian, halo2 flags", 32, lambda raw, _: _decode_flags_in_last_byte(raw, False)
)
AZTEC_COMPRESSED = Encoding("32 bytes, big-endian, parity in bit 255", 32, _decode_aztec_compressed)
ARK_UNCOMPRESSED = Encoding("64 bytes, little-endian, arkworks flags", 64, _decode_ark_uncompressed)

SCALAR_LITTLE = scalar("32 bytes, little-endian")
SCALAR_BIG = scalar("32 bytes, big-endian", word_bytes=32)
SCALAR_LITTLE_CANONICAL = scalar("32 bytes, little-endian, below r", canonical=True)
SCALAR_BIG_CANONICAL = scalar("32 bytes, big-endian, below r", word_bytes=32, canonical=True)
SCALAR_LITTLE_MONTGOMERY = scalar("32 bytes, little-endian Montgomery", montgomery=True)
SCALAR_BIG_MONTGOMERY = scalar("32 bytes, big-endian Montgomery", word_bytes=32, montgomery=True)
