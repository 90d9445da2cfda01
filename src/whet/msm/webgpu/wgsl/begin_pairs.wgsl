// The first round of `pairs`: every task enters its first bucket, a thread multiplies the denominators of its slots.
// The variant pairs slots=${slots} g=${g} tpb=${tpb}. Needs neither an inversion nor an addition.

//# import params
//# import pair
//# import multiply
//# import kept_slots

@group(0) @binding(1) var<storage, read> handles: array<u32>;
@group(0) @binding(2) var<storage, read> points_x: array<Fe>;
@group(0) @binding(3) var<storage, read> points_y: array<Fe>;
@group(0) @binding(4) var<storage, read> dense: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(6) var<storage, read_write> partials: array<Pt>;
@group(0) @binding(7) var<storage, read_write> tally: array<atomic<u32>>;
@group(0) @binding(8) var<storage, read_write> prefixes: array<Fe>;

@compute @workgroup_size(TPB) fn begin_pairs(@builtin(global_invocation_id) id: vec3<u32>) {
    let thread = id.x;
    let tasks = atomicLoad(&tally[TALLY_TASKS]);
    if (thread * SLOTS >= tasks) { return; }
    var product = FE_ONE;
    for (var k = 0u; k < SLOTS; k++) {
        let task = thread * SLOTS + k;
        var slot = Slot(ENDED, 0u, 0u, 0u, 0u);
        if (task < tasks) { slot = open_task(task); }
        if (is_going(slot)) {
            var sum = INFINITY;
            if (settle(&slot, task, &sum)) { partials[tail_place(task)] = sum; }
            if (has_addition(slot)) {
                prefixes[tail_place(task)] = product;
                product = fe_mul(product, denominator_of(sum, handles[slot.position]));
            }
        }
        keep_slot(task, slot);
    }
    prefixes[product_place(thread)] = product;
    atomicStore(&tally[rounds_place(thread)], 1u);
    atomicMax(&tally[COUNT_ROUNDS], 1u);
}
