// Each bucket's points added up by one thread, in order, with an inversion each. Needs no plan.
// The reference that the others are compared with.

//# import params
//# import tally
//# let inversion = own
//# import addition
//# import generated/inverse
//# import load_point

@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read> handles: array<u32>;
@group(0) @binding(3) var<storage, read> points_x: array<Fe>;
@group(0) @binding(4) var<storage, read> points_y: array<Fe>;
@group(0) @binding(5) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(6) var<storage, read_write> tally: array<atomic<u32>>;

@compute @workgroup_size(${workgroup}) fn accumulate_plain(@builtin(global_invocation_id) id: vec3<u32>) {
    let bucket = id.x;
    if (bucket >= params.windows * params.columns) { return; }
    let window = bucket / params.columns;
    let place = window * (params.columns + 1u) + bucket - window * params.columns;
    let end = window * params.rows + min(starts[place + 1u], params.rows);
    var sum = INFINITY;
    var inverted = 0u;
    for (var at = window * params.rows + min(starts[place], params.rows); at < end; at++) {
        let next = load_point(handles[at]);
        let pair = pair_of(sum, next);
        var inverse = FE_ONE;
        if (pair.kind <= DOUBLE) {
            inverse = fe_inv(pair.denominator);
            inverted++;
        }
        sum = join(sum, next, pair, inverse);
    }
    buckets[bucket] = sum;
    atomicAdd(&tally[COUNT_ACCUMULATED], inverted);
    atomicAdd(&tally[COUNT_INVERSIONS], inverted);
}
