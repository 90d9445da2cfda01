// Inverts the products of all threads in place, ${g} of them with one inversion: the only inversion of `pairs`.
// Against walker: ${g} times fewer inversions for three multiplications per thread, whose registers are this pass's.
// Presses on: threads. With few tasks there are fewer products than a device has lanes.

//# import params
//# import multiply
//# import generated/inverse
//# import tally

@group(0) @binding(1) var<storage, read_write> tally: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> prefixes: array<Fe>;

const SLOTS = ${slots}u;
const GROUP = ${g}u;

@compute @workgroup_size(${workgroup}) fn invert_pairs(@builtin(global_invocation_id) id: vec3<u32>) {
    let threads = (atomicLoad(&tally[TALLY_TASKS]) + SLOTS - 1u) / SLOTS;
    let groups = (threads + GROUP - 1u) / GROUP;
    if (id.x >= groups) { return; }
    var before: array<Fe, GROUP>;
    var product = FE_ONE;
    var any = false;
    var own = 0u;
    var i = id.x;
    loop {
        let factor = prefixes[params.max_tasks + i];
        any |= !fe_equal(factor, FE_ONE);
        before[own] = product;
        product = fe_mul(product, factor);
        continuing {
            own++;
            i += groups;
            break if i >= threads;
        }
    }
    // Where every thread is idle each product is one, and so is its inverse.
    if (any) {
        var running = fe_inv(product);
        loop {
            own--;
            let place = params.max_tasks + id.x + own * groups;
            let factor = prefixes[place];
            prefixes[place] = fe_mul(running, before[own]);
            running = fe_mul(running, factor);
            continuing {
                break if own == 0u;
            }
        }
        atomicAdd(&tally[COUNT_INVERSIONS], 1u);
    }
}
