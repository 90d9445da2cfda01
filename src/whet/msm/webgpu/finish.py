"""The last step on the host: window parts to points, and how scalars and points go to the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from whet._native import curve
from whet._native.field import fp, fr
from whet.errors import WrongAnswer
from whet.gpu.faults import CURES
from whet.msm.point import P
from whet.msm.validate import Limbs
from whet.msm.webgpu.geometry import Geometry
from whet.msm.webgpu.layout import R_BITS

Words = npt.NDArray[np.uint32]
_NATIVE_R_BITS = 256
_DEVICE_FROM_NATIVE = 1 << (R_BITS - _NATIVE_R_BITS)
_POINT_WORDS = 16


def _limbs(value: int) -> Limbs:
    return np.frombuffer(value.to_bytes(32, "little"), np.uint64)


def _scaled(values: Limbs, factor: int) -> Limbs:
    """values * factor / 1, between the two Montgomery forms. The native product divides by 2^256 itself."""
    constant = _limbs((factor << _NATIVE_R_BITS) % P)
    return fp.multiply(values, np.broadcast_to(constant, values.shape).copy())  # type: ignore[no-any-return]


def upload_points(points: Limbs, *, glv: bool = False) -> tuple[Words, Words]:
    """(n, 8) native Montgomery limbs to the planes of x and y; with GLV the x of the images follow."""
    x = _scaled(np.ascontiguousarray(points[:, :4]), _DEVICE_FROM_NATIVE)
    y = _scaled(np.ascontiguousarray(points[:, 4:]), _DEVICE_FROM_NATIVE)
    if glv:
        images = _scaled(np.ascontiguousarray(curve.endomorphism(points)[:, :4]), _DEVICE_FROM_NATIVE)
        x = np.concatenate([x, images])
    return x.view(np.uint32).reshape(-1), y.view(np.uint32).reshape(-1)


def kept_points(points: Limbs, *, glv: bool, compressed: bool) -> dict[str, Words]:
    """What stays on the device of (n, 8) native Montgomery limbs, by the name of its buffer."""
    x, y = upload_points(points, glv=glv)
    return {"points_x": x, "signs": signs(points)} if compressed else {"points_x": x, "points_y": y}


def signs(points: Limbs) -> Words:
    """Bit i: whether the y of point i is odd as a plain number. That of infinity is even."""
    odd = (curve.write_points(points)[:, 4] & np.uint64(1)).astype(np.uint8)
    packed = np.packbits(odd, bitorder="little")
    return np.pad(packed, (0, -len(packed) % 4)).view(np.uint32)


def upload_scalars(scalars: Limbs, *, geometry: Geometry) -> Words:
    """(n, 4) plain limbs of any size to (planes, rows) words of twice the scalar modulo r."""
    if geometry.glv:
        return _halves(scalars, geometry)
    reduced = fr.reduce(np.ascontiguousarray(scalars))
    doubled = reduced << np.uint64(1)
    doubled[:, 1:] |= reduced[:, :-1] >> np.uint64(63)
    return np.ascontiguousarray(doubled.view(np.uint32).T)


def _halves(scalars: Limbs, geometry: Geometry) -> Words:
    """Both halves of each scalar as two's complement, doubled: signed digits need nothing else for a negative one."""
    split = curve.glv_split(np.ascontiguousarray(scalars))
    planes = np.zeros((geometry.all_words, geometry.rows), np.uint32)
    for half in range(2):
        part = split[:, 3 * half : 3 * half + 3]
        low, high, negative = part[:, 0].copy(), part[:, 1].copy(), part[:, 2] != 0
        high = (high << np.uint64(1)) | (low >> np.uint64(63))
        low = low << np.uint64(1)
        flipped_low = ~low + np.uint64(1)
        flipped_high = ~high + (low == 0).astype(np.uint64)
        low, high = np.where(negative, flipped_low, low), np.where(negative, flipped_high, high)
        words = np.stack([low, high], axis=1).view(np.uint32).T
        columns = slice(half * geometry.points, (half + 1) * geometry.points)
        planes[:4, columns] = words[: geometry.all_words]
        planes[4:, columns] = np.where(negative, np.uint32(0xFFFFFFFF), np.uint32(0))
    return planes


def gathered(geometry: Geometry, result: npt.NDArray[Any]) -> tuple[Limbs, int | None]:
    """The parts of all windows, (windows, c, 8), and the first window with one that is no point of the curve.

    Coordinates have to be below p as well: what a device stored wrongly hardly ever is a point.
    """
    windows, c = geometry.all_windows, geometry.window_bits
    words = np.ascontiguousarray(result).view(np.uint32)[: windows * c * _POINT_WORDS]
    coordinates = words.view(np.uint64).reshape(-1, 4)
    native = _scaled(coordinates, pow(_DEVICE_FROM_NATIVE, -1, P)).reshape(-1, 8)
    wrong, reason = curve.check_on_curve(native)
    if (above := fp.first_not_canonical(coordinates)) >= 0:
        wrong, reason = above // 2, 1
    return native.reshape(windows, c, 8), wrong // c if reason else None


def window_sums(geometry: Geometry, result: npt.NDArray[Any]) -> Limbs:
    """The gathered parts to one point per window, (windows, 8): V[0] + sum of 2^i V[2^i], the highest power first."""
    parts, wrong = gathered(geometry, result)
    if wrong is not None:
        raise WrongAnswer(
            f"the device gave a part of window {wrong} that is no point of the curve", cure=CURES[WrongAnswer]
        )
    sums = np.ascontiguousarray(parts[:, 1])
    for i in range(2, geometry.window_bits):
        sums = curve.add_mixed(curve.double(sums), np.ascontiguousarray(parts[:, i]))
    return curve.add_mixed(sums, np.ascontiguousarray(parts[:, 0]))  # type: ignore[no-any-return]


def finish(geometry: Geometry, sums: Limbs) -> list[Limbs]:
    """The sums of all windows to one point per vector, as (8,) canonical limbs. About 250 doublings each.

    Windows of all vectors are shifted together, from the highest to the lowest.
    """
    by_window = sums.reshape(geometry.vectors, geometry.vector_windows, 8)
    total = np.ascontiguousarray(by_window[:, -1])
    for window in range(geometry.vector_windows - 2, -1, -1):
        for _ in range(geometry.window_bits):
            total = curve.double(total)
        total = curve.add_mixed(total, np.ascontiguousarray(by_window[:, window]))
    return list(curve.write_points(total))
