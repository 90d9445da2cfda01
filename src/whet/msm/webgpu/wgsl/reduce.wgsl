// One depth of the halving: up to eight additions per thread share an inversion.
// With weights 1 to B, the sum over B buckets is the sum over B/2 of (lower half + upper half) plus B/2 times the
// plain sum of the upper half. Each depth folds the weighted array and every plain array that is left, all of one
// size, so depth d has (1 + d) B / 2^(d+1) independent additions per window. After c - 1 depths a window is V[0] + sum
// of 2^i V[2^i], which the host finishes.
// Buys: no doublings, and c - 1 dispatches instead of three times as many.

//# import params
//# import tally
//# let inversion = shared
//# import addition
//# import generated/inverse

@group(0) @binding(1) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(2) var<storage, read_write> tally: array<atomic<u32>>;

const PAIRS = ${reduce_pairs}u;
// Where pair number i of this depth has its left half; the right half is params.half further on.
fn left_of(pair: u32) -> u32 {
    let per_window = params.arrays * params.half;
    let window = pair / per_window;
    let within = pair - window * per_window;
    let part = within / params.half;
    let offset = params.offsets[part / 4u][part % 4u];
    return window * params.columns + offset + within - part * params.half;
}
@compute @workgroup_size(${workgroup}) fn reduce(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.threads) { return; }
    let pairs = params.windows * params.arrays * params.half;
    var prefixes: array<Fe, PAIRS>;
    var product = FE_ONE;
    var own = 0u;
    var i = id.x;
    loop {
        let left = left_of(i);
        prefixes[own] = product;
        product = fe_mul(product, pair_of(buckets[left], buckets[left + params.half]).denominator);
        continuing {
            own++;
            i += params.threads;
            break if i >= pairs;
        }
    }
    var running = fe_inv(product);
    var added = 0u;
    loop {
        own--;
        let left = left_of(id.x + own * params.threads);
        let l = buckets[left];
        let r = buckets[left + params.half];
        let pair = pair_of(l, r);
        buckets[left] = peel(l, r, pair, prefixes[own], &running);
        added += u32(pair.kind <= DOUBLE);
        continuing {
            break if own == 0u;
        }
    }
    if (added > 0u) {
        atomicAdd(&tally[COUNT_REDUCED], added);
        atomicAdd(&tally[COUNT_INVERSIONS], 1u);
    }
}
