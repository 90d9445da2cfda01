"""Whether a shard's partial sums are right, for less than computing them again.

The worker gives L_j, the sums over limb j of every scalar; its part of the answer is the sum of 2^(64 j) L_j. A second
worker, which knows random weights w_j below 2^32 that the first does not, gives C, the sum over the scalars
w_0 l_0 + w_1 l_1 + w_2 l_2 + w_3 l_3: 98 bits in place of 256. Honest answers satisfy C = sum w_j L_j. A wrong L_j
does for one choice of its weight in 2^32 at most.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from whet.cluster.messages import LIMBS
from whet.msm import Point, msm
from whet.msm.validate import Limbs

WEIGHT_BITS = 32
ROWS_AT_ONCE = 1 << 13  # what their temporaries need stays in L2
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def draw_weights() -> tuple[int, ...]:
    return tuple(secrets.randbits(WEIGHT_BITS) for _ in range(LIMBS))


def weighted(vector: Limbs, weights: Sequence[int]) -> Limbs:
    """Rows of the integer sum of weight times limb, as plain limbs."""
    rows = np.zeros((len(vector), LIMBS), np.uint64)
    for begin in range(0, len(vector), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        rows[part, 0], rows[part, 1] = _two_limbs(vector[part], weights)
    return rows


def _two_limbs(vector: Limbs, weights: Sequence[int]) -> tuple[Limbs, Limbs]:
    low = np.zeros(len(vector), np.uint64)  # what counts 1, 2^32 and 2^64, each far below 2^64
    middle, high = low.copy(), low.copy()
    for limb, weight in enumerate(weights):
        first = (vector[:, limb] & _LOW) * np.uint64(weight)
        second = (vector[:, limb] >> _HALF) * np.uint64(weight)
        low += first & _LOW
        middle += (first >> _HALF) + (second & _LOW)
        high += second >> _HALF
    middle += low >> _HALF
    high += middle >> _HALF
    return (low & _LOW) | (middle << _HALF), high


def by_vector(limb_sums: Sequence[Point]) -> list[Sequence[Point]]:
    return [limb_sums[at : at + LIMBS] for at in range(0, len(limb_sums), LIMBS)]


def agree(limb_sums: Sequence[Point], checks: Sequence[Point], weights: Sequence[int]) -> bool:
    """Whether every vector's four limb sums fit its check."""
    rows = by_vector(limb_sums)
    return len(rows) == len(checks) and all(
        msm(list(row), list(weights)) == check for row, check in zip(rows, checks, strict=True)
    )


def joined(limb_sums: Sequence[Point]) -> Point:
    """The sum over whole scalars, from the sums over their limbs."""
    return msm(list(limb_sums), [1 << (64 * limb) for limb in range(len(limb_sums))])
