"""`walker`: each thread walks S tasks side by side and inverts once per round for all of them.

Per addition: 1 multiplication forward, 5 backward, and one S-th of an inversion.
"""

from __future__ import annotations

from whet.msm.webgpu.addition_wgsl import addition_source
from whet.msm.webgpu.kernels import Plant, Template, template
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan_wgsl import TASKS
from whet.msm.webgpu.tasks_wgsl import WALK, slot_source

_SCRATCH = {
    "private": ("var<private> prefixes: array<Fe, SLOTS>;", "prefixes[k]"),
    "workgroup": ("var<workgroup> prefixes: array<Fe, SLOTS * TPB>;", "prefixes[k * TPB + lane]"),
    "device": ("", "prefixes[k * params.max_threads + thread]"),
}


def _body(choice: Choice) -> str:
    declare, prefix = _SCRATCH[choice.scratch]
    return f"""
const TPB = {choice.tpb}u;
{declare}
// The denominator of a sum and the point that comes to it. Both y are needed only where x agrees or is zero: no point
// has x = 0, because three times it would be infinity and the order of the curve is another prime.
fn denominator_of(place: u32, handle: u32) -> Fe {{
    let sum_x = partials[place].x;
    let next_x = points_x[handle & 0x7fffffffu];
    let dx = fe_sub(next_x, sum_x);
    if (!fe_is_zero(dx) && !fe_is_zero(sum_x) && !fe_is_zero(next_x)) {{ return dx; }}
    return pair_of(partials[place], load_point(handle)).denominator;
}}
@compute @workgroup_size(TPB) fn accumulate_walker(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {{
    let thread = id.x;
    let tasks = atomicLoad(&tally[TALLY_TASKS]);
    if (thread * SLOTS >= tasks) {{ return; }}
    var slots: array<Slot, SLOTS>;
    var busy = 0u;
    for (var k = 0u; k < SLOTS; k++) {{
        slots[k].at = ENDED;
        if (thread * SLOTS + k < tasks) {{
            slots[k] = open_task(thread * SLOTS + k);
            busy += u32(is_going(slots[k]));
        }}
    }}
    var added = 0u;
    var doubled = 0u;
    var rounds = 0u;
    // Every round but the first takes an addition from every task that goes on: this is more than any of them needs.
    let most = atomicLoad(&tally[TALLY_SHARE]) + 4u;
    while (busy > 0u && rounds < most) {{
        rounds++;
        var product = FE_ONE;
        var k = 0u;
        loop {{
            if (has_addition(slots[k])) {{
                {prefix} = product;
                product = fe_mul(product, denominator_of(tail_place(thread * SLOTS + k), handles[slots[k].position]));
            }}
            continuing {{
                k++;
                break if k == SLOTS;
            }}
        }}
        var running = FE_ONE;
        if (rounds > 1u) {{ running = fe_inv(product); }}
        loop {{
            k--;
            if (is_going(slots[k])) {{
                var slot = slots[k];
                let task = thread * SLOTS + k;
                var sum = partials[tail_place(task)];
                if (has_addition(slot)) {{
                    let next = load_point(handles[slot.position]);
                    let pair = pair_of(sum, next);
                    sum = peel(sum, next, pair, {prefix}, &running);
                    added += u32(pair.kind <= DOUBLE);
                    doubled += u32(pair.kind == DOUBLE);
                    slot.position++;
                    slot.left--;
                }}
                if (settle(&slot, task, &sum)) {{ partials[tail_place(task)] = sum; }}
                slots[k] = slot;
                busy -= u32(!is_going(slot));
            }}
            continuing {{
                break if k == 0u;
            }}
        }}
    }}
    atomicAdd(&tally[COUNT_ACCUMULATED], added);
    atomicAdd(&tally[COUNT_DOUBLED], doubled);
    atomicAdd(&tally[COUNT_INVERSIONS], rounds - 1u);
    atomicMax(&tally[COUNT_ROUNDS], rounds);
}}
"""


def walker_template(choice: Choice, *, wide: bool, plant: Plant | None = None) -> Template:
    writes = ("buckets", "partials", "tally", *(("prefixes",) if choice.scratch == "device" else ()))
    return template(
        "accumulate_walker",
        f"Sums the buckets of two points or more, {choice.slots} tasks per thread; variant walker"
        f" slots={choice.slots} scratch={choice.scratch} tpb={choice.tpb}.\n"
        f"Against gpu_plain: equal work for every thread, and {choice.slots} additions share an inversion.\n"
        "Presses on: registers, and the memory that holds the prefix products.",
        ("handles", "points_x", "points_y", "dense"),
        writes,
        addition_source(wide=wide, load=True) + slot_source(choice.slots) + TASKS + WALK + _body(choice),
        plant=plant,
    )
