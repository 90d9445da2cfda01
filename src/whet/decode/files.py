"""Weights of a layer from a safetensors file, by the usual Llama names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.decode.shapes import NORM_ATTENTION, NORM_MLP, Shape
from whet.errors import BadInput, Unsupported


def read_layer(path: str | Path, index: int, shape: Shape) -> dict[str, npt.NDArray[np.float32]]:
    """The matrices and norms of `model.layers.<index>.` as float32."""
    try:
        import ml_dtypes  # noqa: F401  safetensors needs it to hand out bf16
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise Unsupported("safetensors is not installed", cure="pip install 'whet[decode]'") from None
    if index < 0:
        raise BadInput(f"layer index is {index}", cure="count layers from 0")
    found: dict[str, npt.NDArray[np.float32]] = {}
    try:
        with safe_open(str(path), framework="numpy") as file:
            present = set(file.keys())
            for name in (*shape.matrices(), NORM_ATTENTION, NORM_MLP):
                key = f"model.layers.{index}.{name}"
                if key not in present:
                    raise BadInput(f"{path} has no tensor {key}", cure=_offer(present))
                found[name] = _as_float(file.get_tensor(key), key)
    except (SafetensorError, OSError) as problem:
        raise BadInput(f"{path}: cannot be read: {problem}", cure="give a whole safetensors file") from None
    return found


def _as_float(tensor: npt.NDArray[Any], key: str) -> npt.NDArray[np.float32]:
    if tensor.dtype.kind not in "fV":
        raise BadInput(f"{key} is {tensor.dtype}", cure="give floating-point weights")
    return np.asarray(tensor, np.float32)


def _offer(present: set[str]) -> str:
    parts = [key.split(".") for key in present if key.startswith("model.layers.")]
    layers = sorted({int(part[2]) for part in parts if part[2].isdigit()})
    return f"layers in it: {layers[0]} to {layers[-1]}" if layers else "it holds no model.layers.* tensors"
