"""Sizes that a program depends on, how weights are cut to the size of a binding, and what does not fit a browser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from whet.decode.shapes import LANES, Shape
from whet.decode.stored import KV_DTYPES
from whet.errors import Unsupported

BLOCK_BYTES = {"f32": 64, "bf16": 32, "int8": 16, "fp4": 8}
BINDING_BYTES = 128 << 20
MAX_GROUPS = 65535
MAX_HEAD_DIM = 1024
ROWS_PER_GROUP = 32
ALIGNMENT = 256  # of a part of a buffer that is bound on its own
FC1_COPIES = 2  # of `fc1=recomputed`: as if two workers did all of it
STAGES = {
    "project": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "wo": ("self_attn.o_proj.weight",),
    "fc1": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "fc2": ("mlp.down_proj.weight",),
}


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """What one step brings along; everything else is the layer's."""

    batch: int
    page_size: int
    pages: int
    table_width: int
    kv_type: str
    rotary: bool = False
    gated: bool = False
    wo_split: int = 1
    fc1_copies: int = 1

    @property
    def tile(self) -> int:
        """Vectors that one invocation multiplies with."""
        return self.batch if self.batch <= 2 else 4

    @property
    def tiles(self) -> int:
        return -(-self.batch // self.tile)


@dataclass(frozen=True)
class Piece:
    """Rows of stacked matrices of one type, as many as fit one binding.

    The rows of `names` stand one behind the other; those of gate and up stand in turns. `first_row` counts in that
    stack, `row_base` in the result of the stage.
    """

    stage: str
    number: int
    kind: str
    names: tuple[str, ...]
    first_row: int
    row_base: int
    rows: int
    blocks: int

    @property
    def data_bytes(self) -> int:
        return self.rows * self.blocks * BLOCK_BYTES[self.kind]

    @property
    def scale_bytes(self) -> int:
        """A float per row, then for fp4 a byte per block."""
        return 4 * self.rows + (padded(self.rows * self.blocks, 4) if self.kind == "fp4" else 0)

    @property
    def name(self) -> str:
        return f"{self.stage}.{self.number}"


def copies_of(fc1: str) -> int:
    """How often gate/up is computed."""
    return 1 if fc1 == "shared" else FC1_COPIES


def padded(size: int, to: int = LANES) -> int:
    return -(-size // to) * to


def pieces(shape: Shape, kinds: Mapping[str, str], *, binding_bytes: int = BINDING_BYTES) -> list[Piece]:
    """The rows of every stage, in order."""
    found: list[Piece] = []
    sizes = shape.matrices()
    if kinds["mlp.gate_proj.weight"] != kinds["mlp.up_proj.weight"]:
        raise Unsupported("gate and up are stored as different types", cure="store both as one type")
    for stage, all_names in STAGES.items():
        number = base = 0
        for kind, alike in groupby([name for name in all_names if name in sizes], key=lambda name: kinds[name]):
            names = tuple(alike)
            rows = sum(sizes[name][0] for name in names)
            blocks = padded(sizes[names[0]][1]) // LANES
            most = binding_bytes // (blocks * BLOCK_BYTES[kind]) // ROWS_PER_GROUP * ROWS_PER_GROUP
            if most == 0:
                raise Unsupported(f"32 rows of {names[0]} are over {binding_bytes:,} bytes", cure="use a smaller type")
            for first in range(0, rows, most):
                results = (base + first) // (2 if stage == "fc1" else 1)
                found.append(Piece(stage, number, kind, names, first, results, min(most, rows - first), blocks))
                number += 1
            base += rows
    return found


def qkv_size(shape: Shape) -> int:
    """Rows of all projections: q alone, or q, k and v."""
    return shape.q_size + (2 * shape.kv_size if shape.own_token else 0)


def kv_bytes(shape: Shape, geometry: Geometry) -> int:
    tokens = max(1, geometry.pages) * geometry.page_size
    return tokens * shape.kv_size * KV_DTYPES[geometry.kv_type].itemsize


def grid(groups: int, depth: int = 1) -> tuple[int, int, int]:
    """So many workgroups in two dimensions, `depth` times; what is too many in the last row finds nothing to do."""
    lines = -(-groups // MAX_GROUPS)
    return -(-groups // lines), lines, depth


def refuse_what_does_not_fit(shape: Shape, geometry: Geometry, *, binding_bytes: int = BINDING_BYTES) -> None:
    """Unsupported, with the limit that is in the way."""
    slots = 4 * geometry.wo_split * geometry.batch * shape.hidden
    checks = [
        (shape.head_dim, MAX_HEAD_DIM, "dimensions of a head", "use the CPU"),
        (shape.q_heads, MAX_GROUPS, "query heads", "use the CPU"),
        (geometry.tiles * geometry.wo_split, MAX_GROUPS, "slots of W_O", "lower wo_split"),
        (kv_bytes(shape, geometry), binding_bytes, "bytes of keys", "use a smaller type of cache or fewer pages"),
        (slots, binding_bytes, "bytes of slots of W_O", "lower wo_split"),
    ]
    for size, most, what, cure in checks:
        if size > most:
            raise Unsupported(f"{size:,} {what} are over {most:,}, which a browser grants", cure=cure)
