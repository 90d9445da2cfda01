"""The WGSL of every pass, put together from the files in wgsl/. Geometry is in uniforms, so kernels are few."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template

from whet.gpu import Kernel

FOLDER = Path(__file__).parent / "wgsl"
PLAIN_START = "let begin = 0u;\n    let end = params.blocks;"
STORES = {
    "project": "result[b * params.out_stride + params.row_base + row] = sum;",
    "wo": "result[(slot * params.batch + b) * params.out_stride + params.row_base + row] = sum;",
    "fc2": "let at = b * params.out_stride + params.row_base + row;\n        result[at] = sum + residual[at];",
}
# A slot multiplies with its own columns only: a border block is read by both neighbours, each with the other's zeroed.
WO = """@group(0) @binding(5) var<storage, read> borders: array<u32>;

fn inside(x: vec4f, column: u32, low: u32, high: u32) -> vec4f {
    let at = vec4u(column) + vec4u(0u, 1u, 2u, 3u);
    return select(vec4f(), x, (at >= vec4u(low)) & (at < vec4u(high)));
}

fn masked(x: Block, column: u32, low: u32, high: u32) -> Block {
    return Block(
        inside(x.a, column, low, high), inside(x.b, column + 4u, low, high),
        inside(x.c, column + 8u, low, high), inside(x.d, column + 12u, low, high),
    );
}
"""
WO_START = """let low = borders[slot];
    let high = borders[slot + 1u];
    let begin = low / LANES;
    let end = (high + LANES - 1u) / LANES;"""
FC2 = "@group(0) @binding(5) var<storage, read> residual: array<f32>;\n"


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.wgsl").read_text()


def _unrolled(tile: int, line: str) -> str:
    """The line once for each vector of the tile; `$i` is its number."""
    return "\n        ".join(line.replace("$i", str(i)) for i in range(tile))


@cache
def product_kernel(stage: str, kind: str, tile: int) -> Kernel:
    """The product of one stage with weights of one type, for `tile` vectors at a time."""
    slice_of_h = (
        " + ((group.x + group.y * groups.x) % params.slots) * params.batch * params.blocks" if stage == "fc2" else ""
    )
    loaded = "input[at$i + block]"
    if stage == "wo":
        loaded = f"masked({loaded}, 16u * block, low, high)"
    rows = Template(_text("finish_rows")).substitute(store=STORES.get(stage, ""))
    body = Template(_text("product")).substitute(
        entry=stage,
        tile=tile,
        borders={"wo": WO, "fc2": FC2}.get(stage, ""),
        start=WO_START if stage == "wo" else PLAIN_START,
        sums=_unrolled(
            tile,
            f"let at$i = min(tile * TILE + $iu, params.batch - 1u) * params.blocks{slice_of_h};"
            " var low_row$i = 0.0; var high_row$i = 0.0;",
        ),
        accumulate=_unrolled(tile, f"let x$i = {loaded}; low_row$i += times(x$i, w0); high_row$i += times(x$i, w1);"),
        keep=_unrolled(
            tile,
            "lane_sums[(2u * pair * TILE + $iu) * LANES + lane] = low_row$i;"
            " lane_sums[((2u * pair + 1u) * TILE + $iu) * LANES + lane] = high_row$i;",
        ),
        finish=_text("finish_fc1") if stage == "fc1" else rows,
    )
    parts = [body, _text(f"weights_{kind}")]
    parts += [_text("e4m3")] if kind == "fp4" else []
    parts += [_text("exponential"), _text("quantise")] if stage == "fc1" else []
    return Kernel("\n".join(parts), stage)


@cache
def attend_kernel(kv_type: str) -> Kernel:
    parts = [_text("attend"), _text(f"kv_{kv_type}"), _text("exponential")]
    return Kernel("\n".join(parts + ([_text("e4m3")] if kv_type == "e4m3" else [])), "attend")


@cache
def norm_kernel(entry: str) -> Kernel:
    return Kernel(_text("norm"), entry)
