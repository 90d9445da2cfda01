"""Every byte of a step on the device, in closed form. A test holds it against the device's ledger."""

from __future__ import annotations

from collections.abc import Mapping

from whet.decode.shapes import Shape
from whet.decode.webgpu.geometry import BINDING_BYTES, Geometry, pieces
from whet.protocol import MemoryRow

KV_BYTES = {"f32": 4, "bf16": 2, "e4m3": 1}


def _up(size: int, to: int) -> int:
    return (size + to - 1) // to * to


def memory_map(
    shape: Shape, kinds: Mapping[str, str], g: Geometry, *, binding_bytes: int = BINDING_BYTES, timed: bool = True
) -> list[MemoryRow]:
    """Weights live as long as the layer, the rest until the next step of another geometry, `read` while reading."""
    batch, hidden, h = g.batch, shape.hidden, _up(shape.intermediate, 16)
    own = 2 * shape.kv_size if shape.own_token else 0
    cut = pieces(shape, kinds, binding_bytes=binding_bytes)
    rows = [MemoryRow(f"{p.name}.weights", p.data_bytes, "layer") for p in cut]
    rows += [MemoryRow(f"{p.name}.scales", p.scale_bytes, "layer") for p in cut]
    rows.append(MemoryRow("norms", 2 * _up(4 * hidden, 256), "layer"))
    extras = batch * (shape.q_size * g.gated + shape.head_dim * g.rotary)
    results = _up(4 * batch * hidden, 256) + 4 * (batch * own or 16)
    passes = 3 + len(cut)
    step = {
        "inputs": _up(_up(4 * batch * hidden, 256) + 4 * batch * (1 + g.table_width), 256) + 4 * (extras or 16),
        "k": max(1, g.pages) * g.page_size * shape.kv_size * KV_BYTES[g.kv_type],
        "v": max(1, g.pages) * g.page_size * shape.kv_size * KV_BYTES[g.kv_type],
        "borders": 4 * (g.wo_split + 1),
        "normed": 4 * batch * _up(hidden, 16),
        "qkv": 4 * batch * (shape.q_size + own),
        "attended": 4 * batch * shape.q_size,
        "slots": 4 * batch * hidden * g.wo_split,
        "residual": 4 * batch * hidden,
        "h": 4 * batch * h * g.fc1_copies,
        "results": results,
        "params": 256 * passes,
    }
    rows += [MemoryRow(name, size, "step") for name, size in step.items()]
    rows.append(MemoryRow("staging", results, "read"))
    return rows + ([MemoryRow("timestamps", 16 * passes, "run")] if timed else [])
