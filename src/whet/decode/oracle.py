"""The layer in float64, straight from its definition: the answer that accuracy is measured against.

It reads the stored bytes with its own decoders and shares no arithmetic with the kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.decode.cache import PagedCache
from whet.decode.shapes import Shape
from whet.decode.stored import StoredMatrix
from whet.protocol import Tolerance

Doubles = npt.NDArray[np.float64]

# How far a step of a small layer may be from this oracle: its sums have a few hundred terms, and 7 ULP is typical.
MAX_ULP = 64.0
# Over a few elements the norm in the middle can divide by almost nothing (one element: x + W_O near -x), and then no
# float32 order is near float64. Smaller layers are held to the exact order alone.
LEAST_HIDDEN = 8
# Weights that are decoded together: a megabyte of float64.
AT_ONCE = 1 << 17


def _e4m3(byte: int) -> float:
    if byte & 0x7F == 0x7F:
        return math.nan
    exponent, mantissa = (byte >> 3) & 15, byte & 7
    size = math.ldexp(mantissa, -9) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 10)
    return -size if byte & 0x80 else size


E4M3_TABLE = np.array([_e4m3(byte) for byte in range(256)], np.float32)
E2M1_TABLE = np.array([s * m for s in (1.0, -1.0) for m in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)], np.float32)


def kv_values(array: npt.NDArray[Any], kv_type: str) -> npt.NDArray[np.float32]:
    """Stored keys or values as the floats they stand for."""
    if kv_type == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return E4M3_TABLE[array] if kv_type == "e4m3" else array.astype(np.float32)


@dataclass(frozen=True)
class Decoded:
    """A stored matrix as floats (exact), and the factors that are applied after the sum."""

    values: npt.NDArray[np.float32]
    row_scale: npt.NDArray[np.float32]


def decoded(matrix: StoredMatrix) -> Decoded:
    """Padded to whole blocks of 16 columns, as it is stored."""
    ones = np.ones(matrix.rows, np.float32)
    raw = matrix.data.reshape(matrix.rows, -1)
    if matrix.kind == "f32":
        return Decoded(raw.view(np.float32), ones)
    if matrix.kind == "bf16":
        return Decoded(kv_values(raw.view(np.uint16), "bf16"), ones)
    if matrix.kind == "int8":
        return Decoded(raw.view(np.int8).astype(np.float32), matrix.scales.view(np.float32))
    nibbles = np.stack([raw & 15, raw >> 4], axis=2).reshape(matrix.rows, -1)
    scales = E4M3_TABLE[matrix.scales.reshape(matrix.rows, -1)]
    return Decoded(E2M1_TABLE[nibbles] * np.repeat(scales, 16, axis=1), ones * np.float32(matrix.global_scale))


def _product(matrix: StoredMatrix, x: Doubles) -> Doubles:
    """x times the transposed matrix, a few rows at a time, so that what is decoded never leaves a core's cache.

    Going through memory would cost several times the sums themselves, and a large layer in float64 does not fit there.
    """
    step = max(1, AT_ONCE // matrix.cols)
    out = np.empty((*x.shape[:-1], matrix.rows))
    for start in range(0, matrix.rows, step):
        stop = min(start + step, matrix.rows)
        data, scales = (part.reshape(matrix.rows, -1)[start:stop].reshape(-1) for part in (matrix.data, matrix.scales))
        rows = decoded(replace(matrix, rows=stop - start, data=data, scales=scales))
        out[..., start:stop] = (x @ rows.values[:, : matrix.cols].astype(np.float64).T) * rows.row_scale
    return out


def tokens_of(cache: PagedCache, sequence: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Keys and values of one sequence in order, (length, kv_heads, head_dim)."""
    length, page_size = int(cache.lengths[sequence]), cache.k.shape[1]
    at = np.arange(length)
    pages = cache.table[sequence][at // page_size]
    k, v = cache.k[pages, at % page_size], cache.v[pages, at % page_size]
    return kv_values(k, cache.kv_type), kv_values(v, cache.kv_type)


def _norm(x: Doubles, weight: Doubles, eps: float) -> Doubles:
    return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + float(np.float32(eps))) * weight)


def _rotated(v: Doubles, cosine: Doubles, sine: Doubles) -> Doubles:
    a, b = np.split(v, 2, axis=-1)
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


def _sigmoid(x: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _attention(q: Doubles, k: Doubles, v: Doubles) -> Doubles:
    """(q_heads, dim) over (tokens, kv_heads, dim)."""
    heads, dim = q.shape
    group = heads // k.shape[1]
    out = np.zeros_like(q)
    for head in range(heads if len(k) else 0):
        scores = k[:, head // group] @ q[head] / math.sqrt(dim)
        weights = np.exp(scores - scores.max())
        out[head] = (weights / weights.sum()) @ v[:, head // group]
    return out


def own_token(
    shape: Shape,
    matrices: dict[str, StoredMatrix],
    norms: dict[str, npt.NDArray[np.float32]],
    x: npt.NDArray[np.float32],
    *,
    cosine: npt.NDArray[np.float32] | None = None,
    sine: npt.NDArray[np.float32] | None = None,
) -> tuple[Doubles, Doubles]:
    """k and v of the new token as a step hands them back, (batch, kv_heads, head_dim)."""
    normed = _norm(x.astype(np.float64), norms["input_layernorm.weight"].astype(np.float64), shape.eps)
    k, v = (
        _product(matrices[f"self_attn.{name}_proj.weight"], normed).reshape(len(x), shape.kv_heads, shape.head_dim)
        for name in ("k", "v")
    )
    if cosine is not None and sine is not None:
        k = _rotated(k, cosine[:, None].astype(np.float64), sine[:, None].astype(np.float64))
    return k, v


def reference(
    shape: Shape,
    matrices: dict[str, StoredMatrix],
    norms: dict[str, npt.NDArray[np.float32]],
    x: npt.NDArray[np.float32],
    cache: PagedCache,
    *,
    cosine: npt.NDArray[np.float32] | None = None,
    sine: npt.NDArray[np.float32] | None = None,
    gate: npt.NDArray[np.float32] | None = None,
) -> Doubles:
    """`out` of a step. Rounding to 4 bits before `down` is a jump, which a float64 answer cannot follow: refused."""
    if shape.quantise:
        raise ValueError("the float64 oracle does not follow `quantise`; use the exact one")

    def times(name: str, vector: Doubles) -> Doubles:
        return _product(matrices[name], vector)

    first, second = (norms[n].astype(np.float64) for n in ("input_layernorm.weight", "post_attention_layernorm.weight"))
    wide = x.astype(np.float64)
    normed = _norm(wide, first, shape.eps)
    q = times("self_attn.q_proj.weight", normed).reshape(len(x), shape.q_heads, shape.head_dim)
    if cosine is not None and sine is not None:
        q = _rotated(q, cosine[:, None].astype(np.float64), sine[:, None].astype(np.float64))
    if shape.own_token:
        own_k, own_v = own_token(shape, matrices, norms, x, cosine=cosine, sine=sine)
    attended = np.zeros((len(x), shape.q_size))
    for b in range(len(x)):
        k, v = (part.astype(np.float64) for part in tokens_of(cache, b))
        if shape.own_token:
            k, v = np.concatenate([k, own_k[b : b + 1]]), np.concatenate([v, own_v[b : b + 1]])
        attended[b] = _attention(q[b], k, v).reshape(-1)
    if gate is not None:
        attended = attended * _sigmoid(gate.astype(np.float64))
    residual = wide + times("self_attn.o_proj.weight", attended)
    inner = _norm(residual, second, shape.eps)
    g = times("mlp.gate_proj.weight", inner)
    h = g * _sigmoid(g) * times("mlp.up_proj.weight", inner)
    return np.asarray(residual + times("mlp.down_proj.weight", h))


def within_ulp(want: Doubles) -> Tolerance:
    """Half of MAX_ULP at the size of each element and half at the RMS of the largest row: together at most MAX_ULP."""
    rms = np.sqrt((want * want).mean(axis=-1).max())
    half = MAX_ULP / 2
    least_ulp = float(np.finfo(np.float32).eps) / 2  # a ULP is at least this share of its number
    return Tolerance(relative=half * least_ulp, absolute=half * float(np.spacing(np.float32(rms))))


@dataclass(frozen=True)
class Accuracy:
    """Distance from the float64 answer in ULP of float32, each at the size of its element or of its row's RMS."""

    max_ulp: float
    p999_ulp: float
    finite: bool


def accuracy(got: npt.NDArray[np.float32], want: Doubles) -> Accuracy:
    """Near a zero of the output a ULP of the element says nothing about the sum that cancelled: hence the row's RMS."""
    finite = not ((np.ascontiguousarray(got).view(np.uint32) & 0x7F800000) == 0x7F800000).any()
    rms = np.sqrt((want * want).mean(axis=-1, keepdims=True))
    unit = np.spacing(np.maximum(np.abs(want), rms).astype(np.float32)).astype(np.float64)
    ulp = np.abs(got.astype(np.float64) - want) / unit
    return Accuracy(float(ulp.max()), float(np.percentile(ulp, 99.9)), finite)
