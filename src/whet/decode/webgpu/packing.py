"""Stored matrices as the words that the kernels read: rows stacked per stage, scales beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.decode.stored import Bytes, Floats, StoredMatrix
from whet.decode.webgpu.geometry import Piece

Words = npt.NDArray[np.uint32]


def _row_scales(matrix: StoredMatrix) -> Floats:
    """What a row's sum is multiplied with."""
    if matrix.kind == "int8":
        return matrix.scales.view(np.float32)
    return np.full(matrix.rows, matrix.global_scale if matrix.kind == "fp4" else 1.0, np.float32)


def _block_scales(matrix: StoredMatrix) -> Bytes:
    return matrix.scales if matrix.kind == "fp4" else np.zeros((matrix.rows, 0), np.uint8)


def _stacked(parts: list[npt.NDArray[Any]], first: int, rows: int, *, in_turns: bool) -> Bytes:
    """Rows `first` to `first + rows` of the parts, one behind the other or in turns, as bytes."""
    if in_turns:
        low, high = first // len(parts), (first + rows) // len(parts)
        chosen = np.stack([part[low:high] for part in parts], axis=1)
        return np.ascontiguousarray(chosen).reshape(-1).view(np.uint8)
    taken, at = [], 0
    for part in parts:
        taken.append(part[max(0, first - at) : max(0, first + rows - at)])
        at += len(part)
    return np.ascontiguousarray(np.concatenate(taken)).reshape(-1).view(np.uint8)


def _words(raw: Bytes) -> Words:
    return np.concatenate([raw, np.zeros(-len(raw) % 4, np.uint8)]).view(np.uint32)


def pack(piece: Piece, matrices: Mapping[str, StoredMatrix]) -> tuple[Words, Words]:
    """Data and scales of one piece."""
    alike = [matrices[name] for name in piece.names]

    def stacked(part: Callable[[StoredMatrix], npt.NDArray[Any]]) -> Words:
        parts = [part(matrix).reshape(matrix.rows, -1) for matrix in alike]
        return _words(_stacked(parts, piece.first_row, piece.rows, in_turns=piece.stage == "fc1"))

    return stacked(lambda m: m.data), np.concatenate([stacked(_row_scales), stacked(_block_scales)])
