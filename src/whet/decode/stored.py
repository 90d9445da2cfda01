"""How weights and KV entries are stored: f32, bf16, int8 with a scale per row, e2m1 with e4m3 scales, e4m3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.decode.shapes import LANES
from whet.errors import BadInput

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

WEIGHT_TYPES = ("f32", "bf16", "int8", "fp4")
KV_TYPES = ("f32", "bf16", "e4m3")
KV_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(np.uint16),
    "e4m3": np.dtype(np.uint8),
}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E4M3_MAX = 448.0
E4M3_NAN = 0x7F  # with either sign, as OCP has it: an entry of the cache may be it, a scale of weights may not
NO_BYTES: Bytes = np.zeros(0, np.uint8)
AT_ONCE = 1 << 17  # weights that are converted together: half a megabyte of float32


def _e4m3_values() -> Floats:
    """The 127 finite magnitudes, ascending: their code is their index."""
    codes = np.arange(127)
    exponent, mantissa = codes >> 3, (codes & 7).astype(np.float64)
    return np.where(exponent == 0, mantissa / 512, (1 + mantissa / 8) * 2.0 ** (exponent - 7)).astype(np.float32)


E4M3 = _e4m3_values()


def nearest_code(values: Floats, sizes: Floats) -> npt.NDArray[np.uint8]:
    """Index of the nearest of `sizes`, a tie to the even index, saturating."""
    borders = (sizes[1:].astype(np.float64) + sizes[:-1]) / 2
    low = np.searchsorted(borders, values, side="left")
    high = np.searchsorted(borders, values, side="right")
    return np.where(low % 2 == 0, low, high).astype(np.uint8)


def to_bf16(values: Floats) -> npt.NDArray[np.uint16]:
    """Nearest, ties to even; NaN stays NaN."""
    word = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    rounded[np.isnan(values)] = 0x7FC0  # among them all that went over 32 bits
    return rounded.astype(np.uint16)


def to_e4m3(values: Floats) -> Bytes:
    """Nearest, ties to even, saturating at 448; NaN stays NaN."""
    code = nearest_code(np.abs(values), E4M3)
    code = np.where(np.isnan(values), E4M3_NAN, code)
    return (code | (np.signbit(values).astype(np.uint8) << 7)).astype(np.uint8)


def to_kv(values: Floats, kv_type: str) -> npt.NDArray[Any]:
    if kv_type == "bf16":
        return to_bf16(values)
    return to_e4m3(values) if kv_type == "e4m3" else np.ascontiguousarray(values, np.float32)


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix in blocks of 16 columns, padded with zeros. `scales`: a float per row (int8), a byte per block (fp4)."""

    kind: str
    rows: int
    cols: int
    data: Bytes
    scales: Bytes
    global_scale: float = 1.0

    @property
    def size_bytes(self) -> int:
        return self.data.nbytes + self.scales.nbytes


def store(kind: str, matrix: npt.ArrayLike) -> StoredMatrix:
    """Rounds a finite matrix to the type and packs it, some rows at a time: what lies between stays in the cache."""
    if kind not in WEIGHT_TYPES:
        raise BadInput(f"there is no weight type {kind!r}", cure=f"one of: {', '.join(WEIGHT_TYPES)}")
    dense = np.asarray(matrix, np.float32)
    if dense.ndim != 2 or dense.size == 0:
        raise BadInput(f"a weight has the shape {dense.shape}", cure="give a matrix of rows and columns")
    rows, cols = dense.shape
    step = max(1, AT_ONCE // cols)
    top = max(_finite_top(dense[start : start + step], start * cols) for start in range(0, rows, step))
    # The global scale puts the largest block scale at the top of e4m3.
    global_scale = float(np.float32(max(top, 1e-30) / (6 * E4M3_MAX))) if kind == "fp4" else 1.0
    data, scales = [], []
    for start in range(0, rows, step):
        part = dense[start : start + step]
        padded = np.zeros((len(part), -(-cols // LANES) * LANES), np.float32)
        padded[:, :cols] = part
        packed = _packed(kind, padded, global_scale)
        data.append(_as_bytes(packed[0]))
        scales.append(_as_bytes(packed[1]))
    return StoredMatrix(kind, rows, cols, np.concatenate(data), np.concatenate(scales), global_scale)


def _finite_top(part: Floats, before: int) -> float:
    """The largest magnitude. Refuses what is not finite; `before` elements are in front of these."""
    # On the bits: a float comparison may be compiled away where NaN is assumed away.
    odd = (np.ascontiguousarray(part).view(np.uint32) & 0x7F800000) == 0x7F800000
    if odd.any():
        raise BadInput("a weight is not finite", cure="check the file it came from", index=before + int(np.argmax(odd)))
    return float(np.abs(part).max())


def _packed(kind: str, padded: Floats, global_scale: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if kind == "f32":
        return padded, NO_BYTES
    if kind == "bf16":
        return to_bf16(padded), NO_BYTES
    if kind == "int8":
        scale = np.maximum(np.abs(padded).max(axis=1), np.float32(1e-30)) / np.float32(127)
        return np.rint(padded / scale[:, None]).astype(np.int8), scale.astype(np.float32)
    blocks = padded.reshape(len(padded), -1, LANES)
    top = np.abs(blocks).max(axis=2)
    scales = nearest_code((top / np.float32(6 * global_scale)).astype(np.float32), E4M3)
    unit = E4M3[scales][:, :, None] * np.float32(global_scale)
    ratio = np.divide(np.abs(blocks), unit, out=np.zeros_like(blocks), where=unit > 0)
    nibbles = nearest_code(ratio, E2M1) | (np.signbit(blocks).astype(np.uint8) << 3)
    return nibbles[:, :, 0::2] | (nibbles[:, :, 1::2] << 4), scales


def _as_bytes(array: npt.NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
