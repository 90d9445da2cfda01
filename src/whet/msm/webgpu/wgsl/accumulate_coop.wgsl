// Sums the buckets of two points or more, one task per thread, its sum in registers.
// The variant coop g=${g} tpb=${tpb}.
// Against walker: no arrays of slots and prefixes, but no fewer words alive beside them; ${g} threads share an
// inversion instead of the slots of one.
// Presses on: barriers and workgroup memory where g is above 1, inversions where it is 1.

//# import params
//# let inversion = own
//# import addition
//# import generated/inverse
//# import walk
//# import inverse_${sharing}

@group(0) @binding(1) var<storage, read> handles: array<u32>;
@group(0) @binding(2) var<storage, read> points_x: array<Fe>;
@group(0) @binding(3) var<storage, read> points_y: array<Fe>;
@group(0) @binding(4) var<storage, read> dense: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(6) var<storage, read_write> partials: array<Pt>;
@group(0) @binding(7) var<storage, read_write> tally: array<atomic<u32>>;

const TPB = ${tpb}u;
const GROUP = ${g}u;

@compute @workgroup_size(TPB) fn accumulate_coop(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    let task = id.x;
    var slot = Slot(ENDED, 0u, 0u, 0u, 0u);
    if (task < atomicLoad(&tally[TALLY_TASKS])) { slot = open_task(task); }
    var sum = INFINITY;
    var added = 0u;
    var doubled = 0u;
    var rounds = 0u;
    let most = atomicLoad(&tally[TALLY_SHARE]) + 4u;
    while (anyone(is_going(slot), lane)) {
        rounds++;
        var next = INFINITY;
        var pair = Pair(KEEP_LEFT, FE_ONE);
        if (has_addition(slot)) {
            next = load_point(handles[slot.position]);
            pair = pair_of(sum, next);
        }
        let inverse = inverse_of(pair.denominator, lane, pair.kind > DOUBLE);
        if (is_going(slot)) {
            if (has_addition(slot)) {
                sum = join(sum, next, pair, inverse);
                added += u32(pair.kind <= DOUBLE);
                doubled += u32(pair.kind == DOUBLE);
                slot.position++;
                slot.left--;
            }
            if (settle(&slot, task, &sum) && !is_going(slot)) { partials[tail_place(task)] = sum; }
            if (rounds >= most) { slot.at = ENDED; }
        }
    }
    atomicAdd(&tally[COUNT_ACCUMULATED], added);
    atomicAdd(&tally[COUNT_DOUBLED], doubled);
    if (lane % GROUP == 0u && rounds > 0u) { atomicAdd(&tally[COUNT_INVERSIONS], rounds - 1u); }
    atomicMax(&tally[COUNT_ROUNDS], rounds);
}
