// Rows of stored weights times one, two or four vectors: every matrix product of the layer, with four ways to end.
// Against one invocation per row, 16 lanes share two rows, so that neighbours read neighbouring bytes.
// Should buy whole cache lines of the weights, which bound a step; each input is loaded once for both rows.
// Presses on workgroup memory: 8 KiB of partial sums where four vectors go together.

//# import weights_${kind}
//# if stage == fc1
//# import exponential
//# import quantise
//# end

struct Params {
    rows: u32,        // of this piece
    row_base: u32,    // where they go in the result
    blocks: u32,      // of 16 columns in a row
    batch: u32,
    tiles: u32,       // of vectors; workgroup z is tile + tiles * slot
    out_stride: u32,  // from one sequence to the next
    out_rows: u32,    // rows of the result that this piece must write, with padding
    slots: u32,       // exclusive copies: parts of K of wo, repeats of fc1
    quantise: u32,
}

struct Block { a: vec4f, b: vec4f, c: vec4f, d: vec4f }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> input: array<Block>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;
//# if stage == wo
@group(0) @binding(5) var<storage, read> borders: array<u32>;
//# end
//# if stage == fc2
@group(0) @binding(5) var<storage, read> residual: array<f32>;
//# end

const TILE = ${tile}u;
const LANES = 16u;
const ROWS = 32u;  // of a workgroup: two for each 16 of its 256 invocations

var<workgroup> lane_sums: array<f32, ROWS * TILE * LANES>;

fn times(x: Block, w: Block) -> f32 { return (dot(x.a, w.a) + dot(x.b, w.b)) + (dot(x.c, w.c) + dot(x.d, w.d)); }

// `which` is row * TILE + vector. Lanes beyond the blocks had nothing to do.
fn total(which: u32) -> f32 {
    var sum = 0.0;
    for (var lane = 0u; lane < min(LANES, params.blocks); lane++) { sum += lane_sums[which * LANES + lane]; }
    return sum;
}

fn row_scale(row: u32) -> f32 { return bitcast<f32>(scales[row]); }

//# if stage == wo
// A slot multiplies with its own columns only: a border block is read by both neighbours, each with the other's zeroed.
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

//# end
@compute @workgroup_size(256)
fn ${stage}(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first_row = ROWS * (group.x + group.y * groups.x);
    let tile = group.z % params.tiles;
    let slot = group.z / params.tiles;
    let lane = local % LANES;
    let pair = local / LANES;
    // What lies beyond the last row or sequence is computed as the last one and not stored.
    let row0 = min(first_row + 2u * pair, params.rows - 1u);
    let row1 = min(first_row + 2u * pair + 1u, params.rows - 1u);
    //# if stage == wo
    let low = borders[slot];
    let high = borders[slot + 1u];
    let begin = low / LANES;
    let end = (high + LANES - 1u) / LANES;
    //# else
    let begin = 0u;
    let end = params.blocks;
    //# end
    //# each i < tile
    //# if stage == fc2
    let at${i} = min(tile * TILE + ${i}u, params.batch - 1u) * params.blocks
        + ((group.x + group.y * groups.x) % params.slots) * params.batch * params.blocks;
    //# else
    let at${i} = min(tile * TILE + ${i}u, params.batch - 1u) * params.blocks;
    //# end
    var low_row${i} = 0.0;
    var high_row${i} = 0.0;
    //# end
    for (var block = begin + lane; block < end; block += LANES) {
        let w0 = weight_block(row0, block);
        let w1 = weight_block(row1, block);
        //# each i < tile
        //# if stage == wo
        let x${i} = masked(input[at${i} + block], 16u * block, low, high);
        //# else
        let x${i} = input[at${i} + block];
        //# end
        low_row${i} += times(x${i}, w0);
        high_row${i} += times(x${i}, w1);
        //# end
    }
    //# each i < tile
    lane_sums[(2u * pair * TILE + ${i}u) * LANES + lane] = low_row${i};
    lane_sums[((2u * pair + 1u) * TILE + ${i}u) * LANES + lane] = high_row${i};
    //# end
    workgroupBarrier();
    //# if stage == fc1
    //# import finish_fc1
    //# else
    //# import finish_rows
    //# end
}
