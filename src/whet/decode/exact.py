"""The layer in the kernel's own order of operations, in numpy float32: every bit of a step must agree with it.

The order, once for every instruction set: a dot product has 16 lanes, lane l sums columns l, l+16, ... ascending, each
product and its addition rounded once together; then lane i takes lane i+8, i+4, i+2, i+1. `wo_split` cuts K at
K*s//split; a slot sums its own columns, and slots are added from the first to the last. Attention takes 16 tokens at a
time and adds their values one token after the other, fused like the dot products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from whet.decode.cache import PagedCache
from whet.decode.oracle import Decoded, decoded, tokens_of
from whet.decode.shapes import Shape
from whet.decode.stored import StoredMatrix

Floats = npt.NDArray[np.float32]
f32 = np.float32


def fused(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of float32, rounded once: the product is exact in float64, and the sum is rounded to odd there.

    Of the two neighbours of an inexact sum the one with the odd last bit is taken, which lies on no border between two
    float32, so that rounding it again goes where rounding the exact sum would (it has 5 bits more than twice 24).
    """
    product = np.multiply(a, b, dtype=np.float64)
    addend = np.asarray(c, np.float64)
    total = product + addend
    kept = total - product
    lost = (product - (total - kept)) + (addend - kept)
    bits = total.view(np.int64)
    towards = np.where((lost > 0) == (total > 0), 1, -1)
    nudged = np.isfinite(total) & (lost != 0) & (bits % 2 == 0)
    return np.where(nudged, bits + towards, bits).view(np.float64).astype(f32)


def fold(v: Any) -> Any:
    for half in (8, 4, 2, 1):
        v = v[..., :half] + v[..., half : 2 * half]
    return v[..., 0]


def dot(a: Any, b: Any) -> Any:
    """Sum over the last axis of a * b (padded to 16s) in the fixed order."""
    lanes = np.zeros((*np.broadcast_shapes(a.shape, b.shape)[:-1], 16), f32)
    for start in range(0, a.shape[-1], 16):
        lanes = fused(a[..., start : start + 16], b[..., start : start + 16], lanes)
    return fold(lanes)


def padded(x: Floats, size: int) -> Floats:
    out = np.zeros((*x.shape[:-1], size), f32)
    out[..., : x.shape[-1]] = x
    return out


def product(matrix: Decoded, x: Floats, kind: str) -> Floats:
    """Rows of the matrix times one vector; integer and 4-bit weights are scaled after the sum."""
    sums = dot(matrix.values, padded(x, matrix.values.shape[1])[None])
    return np.asarray(sums * matrix.row_scale if kind in ("int8", "fp4") else sums)


def exponential(x: Any) -> Floats:
    x = np.asarray(x, f32)
    clipped = np.where(x > f32(88), f32(88), np.where(x < f32(-87), f32(-87), x))
    n = np.floor(clipped * f32(1.44269504) + f32(0.5))
    r = (clipped - n * f32(0.693359375)) - n * f32(-2.12194440e-4)
    p = np.full_like(r, f32(1.9875691500e-4))
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + f32(c)
    p = (p * (r * r) + r) + f32(1)
    return np.where(x < f32(-87), f32(0), np.ldexp(p, np.nan_to_num(n).astype(np.int32))).astype(f32)


def sigmoid(x: Any) -> Any:
    return f32(1) / (f32(1) + exponential(-x))


def norm(x: Floats, weight: Floats, eps: float) -> Floats:
    wide = padded(x, -(-len(x) // 16) * 16)
    factor = f32(1) / np.sqrt(dot(wide, wide) / f32(len(x)) + f32(eps))
    return np.asarray((x * factor) * weight)


def rotated(v: Floats, cosine: Floats, sine: Floats) -> Floats:
    a, b = np.split(v, 2, axis=-1)
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


def attention(q: Floats, k: Floats, v: Floats) -> Floats:
    """One query head over (tokens, dim)."""
    dim = len(q)
    scale = f32(1) / np.sqrt(f32(dim))
    top, total, out = f32(-np.inf), f32(0), np.zeros(dim, f32)
    for start in range(0, len(k), 16):
        scores = np.full(16, f32(-np.inf))
        tile = k[start : start + 16]
        scores[: len(tile)] = dot(tile, q[None]) * scale
        highest = max([top, *(s for s in scores if s > top)])
        with np.errstate(invalid="ignore"):
            p = np.where(scores == f32(-np.inf), f32(0), exponential(scores - highest))
        keep = f32(1) if highest == top else exponential(top - highest)[()]
        total, top = total * keep + fold(p), highest
        if keep != 1:
            out = out * keep
        for weight, row in zip(p, v[start : start + 16], strict=False):
            out = fused(row, weight, out)
    return np.zeros(dim, f32) if total == 0 else out / total


def to_fp4(h: Floats) -> Floats:
    """Blocks of 16 to e2m1 with an e4m3 scale, by looking for the nearest of all values."""
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = np.arange(127)
    scales = np.where(codes < 8, codes / 512, (1 + codes % 8 / 8) * 2.0 ** (codes // 8 - 7))

    def nearest(value: float, options: Any) -> float:
        distance = np.abs(options - value)
        ties = np.flatnonzero(distance == distance.min())
        return float(options[ties[0] if len(ties) == 1 or ties[0] % 2 == 0 else ties[1]])

    blocks = padded(h, -(-len(h) // 16) * 16).reshape(-1, 16)
    out = np.zeros_like(blocks)
    for block, row in zip(blocks, out, strict=True):
        scale = f32(nearest(float(np.abs(block).max() / f32(6)), scales))
        for i, value in enumerate(block if scale else ()):
            row[i] = np.copysign(f32(nearest(float(np.abs(value) / scale), sizes)) * scale, value)
    return out.reshape(-1)[: len(h)]


def exact_step(
    shape: Shape,
    matrices: dict[str, StoredMatrix],
    norms: dict[str, Floats],
    x: Floats,
    cache: PagedCache,
    *,
    cosine: Floats | None = None,
    sine: Floats | None = None,
    gate: Floats | None = None,
    wo_split: int = 1,
) -> Floats:
    """`out` of a step, to the bit."""
    rows = []
    with np.errstate(over="ignore", invalid="ignore"):
        parts = {name: decoded(m) for name, m in matrices.items()}
        own = exact_own_token(shape, matrices, norms, x, cosine=cosine, sine=sine) if shape.own_token else None
        for b in range(len(x)):
            k, v = tokens_of(cache, b)
            if own is not None:
                k, v = np.concatenate([k, own[0][b : b + 1]]), np.concatenate([v, own[1][b : b + 1]])
            row = _sequence(
                shape,
                matrices=matrices,
                parts=parts,
                norms=norms,
                x=x[b],
                tokens=(k, v),
                angles=None if cosine is None or sine is None else (cosine[b], sine[b]),
                gate=None if gate is None else gate[b],
                wo_split=wo_split,
            )
            rows.append(row)
    return np.stack(rows)


def exact_own_token(
    shape: Shape,
    matrices: dict[str, StoredMatrix],
    norms: dict[str, Floats],
    x: Floats,
    *,
    cosine: Floats | None = None,
    sine: Floats | None = None,
) -> tuple[Floats, Floats]:
    """k and v of the new token, to the bit, (batch, kv_heads, head_dim)."""
    stored = {name: matrices[f"self_attn.{name}_proj.weight"] for name in ("k", "v")}
    parts = {name: decoded(matrix) for name, matrix in stored.items()}
    both: dict[str, list[Floats]] = {"k": [], "v": []}
    for b in range(len(x)):
        normed = norm(x[b], norms["input_layernorm.weight"], shape.eps)
        for name, rows in both.items():
            rows.append(product(parts[name], normed, stored[name].kind).reshape(shape.kv_heads, -1))
        if cosine is not None and sine is not None:
            both["k"][b] = rotated(both["k"][b], cosine[b], sine[b])
    return np.stack(both["k"]), np.stack(both["v"])


def _sequence(
    shape: Shape,
    *,
    matrices: dict[str, StoredMatrix],
    parts: dict[str, Decoded],
    norms: dict[str, Floats],
    x: Floats,
    tokens: tuple[Floats, Floats],
    angles: tuple[Floats, Floats] | None,
    gate: Floats | None,
    wo_split: int,
) -> Floats:
    def times(name: str, vector: Floats) -> Floats:
        return product(parts[name], vector, matrices[name].kind)

    k, v = tokens
    normed = norm(x, norms["input_layernorm.weight"], shape.eps)
    q = times("self_attn.q_proj.weight", normed).reshape(shape.q_heads, -1)
    if angles:
        q = rotated(q, *angles)
    group = shape.q_heads // shape.kv_heads
    attended = np.concatenate([attention(q[h], k[:, h // group], v[:, h // group]) for h in range(shape.q_heads)])
    if gate is not None:
        attended = attended * sigmoid(gate)
    size = shape.q_size
    slots = []
    for s in range(wo_split):
        inside = np.zeros(size, f32)
        begin, end = size * s // wo_split, size * (s + 1) // wo_split
        inside[begin:end] = attended[begin:end]
        slots.append(times("self_attn.o_proj.weight", inside))
    total = slots[0]
    for slot in slots[1:]:
        total = total + slot
    residual = total + x
    inner = norm(residual, norms["post_attention_layernorm.weight"], shape.eps)
    g = times("mlp.gate_proj.weight", inner)
    h = (g * sigmoid(g)) * times("mlp.up_proj.weight", inner)
    if shape.quantise:
        h = to_fp4(h)
    return np.asarray(times("mlp.down_proj.weight", h) + residual)
