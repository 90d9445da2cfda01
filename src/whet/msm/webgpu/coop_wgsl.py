"""`coop`: one task per thread, its sum in registers; g threads share an inversion.

g = 1 inverts for itself and needs neither workgroup memory nor barriers. 1 < g < tpb lets the first thread of each
group invert the product of the group. g = tpb forms prefix and suffix products by doubling steps, so one inversion
serves the workgroup and no thread works alone but for that inversion.
"""

from __future__ import annotations

from whet.msm.webgpu.addition_wgsl import addition_source
from whet.msm.webgpu.kernels import Plant, Template, template
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan_wgsl import TASKS
from whet.msm.webgpu.tasks_wgsl import WALK, slot_source

LOCAL = """
fn inverse_of(denominator: Fe, lane: u32, lonely: bool) -> Fe {
    if (lonely) { return FE_ONE; }
    return fe_inv(denominator);
}
fn anyone(going: bool, lane: u32) -> bool { return going; }
"""

VOTE = """
var<workgroup> votes: atomic<u32>;
var<workgroup> outcome: u32;
// Whether any thread of the workgroup still has work, the same answer for all of them.
fn anyone(going: bool, lane: u32) -> bool {
    workgroupBarrier();
    if (lane == 0u) { atomicStore(&votes, 0u); }
    workgroupBarrier();
    if (going) { atomicStore(&votes, 1u); }
    workgroupBarrier();
    if (lane == 0u) { outcome = atomicLoad(&votes); }
    return workgroupUniformLoad(&outcome) == 1u;
}
"""

GROUP = (
    VOTE
    + """
var<workgroup> factors: array<Fe, TPB>;
var<workgroup> products: array<Fe, TPB>;
// Threads without an addition bring one as their factor, so the product of a group is never zero.
fn inverse_of(denominator: Fe, lane: u32, lonely: bool) -> Fe {
    factors[lane] = denominator;
    workgroupBarrier();
    if (lane % GROUP == 0u) {
        var product = FE_ONE;
        for (var i = lane; i < lane + GROUP; i++) {
            products[i] = product;
            product = fe_mul(product, factors[i]);
        }
        var running = fe_inv(product);
        for (var i = lane + GROUP; i > lane;) {
            i--;
            let own = factors[i];
            for (var part = 0u; part < 2u; part++) {
                let m = fe_mul(running, fe_select(products[i], own, part == 1u));
                if (part == 0u) { factors[i] = m; } else { running = m; }
            }
        }
    }
    workgroupBarrier();
    return factors[lane];
}
"""
)

SCAN = (
    VOTE
    + """
var<workgroup> before: array<Fe, TPB>;
var<workgroup> after: array<Fe, TPB>;
var<workgroup> all_inverse: Fe;
// before[i] becomes the product of the factors 0 to i, after[i] that of the factors i to the last.
fn inverse_of(denominator: Fe, lane: u32, lonely: bool) -> Fe {
    before[lane] = denominator;
    after[lane] = denominator;
    workgroupBarrier();
    for (var reach = 1u; reach < TPB; reach *= 2u) {
        var low = FE_ONE;
        var high = FE_ONE;
        if (lane >= reach) { low = before[lane - reach]; }
        if (lane + reach < TPB) { high = after[lane + reach]; }
        workgroupBarrier();
        for (var part = 0u; part < 2u; part++) {
            let m = fe_mul(fe_select(after[lane], before[lane], part == 0u), fe_select(high, low, part == 0u));
            if (part == 0u) { before[lane] = m; } else { after[lane] = m; }
        }
        workgroupBarrier();
    }
    if (lane == 0u) { all_inverse = fe_inv(before[TPB - 1u]); }
    workgroupBarrier();
    var inverse = all_inverse;
    for (var part = 0u; part < 2u; part++) {
        var other = FE_ONE;
        if (part == 0u && lane > 0u) { other = before[lane - 1u]; }
        if (part == 1u && lane + 1u < TPB) { other = after[lane + 1u]; }
        inverse = fe_mul(inverse, other);
    }
    // The arrays are written again in the next round, before its first barrier.
    workgroupBarrier();
    return inverse;
}
"""
)


def _sharing(choice: Choice) -> str:
    if choice.g == 1:
        return LOCAL
    return SCAN if choice.g == choice.tpb else GROUP


def _body(choice: Choice) -> str:
    return f"""
const TPB = {choice.tpb}u;
const GROUP = {choice.g}u;
{_sharing(choice)}
@compute @workgroup_size(TPB) fn accumulate_coop(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {{
    let task = id.x;
    var slot = Slot(ENDED, 0u, 0u, 0u, 0u);
    if (task < atomicLoad(&tally[TALLY_TASKS])) {{ slot = open_task(task); }}
    var sum = INFINITY;
    var added = 0u;
    var doubled = 0u;
    var rounds = 0u;
    let most = atomicLoad(&tally[TALLY_SHARE]) + 4u;
    while (anyone(is_going(slot), lane)) {{
        rounds++;
        var next = INFINITY;
        var pair = Pair(KEEP_LEFT, FE_ONE);
        if (has_addition(slot)) {{
            next = load_point(handles[slot.position]);
            pair = pair_of(sum, next);
        }}
        let inverse = inverse_of(pair.denominator, lane, pair.kind > DOUBLE);
        if (is_going(slot)) {{
            if (has_addition(slot)) {{
                sum = join(sum, next, pair, inverse);
                added += u32(pair.kind <= DOUBLE);
                doubled += u32(pair.kind == DOUBLE);
                slot.position++;
                slot.left--;
            }}
            if (settle(&slot, task, &sum) && !is_going(slot)) {{ partials[tail_place(task)] = sum; }}
            if (rounds >= most) {{ slot.at = ENDED; }}
        }}
    }}
    atomicAdd(&tally[COUNT_ACCUMULATED], added);
    atomicAdd(&tally[COUNT_DOUBLED], doubled);
    if (lane % GROUP == 0u && rounds > 0u) {{ atomicAdd(&tally[COUNT_INVERSIONS], rounds - 1u); }}
    atomicMax(&tally[COUNT_ROUNDS], rounds);
}}
"""


def coop_template(choice: Choice, *, wide: bool, plant: Plant | None = None) -> Template:
    return template(
        "accumulate_coop",
        f"Sums the buckets of two points or more, one task per thread; variant coop g={choice.g} tpb={choice.tpb}.\n"
        f"Against walker: an eighth of the live state; {choice.g} threads share an inversion instead of slots.\n"
        "Presses on: barriers and workgroup memory where g is above 1, inversions where it is 1.",
        ("handles", "points_x", "points_y", "dense"),
        ("buckets", "partials", "tally"),
        "".join(
            [
                addition_source(wide=wide, load=True, shared=False),
                slot_source(choice.slots),
                TASKS,
                WALK,
                _body(choice),
            ]
        ),
        plant=plant,
    )
