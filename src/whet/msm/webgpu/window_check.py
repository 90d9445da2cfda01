"""Checks every answer of a device: a random sum over its windows has to be what the CPU computes for it.

The host has the window sums W_w = sum of d_iw P_i before it puts them together. With random weights g_w the sum of
g_w W_w is the sum of e_i P_i for the short integers e_i = sum of g_w d_iw, some 30 bits instead of 254: the CPU has it
in about a sixth of the time of a whole sum, while the device works. A window that is wrong alone is always found,
several that are wrong together but for one chance in 4,095 at most: the weights are drawn anew for each call.

Several vectors share their points, so with a second weight per vector one such sum checks them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whet._native import curve
from whet._native import msm as native
from whet._native.field import fr
from whet.errors import WrongAnswer
from whet.gpu.faults import CURES
from whet.msm.inputs import to_limbs
from whet.msm.validate import Limbs
from whet.msm.variants import Prepared, choose, prepare
from whet.msm.webgpu.geometry import Geometry

WEIGHT_BITS = 12
KEPT_TOTALS = 16  # of parts of the points that were asked for last
CHUNK = 1 << 14  # numbers at a time, so that their sums stay in the cache
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Weights:
    """Of each window and of each vector. `shift` is as large as any |e| can be: added to each e it makes all of them
    positive, which the CPU sums faster.
    """

    windows: Integers
    vectors: Integers
    shift: int

    @classmethod
    def draw(cls, rng: np.random.Generator, geometry: Geometry, vectors: int) -> Self:
        windows = rng.integers(1, 1 << WEIGHT_BITS, geometry.vector_windows)
        shares = rng.integers(1, 1 << WEIGHT_BITS, vectors) if vectors > 1 else np.ones(1, np.int64)
        return cls(windows, shares, int(windows.sum()) * int(shares.sum()) << (geometry.window_bits - 1))


class WindowCheck:
    """Holds the points in the CPU's form, 96 bytes each, from the first call on."""

    def __init__(self, points: Limbs) -> None:
        self._points = points
        self._rng = np.random.default_rng()
        self._cpu: Prepared | None = None
        self._totals: dict[tuple[int, int], Limbs] = {}
        self._side = ThreadPoolExecutor(1, thread_name_prefix="whet-gpu-check")

    def begin(self, vectors: Sequence[Limbs], offset: int, geometry: Geometry) -> Callable[[Limbs], None]:
        """Starts the CPU's sum beside the device's. What it returns takes the window sums; it raises for wrong ones."""
        drawn = Weights.draw(self._rng, geometry, len(vectors))
        begun = self._side.submit(self._expected, np.concatenate(vectors), offset, geometry, drawn)

        def compare(sums: Limbs) -> None:
            expected, totals = begun.result()
            factors = [share * weight for share in drawn.vectors.tolist() for weight in drawn.windows.tolist()]
            factors += [drawn.shift] * len(totals)
            seen, _ = native.pippenger(np.concatenate([sums, totals]), to_limbs(factors))
            if not np.array_equal(seen.reshape(8), expected):
                raise WrongAnswer(
                    "the device gave a wrong sum: its windows do not agree with the CPU's check of them",
                    cure=CURES[WrongAnswer],
                )

        return compare

    def close(self) -> None:
        self._side.shutdown()
        if self._cpu is not None:
            self._cpu.close()

    def _sum(self, scalars: Limbs, offset: int) -> Limbs:
        if self._cpu is None:
            self._cpu = prepare(choose("affine"), self._points)
        return self._cpu.compute(scalars, offset).limbs.reshape(1, 8)

    def _total(self, offset: int, geometry: Geometry) -> Limbs:
        """The sum of all points, and of their images with GLV, each once."""
        about = (offset, geometry.points)
        if about not in self._totals:
            ones = np.zeros((geometry.points, 4), np.uint64)
            ones[:, 0] = 1
            if len(self._totals) == KEPT_TOTALS:
                self._totals.pop(next(iter(self._totals)))
            self._totals[about] = _read(self._sum(ones, offset))
        total = self._totals[about]
        return np.concatenate([total, curve.endomorphism(total)]) if geometry.glv else total

    def _expected(self, scalars: Limbs, offset: int, geometry: Geometry, drawn: Weights) -> tuple[Limbs, Limbs]:
        """The sum of (e_i + shift) P_i as canonical limbs, and what the shift is to be multiplied with."""
        table = byte_table(drawn.windows, geometry.window_bits, 16 if geometry.glv else 32)
        parts = []
        for half in range(2 if geometry.glv else 1):
            digits = weighted(scalar_bytes(scalars, half, glv=geometry.glv), table).reshape(len(drawn.vectors), -1)
            limbs = np.zeros((geometry.points, 4), np.uint64)
            limbs[:, 0] = (drawn.shift + drawn.vectors @ digits).view(np.uint64)
            parts.append(_read(self._sum(limbs, offset)))
        if geometry.glv:
            parts = [curve.add_mixed(parts[0], curve.endomorphism(parts[1]))]
        return curve.write_points(parts[0]).reshape(8), self._total(offset, geometry)


def scalar_bytes(scalars: Limbs, half: int, *, glv: bool) -> npt.NDArray[np.uint8]:
    """(bytes, n): scalars modulo r, or one half of their split in two's complement."""
    if not glv:
        limbs = fr.reduce(np.ascontiguousarray(scalars))
    else:
        split = curve.glv_split(np.ascontiguousarray(scalars))[:, 3 * half : 3 * half + 3]
        low, high, negative = split[:, 0].copy(), split[:, 1].copy(), split[:, 2] != 0
        flipped = ~high + (low == 0).astype(np.uint64)
        limbs = np.stack([np.where(negative, ~low + np.uint64(1), low), np.where(negative, flipped, high)], axis=1)
    return np.ascontiguousarray(limbs.view(np.uint8).reshape(len(scalars), -1).T)


def byte_table(weights: Integers, c: int, size: int) -> Integers:
    """(size, 256): what a byte at each place adds to the weighted sum of the digits of a number in two's complement.

    The digit of window w is its c bits, plus the bit below them, minus 2^c times its own highest bit: linear in bits.
    """
    windows = len(weights)
    bits = np.zeros(max(windows * c, 8 * size), np.int64)
    for w, weight in enumerate(weights.tolist()):
        bits[w * c : (w + 1) * c] += weight << np.arange(c, dtype=np.int64)
        bits[(w + 1) * c - 1] -= weight << c
        if w:
            bits[w * c - 1] += weight
    bits[8 * size - 1] += bits[8 * size :].sum()  # the sign goes on upwards
    places = (np.arange(256)[:, None] >> np.arange(8)) & 1
    return np.asarray(bits[: 8 * size].reshape(size, 8) @ places.T.astype(np.int64))


def weighted(rows: npt.NDArray[np.uint8], table: Integers) -> Integers:
    """The weighted sum of the digits of each number."""
    total = np.zeros(rows.shape[1], np.int64)
    for first in range(0, len(total), CHUNK):
        part = total[first : first + CHUNK]
        for row, values in zip(rows[:, first : first + CHUNK], table, strict=True):
            part += np.take(values, row)
    return total


def _read(limbs: Limbs) -> Limbs:
    points: Any = curve.read_points(np.ascontiguousarray(limbs), False, False)[0]
    return points  # type: ignore[no-any-return]
