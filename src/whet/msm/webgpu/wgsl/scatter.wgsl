// Writes each point's handle (index and sign) to its bucket's place.
// The order within a bucket is that of the atomics: sums are comparable, orders are not.
// Presses on: 16 KiB of workgroup memory.

//# import params
//# import digit

@group(0) @binding(1) var<storage, read> scalars: array<u32>;
@group(0) @binding(2) var<storage, read> matrix: array<u32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> handles: array<u32>;

const CHUNK = ${chunk_columns}u;
var<workgroup> cursors: array<atomic<u32>, CHUNK>;

@compute @workgroup_size(256) fn scatter(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    let first = group.z * CHUNK;
    let line = (group.y * params.tiles + group.x) * params.columns + first;
    for (var i = lane; i < CHUNK && first + i < params.columns; i += 256u) {
        atomicStore(&cursors[i], matrix[line + i] + starts[group.y * (params.columns + 1u) + first + i]);
    }
    workgroupBarrier();
    let end = min((group.x + 1u) * params.tile_rows, params.rows);
    for (var row = group.x * params.tile_rows + lane; row < end; row += 256u) {
        let found = digit(params.first_window + group.y, row);
        let magnitude = found & 0x7fffffffu;
        let column = magnitude - 1u - first;
        if (magnitude != 0u && column < CHUNK) {
            let place = atomicAdd(&cursors[column], 1u);
            // The second half of the rows, if any, stands for the images of the points under the endomorphism.
            var index = row + params.offset;
            if (row >= params.points) { index = row - params.points + params.offset + params.resident; }
            handles[group.y * params.rows + place] = index | (found & 0x80000000u);
        }
    }
}
