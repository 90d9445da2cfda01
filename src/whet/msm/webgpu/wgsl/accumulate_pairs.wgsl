// A round of `pairs`: each task of a thread takes its addition with the inverse that the pass before has found, moves
// on, and brings the denominator of its next addition to the product of the thread. Products grow in the order of the
// slots and are peeled in the other, so rounds alternate: params.stride is 1 where one goes from the last slot down.
// The variant pairs slots=${slots} g=${g} tpb=${tpb}.
// Against walker: no inversion and no arrays in this pass, but no fewer words alive beside them; slots and prefixes are
// in memory, and one inversion serves slots times g additions.
// Presses on: memory traffic, and two dispatches per round.

//# import params
//# let inversion = shared
//# import addition
//# import kept_slots

@group(0) @binding(1) var<storage, read> handles: array<u32>;
@group(0) @binding(2) var<storage, read> points_x: array<Fe>;
@group(0) @binding(3) var<storage, read> points_y: array<Fe>;
@group(0) @binding(4) var<storage, read> dense: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(6) var<storage, read_write> partials: array<Pt>;
@group(0) @binding(7) var<storage, read_write> tally: array<atomic<u32>>;
@group(0) @binding(8) var<storage, read_write> prefixes: array<Fe>;

@compute @workgroup_size(TPB) fn accumulate_pairs(@builtin(global_invocation_id) id: vec3<u32>) {
    let thread = id.x;
    if (thread * SLOTS >= atomicLoad(&tally[TALLY_TASKS])) { return; }
    var running = prefixes[product_place(thread)];
    var product = FE_ONE;
    var added = 0u;
    var doubled = 0u;
    var busy = false;
    var i = 0u;
    loop {
        let task = thread * SLOTS + select(i, SLOTS - 1u - i, params.stride == 1u);
        var slot = kept_slot(task);
        if (is_going(slot)) {
            busy = true;
            let place = tail_place(task);
            var sum = partials[place];
            if (has_addition(slot)) {
                let next = load_point(handles[slot.position]);
                let pair = pair_of(sum, next);
                sum = peel(sum, next, pair, prefixes[place], &running);
                added += u32(pair.kind <= DOUBLE);
                doubled += u32(pair.kind == DOUBLE);
                slot.position++;
                slot.left--;
            }
            if (settle(&slot, task, &sum)) { partials[place] = sum; }
            keep_slot(task, slot);
            if (has_addition(slot)) {
                prefixes[place] = product;
                product = fe_mul(product, denominator_of(sum, handles[slot.position]));
            }
        }
        continuing {
            i++;
            break if i == SLOTS;
        }
    }
    prefixes[product_place(thread)] = product;
    if (busy) {
        let rounds = atomicLoad(&tally[rounds_place(thread)]) + 1u;
        atomicStore(&tally[rounds_place(thread)], rounds);
        atomicMax(&tally[COUNT_ROUNDS], rounds);
        atomicAdd(&tally[COUNT_ACCUMULATED], added);
        atomicAdd(&tally[COUNT_DOUBLED], doubled);
    }
}
