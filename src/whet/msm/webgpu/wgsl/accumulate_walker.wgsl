// Sums the buckets of two points or more, several tasks per thread.
// The variant walker slots=${slots} scratch=${scratch} tpb=${tpb}.
// Against gpu_plain: equal work for every thread, and ${slots} additions share an inversion. Per addition: one
// multiplication forward, five backward, and a part of an inversion.
// Presses on: registers, and the memory that holds the prefix products.

//# import params
//# let inversion = shared
//# import addition
//# import generated/inverse
//# import walk

@group(0) @binding(1) var<storage, read> handles: array<u32>;
@group(0) @binding(2) var<storage, read> points_x: array<Fe>;
@group(0) @binding(3) var<storage, read> points_y: array<Fe>;
@group(0) @binding(4) var<storage, read> dense: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(6) var<storage, read_write> partials: array<Pt>;
@group(0) @binding(7) var<storage, read_write> tally: array<atomic<u32>>;
//# if scratch == device
@group(0) @binding(8) var<storage, read_write> prefixes: array<Fe>;
//# end

const TPB = ${tpb}u;
//# if scratch == private
var<private> prefixes: array<Fe, SLOTS>;
//# let prefix = prefixes[k]
//# end
//# if scratch == workgroup
var<workgroup> prefixes: array<Fe, SLOTS * TPB>;
//# let prefix = prefixes[k * TPB + lane]
//# end
//# if scratch == device
//# let prefix = prefixes[k * params.max_threads + thread]
//# end

// The denominator of a sum and the point that comes to it. Both y are needed only where x agrees or is zero: no point
// has x = 0, because three times it would be infinity and the order of the curve is another prime.
fn denominator_of(place: u32, handle: u32) -> Fe {
    let sum_x = partials[place].x;
    let next_x = points_x[handle & 0x7fffffffu];
    let dx = fe_sub(next_x, sum_x);
    if (!fe_is_zero(dx) && !fe_is_zero(sum_x) && !fe_is_zero(next_x)) { return dx; }
    return pair_of(partials[place], load_point(handle)).denominator;
}
@compute @workgroup_size(TPB) fn accumulate_walker(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    let thread = id.x;
    let tasks = atomicLoad(&tally[TALLY_TASKS]);
    if (thread * SLOTS >= tasks) { return; }
    var slots: array<Slot, SLOTS>;
    var busy = 0u;
    for (var k = 0u; k < SLOTS; k++) {
        slots[k].at = ENDED;
        if (thread * SLOTS + k < tasks) {
            slots[k] = open_task(thread * SLOTS + k);
            busy += u32(is_going(slots[k]));
        }
    }
    var added = 0u;
    var doubled = 0u;
    var rounds = 0u;
    // Every round but the first takes an addition from every task that goes on: this is more than any of them needs.
    let most = atomicLoad(&tally[TALLY_SHARE]) + 4u;
    while (busy > 0u && rounds < most) {
        rounds++;
        var product = FE_ONE;
        var k = 0u;
        loop {
            if (has_addition(slots[k])) {
                ${prefix} = product;
                product = fe_mul(product, denominator_of(tail_place(thread * SLOTS + k), handles[slots[k].position]));
            }
            continuing {
                k++;
                break if k == SLOTS;
            }
        }
        var running = FE_ONE;
        if (rounds > 1u) { running = fe_inv(product); }
        loop {
            k--;
            if (is_going(slots[k])) {
                var slot = slots[k];
                let task = thread * SLOTS + k;
                var sum = partials[tail_place(task)];
                if (has_addition(slot)) {
                    let next = load_point(handles[slot.position]);
                    let pair = pair_of(sum, next);
                    sum = peel(sum, next, pair, ${prefix}, &running);
                    added += u32(pair.kind <= DOUBLE);
                    doubled += u32(pair.kind == DOUBLE);
                    slot.position++;
                    slot.left--;
                }
                if (settle(&slot, task, &sum)) { partials[tail_place(task)] = sum; }
                slots[k] = slot;
                busy -= u32(!is_going(slot));
            }
            continuing {
                break if k == 0u;
            }
        }
    }
    atomicAdd(&tally[COUNT_ACCUMULATED], added);
    atomicAdd(&tally[COUNT_DOUBLED], doubled);
    atomicAdd(&tally[COUNT_INVERSIONS], rounds - 1u);
    atomicMax(&tally[COUNT_ROUNDS], rounds);
}
