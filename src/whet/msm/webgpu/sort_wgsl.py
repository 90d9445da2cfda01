"""Digits and their counting sort: count, columns, starts, scatter.

Digits are never stored. A signed window reads c + 1 bits of twice the scalar, whatever the windows below it are, so
both passes that need a digit read it from the scalar's planes; that saves two bytes per digit and a pass.
"""

from __future__ import annotations

from whet.msm.webgpu.geometry import CHUNK_COLUMNS
from whet.msm.webgpu.kernels import Plant, Template, template

DIGIT = """
fn scalar_word(vector: u32, word: u32, row: u32) -> u32 {
    let plane = word - params.first_word;
    if (plane >= params.words) { return 0u; }
    return scalars[(vector * params.words + plane) * params.rows + row];
}
// Magnitude in the low bits, sign in bit 31. Constant shifts only: some drivers miscompile others.
fn digit(window: u32, row: u32) -> u32 {
    let vector = window / params.vector_windows;
    let bit = (window - vector * params.vector_windows) * params.window_bits;
    var low = scalar_word(vector, bit / 32u, row);
    var high = scalar_word(vector, bit / 32u + 1u, row);
    if ((bit & 16u) != 0u) { low = (low >> 16u) | (high << 16u); high >>= 16u; }
    if ((bit & 8u) != 0u) { low = (low >> 8u) | (high << 24u); high >>= 8u; }
    if ((bit & 4u) != 0u) { low = (low >> 4u) | (high << 28u); high >>= 4u; }
    if ((bit & 2u) != 0u) { low = (low >> 2u) | (high << 30u); high >>= 2u; }
    if ((bit & 1u) != 0u) { low = (low >> 1u) | (high << 31u); high >>= 1u; }
    let raw = low & params.raw_mask;
    let rounded = (raw + 1u) >> 1u;
    if ((raw & params.sign_mask) == 0u) { return rounded; }
    return (params.sign_mask - rounded) | 0x80000000u;
}
"""

COUNT = f"""
const CHUNK = {CHUNK_COLUMNS}u;
var<workgroup> histogram: array<atomic<u32>, CHUNK>;
{DIGIT}
@compute @workgroup_size(256) fn count(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {{
    for (var i = lane; i < CHUNK; i += 256u) {{ atomicStore(&histogram[i], 0u); }}
    workgroupBarrier();
    let first = group.z * CHUNK;
    let end = min((group.x + 1u) * params.tile_rows, params.rows);
    for (var row = group.x * params.tile_rows + lane; row < end; row += 256u) {{
        let magnitude = digit(params.first_window + group.y, row) & 0x7fffffffu;
        let column = magnitude - 1u - first;
        if (magnitude != 0u && column < CHUNK) {{ atomicAdd(&histogram[column], 1u); }}
    }}
    workgroupBarrier();
    let line = (group.y * params.tiles + group.x) * params.columns + first;
    for (var i = lane; i < CHUNK && first + i < params.columns; i += 256u) {{
        matrix[line + i] = atomicLoad(&histogram[i]);
    }}
}}
"""

COLUMNS = """
@compute @workgroup_size(256) fn columns(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if (column >= params.columns) { return; }
    var total = 0u;
    for (var tile = 0u; tile < params.tiles; tile++) {
        let place = (id.y * params.tiles + tile) * params.columns + column;
        let here = matrix[place];
        matrix[place] = total;
        total += here;
    }
    starts[id.y * (params.columns + 1u) + column] = total;
}
"""

STARTS = """
var<workgroup> sums: array<u32, 256>;
@compute @workgroup_size(256) fn starts_of_buckets(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    let line = group.x * (params.columns + 1u);
    let share = (params.columns + 255u) / 256u;
    let first = min(lane * share, params.columns);
    let end = min(first + share, params.columns);
    var total = 0u;
    for (var i = first; i < end; i++) { total += starts[line + i]; }
    sums[lane] = total;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach *= 2u) {
        var below = 0u;
        if (lane >= reach) { below = sums[lane - reach]; }
        workgroupBarrier();
        sums[lane] += below;
        workgroupBarrier();
    }
    var running = sums[lane] - total;
    for (var i = first; i < end; i++) {
        let here = starts[line + i];
        starts[line + i] = running;
        running += here;
    }
    if (lane == 255u) { starts[line + params.columns] = running; }
}
"""

SCATTER = f"""
const CHUNK = {CHUNK_COLUMNS}u;
var<workgroup> cursors: array<atomic<u32>, CHUNK>;
{DIGIT}
@compute @workgroup_size(256) fn scatter(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {{
    let first = group.z * CHUNK;
    let line = (group.y * params.tiles + group.x) * params.columns + first;
    for (var i = lane; i < CHUNK && first + i < params.columns; i += 256u) {{
        atomicStore(&cursors[i], matrix[line + i] + starts[group.y * (params.columns + 1u) + first + i]);
    }}
    workgroupBarrier();
    let end = min((group.x + 1u) * params.tile_rows, params.rows);
    for (var row = group.x * params.tile_rows + lane; row < end; row += 256u) {{
        let found = digit(params.first_window + group.y, row);
        let magnitude = found & 0x7fffffffu;
        let column = magnitude - 1u - first;
        if (magnitude != 0u && column < CHUNK) {{
            let place = atomicAdd(&cursors[column], 1u);
            // The second half of the rows, if any, stands for the images of the points under the endomorphism.
            var index = row + params.offset;
            if (row >= params.points) {{ index = row - params.points + params.offset + params.resident; }}
            handles[group.y * params.rows + place] = index | (found & 0x80000000u);
        }}
    }}
}}
"""


def sort_templates(plant: Plant | None = None) -> dict[str, Template]:
    """The four passes, by name. A workgroup of count and scatter owns a tile of rows and a chunk of columns."""
    return {
        "count": template(
            "count",
            "Histogram of the digits of one tile of rows in one window, in workgroup memory.\n"
            "Reads two words of each scalar instead of a stored digit.\n"
            "Buys: no global atomics that meet. Presses on: 16 KiB of workgroup memory.",
            ("scalars",),
            ("matrix",),
            COUNT,
            plant=plant,
        ),
        "columns": template(
            "columns",
            "Sums each column of the tile histograms and leaves in them what lies before the tile.",
            (),
            ("matrix", "starts"),
            COLUMNS,
            plant=plant,
        ),
        "starts": template(
            "starts_of_buckets",
            "Where each bucket of a window begins among its handles: exclusive prefix sums, one workgroup per window.",
            (),
            ("starts",),
            STARTS,
            plant=plant,
        ),
        "scatter": template(
            "scatter",
            "Writes each point's handle (index and sign) to its bucket's place.\n"
            "The order within a bucket is that of the atomics: sums are comparable, orders are not.\n"
            "Presses on: 16 KiB of workgroup memory.",
            ("scalars", "matrix", "starts"),
            ("handles",),
            SCATTER,
            plant=plant,
        ),
    }
