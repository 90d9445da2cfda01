"""One step of the layer as plain data: buffers, constants and seven kinds of passes, named as the CPU's regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from whet.decode.shapes import LANES, NORM_ATTENTION, NORM_MLP, Shape
from whet.decode.stored import Floats, StoredMatrix
from whet.decode.webgpu.geometry import (
    ALIGNMENT,
    BINDING_BYTES,
    ROWS_PER_GROUP,
    Geometry,
    Piece,
    grid,
    kv_bytes,
    padded,
    pieces,
    qkv_size,
    refuse_what_does_not_fit,
)
from whet.decode.webgpu.packing import Words, pack
from whet.decode.webgpu.sources import attend_kernel, norm_kernel, product_kernel
from whet.gpu import Pass, Program, Span

PASSES = ("norm", "project", "attend", "wo", "gather", "fc1", "fc2")
PARAMETER_BYTES = 256
# Where a product reads, writes, and what else it is given.
PRODUCTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "project": ("normed", "qkv", ()),
    "wo": ("attended", "slots", ("borders",)),
    "fc1": ("normed", "h", ()),
    "fc2": ("h", "out", ("residual",)),
}


@dataclass(frozen=True)
class Parts:
    """Parts of the buffers `inputs` and `results` that are bound on their own, by name."""

    x: Span
    index: Span
    extras: Span
    out: Span
    own: Span

    @property
    def input_bytes(self) -> int:
        return self.extras.offset_bytes + (self.extras.size_bytes or 0)

    @property
    def result_bytes(self) -> int:
        return self.own.offset_bytes + (self.own.size_bytes or 0)


def parts(shape: Shape, g: Geometry) -> Parts:
    """Inputs: hidden states; lengths and page table; gate, cosine, sine. Results: out; k and v of the new token."""
    x = Span("inputs", 0, 4 * g.batch * shape.hidden)
    index = Span("inputs", padded(x.size_bytes or 0, ALIGNMENT), 4 * g.batch * (1 + g.table_width))
    extra_floats = g.batch * ((shape.q_size if g.gated else 0) + (shape.head_dim if g.rotary else 0))
    end = padded(index.offset_bytes + (index.size_bytes or 0), ALIGNMENT)
    extras = Span("inputs", end, 4 * max(extra_floats, LANES))
    out = Span("results", 0, 4 * g.batch * shape.hidden)
    own_floats = 2 * g.batch * shape.kv_size if shape.own_token else LANES
    own = Span("results", padded(out.size_bytes or 0, ALIGNMENT), 4 * own_floats)
    return Parts(x, index, extras, out, own)


def step_buffers(shape: Shape, g: Geometry) -> dict[str, int]:
    """Bytes of everything that depends on the step; the weights are apart."""
    floats = {
        "normed": g.batch * padded(shape.hidden),
        "qkv": g.batch * qkv_size(shape),
        "attended": g.batch * shape.q_size,
        "slots": g.wo_split * g.batch * shape.hidden,
        "residual": g.batch * shape.hidden,
        "h": g.fc1_copies * g.batch * padded(shape.intermediate),
    }
    named = parts(shape, g)
    return {
        "inputs": named.input_bytes,
        "k": kv_bytes(shape, g),
        "v": kv_bytes(shape, g),
        "borders": 4 * (g.wo_split + 1),
        **{name: 4 * count for name, count in floats.items()},
        "results": named.result_bytes,
    }


def build(
    shape: Shape,
    matrices: Mapping[str, StoredMatrix],
    norms: Mapping[str, Floats],
    geometry: Geometry,
    *,
    binding_bytes: int = BINDING_BYTES,
) -> Program:
    """Everything that one step needs but its inputs: fill `inputs`, `k` and `v`, run, read `results`."""
    kinds = {name: matrix.kind for name, matrix in matrices.items()}
    cut = pieces(shape, kinds, binding_bytes=binding_bytes)
    steps = step_program(shape, cut, geometry, binding_bytes=binding_bytes)
    weights = weight_constants(shape, matrices, norms, cut)
    return Program(
        {**{name: words.nbytes for name, words in weights.items()}, **steps.buffers},
        steps.steps,
        {**weights, **steps.constants},
    )


def weight_constants(
    shape: Shape, matrices: Mapping[str, StoredMatrix], norms: Mapping[str, Floats], cut: list[Piece]
) -> dict[str, Words]:
    """What stays on the device as long as the layer does."""
    made: dict[str, Words] = {}
    for piece in cut:
        made[f"{piece.name}.weights"], made[f"{piece.name}.scales"] = pack(piece, matrices)
    both = np.zeros((2, padded(shape.hidden, ALIGNMENT // 4)), np.float32)
    both[:, : shape.hidden] = norms[NORM_ATTENTION], norms[NORM_MLP]
    return {**made, "norms": both.reshape(-1).view(np.uint32)}


def step_program(shape: Shape, cut: list[Piece], g: Geometry, *, binding_bytes: int = BINDING_BYTES) -> Program:
    """Buffers and passes of a step of this geometry; the weights are there already."""
    refuse_what_does_not_fit(shape, g, binding_bytes=binding_bytes)
    named = parts(shape, g)
    row_bytes = padded(4 * shape.hidden, ALIGNMENT)
    weight_of = [Span("norms", row_bytes * i, 4 * shape.hidden) for i in (0, 1)]
    passes: list[Pass] = []
    parameters: list[Words] = []

    def add(one: Pass, values: list[int | float]) -> None:
        """A pass with its parameters in front of its other bindings."""
        where = Span("params", PARAMETER_BYTES * len(parameters), PARAMETER_BYTES)
        words = np.zeros(PARAMETER_BYTES // 4, np.uint32)
        for i, value in enumerate(values):
            words[i] = np.float32(value).view(np.uint32) if isinstance(value, float) else value
        parameters.append(words)
        passes.append(replace(one, bindings=(where, *one.bindings)))

    def multiply(stage: str) -> None:
        for piece in cut:
            if piece.stage == stage:
                add(_product(piece, g, named), _product_parameters(piece, shape, g))

    def normalise(stage: str, bindings: tuple[str | Span, ...]) -> None:
        values = [shape.hidden, padded(shape.hidden), g.wo_split, g.batch, float(shape.eps)]
        add(Pass(stage, norm_kernel(stage), bindings, (g.batch, 1, 1)), values)

    normalise("norm", (named.x, weight_of[0], "normed"))
    multiply("project")
    bindings = ("qkv", "k", "v", named.index, named.extras, "attended", named.own)
    kernel = attend_kernel(g.kv_type)
    add(Pass("attend", kernel, bindings, (shape.q_heads, g.batch, 1)), _attend_parameters(shape, g))
    multiply("wo")
    normalise("gather", (named.x, weight_of[1], "normed", "slots", "residual"))
    multiply("fc1")
    multiply("fc2")
    borders = [shape.q_size * s // g.wo_split for s in range(g.wo_split + 1)]
    params: npt.NDArray[np.uint32] = np.concatenate(parameters)
    return Program(
        {**step_buffers(shape, g), "params": params.nbytes},
        tuple(passes),
        {"params": params, "borders": np.array(borders, np.uint32)},
    )


def _product(piece: Piece, g: Geometry, named: Parts) -> Pass:
    source, target, more = PRODUCTS[piece.stage]
    weights = (f"{piece.name}.weights", f"{piece.name}.scales")
    bindings = (*weights, source, named.out if target == "out" else target, *more)
    copies = {"wo": g.wo_split, "fc1": g.fc1_copies}.get(piece.stage, 1)
    groups = grid(-(-piece.rows // ROWS_PER_GROUP), g.tiles * copies)
    return Pass(piece.stage, product_kernel(piece.stage, piece.kind, g.tile), bindings, groups)


def _product_parameters(piece: Piece, shape: Shape, g: Geometry) -> list[int | float]:
    """As `Params` of product.wgsl."""
    stride = {"project": qkv_size(shape), "fc1": padded(shape.intermediate)}.get(piece.stage, shape.hidden)
    out_rows = padded(piece.rows // 2) if piece.stage == "fc1" else piece.rows
    slots = {"wo": g.wo_split, "fc1": g.fc1_copies, "fc2": g.fc1_copies}.get(piece.stage, 1)
    layout = [piece.rows, piece.row_base, piece.blocks, g.batch, g.tiles, stride, out_rows]
    return [*layout, slots, int(shape.quantise)]


def _attend_parameters(shape: Shape, g: Geometry) -> list[int | float]:
    """As `Params` of attend.wgsl."""
    heads = [shape.q_heads // shape.kv_heads, shape.head_dim // 4, shape.kv_heads]
    rows = [shape.q_size // 4, qkv_size(shape) // 4]
    pages = [g.page_size, g.table_width, g.batch]
    flags = [int(shape.own_token), int(g.rotary), int(g.gated)]
    return [*heads, *rows, *pages, *flags, float(shape.head_dim**-0.5)]
