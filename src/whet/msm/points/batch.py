"""The native batches that records go through. Each returns the decoded rows, the first bad index (or -1) and why.

Points come out as the engine wants them: (n, 8) limbs in Montgomery form. Scalars come out as (n, 4) plain limbs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whet._native import curve
from whet._native.field import fp, fr
from whet.msm.point import P
from whet.msm.points.source import Bytes
from whet.msm.validate import Limbs

Batch = tuple[Limbs, int, str]
NOT_BELOW_P = "has a coordinate that is not below p"
NOT_BELOW_R = "is not below the group order r"
INFINITY_WITH_X = "is marked as infinity but has an x"
# In the order of the native reasons.
REASONS = ("", NOT_BELOW_P, "is not on the curve y^2 = x^3 + 3", "has an x that no point of the curve has")


def decode_affine(records: Bytes, *, montgomery: bool, check_curve: bool) -> Batch:
    """Rows of x and y, little-endian; zeros are infinity."""
    points, index, reason = curve.read_points(_limbs(records), montgomery, check_curve)
    return points, index if reason else -1, REASONS[reason]


def decompress(x: Bytes, wanted: Bytes, *, by_size: bool) -> Batch:
    """Rows of x alone. Bit 0 of `wanted` asks for the odd y (by_size: the larger one), bit 1 for infinity."""
    limbs, infinite = _limbs(x), wanted >= 2
    nonzero = infinite & limbs.any(axis=1)
    end, why = (int(nonzero.argmax()), INFINITY_WITH_X) if nonzero.any() else (len(limbs), "")
    too_large = fp.first_not_canonical(limbs[:end])
    if too_large >= 0:
        end, why = too_large, NOT_BELOW_P
    elements = fp.to_montgomery(limbs[:end])
    elements[infinite[:end]] = fp.to_montgomery(np.array([[1, 0, 0, 0]], np.uint64))  # any x will do: see below
    points, index, reason = curve.decompress(elements, wanted[:end] & np.uint8(1), by_size)
    if reason:
        return points, index, REASONS[reason]
    points[infinite[:end]] = 0
    return points, end if why else -1, why


def decode_scalars(records: Bytes, *, montgomery: bool, canonical: bool) -> Batch:
    """Rows of one scalar, little-endian."""
    limbs = _limbs(records)
    index = fr.first_not_canonical(limbs) if montgomery or canonical else -1
    if index >= 0:
        return limbs, index, NOT_BELOW_R
    return fr.from_montgomery(limbs) if montgomery else limbs, -1, ""


def is_larger_root(y: Bytes) -> npt.NDArray[np.bool_]:
    """Which rows (32 bytes each, little-endian) are above (p - 1) / 2."""
    limbs = _limbs(y)
    larger = np.zeros(len(y), dtype=bool)
    equal = np.ones(len(y), dtype=bool)
    for limb in reversed(range(4)):
        bound = np.uint64(((P - 1) // 2 >> (64 * limb)) & (2**64 - 1))
        larger |= equal & (limbs[:, limb] > bound)
        equal &= limbs[:, limb] == bound
    return larger


def _limbs(rows: Bytes) -> Limbs:
    return np.ascontiguousarray(rows).view(np.uint64)
