// RMSNorm of one sequence per workgroup, alone (`norm`) or behind the sum of W_O's slots and x (`gather`).
// Against the norm inside every worker of the CPU kernel it runs once, since a pass is a barrier already.
// Should buy nothing in itself: it is the dependency between two products. Presses on one workgroup per sequence.

struct Params {
    hidden: u32,
    stride: u32,  // of the normed rows: hidden in whole blocks of 16, padded with zeros
    slots: u32,
    batch: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> normed: array<f32>;
@group(0) @binding(4) var<storage, read> slots: array<f32>;
@group(0) @binding(5) var<storage, read_write> residual: array<f32>;

const SIZE = 256u;
var<workgroup> squares: array<f32, SIZE>;

// 1 / sqrt(mean + eps) of the squares that each invocation has summed.
fn factor(local: u32, mine: f32) -> f32 {
    squares[local] = mine;
    for (var half = SIZE / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (local < half) { squares[local] += squares[local + half]; }
    }
    workgroupBarrier();
    return 1.0 / sqrt(squares[0] / f32(params.hidden) + params.eps);
}

@compute @workgroup_size(256)
fn norm(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let row = group.x * params.hidden;
    var sum = 0.0;
    for (var i = local; i < params.hidden; i += SIZE) { sum += x[row + i] * x[row + i]; }
    let by = factor(local, sum);
    for (var i = local; i < params.stride; i += SIZE) {
        var value = 0.0;
        if (i < params.hidden) { value = (x[row + i] * by) * weight[i]; }
        normed[group.x * params.stride + i] = value;
    }
}

@compute @workgroup_size(256)
fn gather(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let row = group.x * params.hidden;
    var sum = 0.0;
    for (var i = local; i < params.hidden; i += SIZE) {
        var gathered = slots[row + i];
        for (var s = 1u; s < params.slots; s++) { gathered += slots[(s * params.batch) * params.hidden + row + i]; }
        gathered += x[row + i];
        residual[row + i] = gathered;
        sum += gathered * gathered;
    }
    let by = factor(local, sum);
    // Each invocation reads back what it wrote itself.
    for (var i = local; i < params.stride; i += SIZE) {
        var value = 0.0;
        if (i < params.hidden) { value = (residual[row + i] * by) * weight[i]; }
        normed[group.x * params.stride + i] = value;
    }
}
