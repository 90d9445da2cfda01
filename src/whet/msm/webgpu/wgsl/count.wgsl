// Histogram of the digits of one tile of rows in one window, in workgroup memory.
// Reads two words of each scalar instead of a stored digit.
// Buys: no global atomics that meet. Presses on: 16 KiB of workgroup memory.

//# import params
//# import digit

@group(0) @binding(1) var<storage, read> scalars: array<u32>;
@group(0) @binding(2) var<storage, read_write> matrix: array<u32>;

const CHUNK = ${chunk_columns}u;
var<workgroup> histogram: array<atomic<u32>, CHUNK>;

@compute @workgroup_size(256) fn count(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    for (var i = lane; i < CHUNK; i += 256u) { atomicStore(&histogram[i], 0u); }
    workgroupBarrier();
    let first = group.z * CHUNK;
    let end = min((group.x + 1u) * params.tile_rows, params.rows);
    for (var row = group.x * params.tile_rows + lane; row < end; row += 256u) {
        let magnitude = digit(params.first_window + group.y, row) & 0x7fffffffu;
        let column = magnitude - 1u - first;
        if (magnitude != 0u && column < CHUNK) { atomicAdd(&histogram[column], 1u); }
    }
    workgroupBarrier();
    let line = (group.y * params.tiles + group.x) * params.columns + first;
    for (var i = lane; i < CHUNK && first + i < params.columns; i += 256u) {
        matrix[line + i] = atomicLoad(&histogram[i]);
    }
}
