"""The planner: single points copied, buckets of two or more listed with the additions before them, work cut evenly.

A task is a range of additions. Task t starts at t * share + min(t, extra), so the task of an addition is a division
away and no list of cuts is stored. Every task but the empty ones gets as much work as the next, to one addition.
"""

from __future__ import annotations

from whet.msm.webgpu.addition_wgsl import point_source
from whet.msm.webgpu.geometry import BLOCK_BUCKETS
from whet.msm.webgpu.kernels import Plant, Template, template

BUCKET = f"""
const BLOCK = {BLOCK_BUCKETS}u;
const SHARE = {BLOCK_BUCKETS // 256}u;
struct Bucket {{ start: u32, count: u32 }}
// No bucket has more points than there are rows. Whatever `starts` holds, the plan made of it ends.
fn bucket_at(bucket: u32) -> Bucket {{
    let window = bucket / params.columns;
    let place = window * (params.columns + 1u) + bucket - window * params.columns;
    let start = starts[place];
    return Bucket(window * params.rows + start, min(starts[place + 1u] - start, params.rows));
}}
"""

SCAN = """
var<workgroup> sums: array<vec2<u32>, 256>;
// Inclusive prefix sums over the workgroup.
fn scan(lane: u32, own: vec2<u32>) -> vec2<u32> {
    sums[lane] = own;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach *= 2u) {
        var below = vec2<u32>();
        if (lane >= reach) { below = sums[lane - reach]; }
        workgroupBarrier();
        sums[lane] += below;
        workgroupBarrier();
    }
    return sums[lane];
}
"""

TASKS = """
fn first_addition(task: u32) -> u32 {
    return task * atomicLoad(&tally[TALLY_SHARE]) + min(task, atomicLoad(&tally[TALLY_EXTRA]));
}
fn task_of(addition: u32) -> u32 {
    let share = atomicLoad(&tally[TALLY_SHARE]);
    let extra = atomicLoad(&tally[TALLY_EXTRA]);
    let longer = extra * (share + 1u);
    if (addition < longer) { return addition / (share + 1u); }
    return extra + (addition - longer) / max(share, 1u);
}
"""

CLASSIFY = """
@compute @workgroup_size(256) fn classify(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    var found = vec2<u32>();
    var single = 0u;
    for (var i = 0u; i < SHARE; i++) {
        let bucket = group.x * BLOCK + lane * SHARE + i;
        if (bucket >= params.windows * params.columns) { break; }
        let here = bucket_at(bucket);
        if (here.count == 0u) { buckets[bucket] = INFINITY; }
        if (here.count == 1u) { buckets[bucket] = load_point(handles[here.start]); single++; }
        if (here.count > 1u) { found += vec2<u32>(1u, here.count - 1u); }
    }
    let total = scan(lane, found);
    if (lane == 255u) { blocks[group.x] = total; }
    if (single > 0u) { atomicAdd(&tally[COUNT_SINGLE], single); }
}
"""

TOTALS = """
@compute @workgroup_size(256) fn totals(@builtin(local_invocation_index) lane: u32) {
    let share = (params.blocks + 255u) / 256u;
    let first = min(lane * share, params.blocks);
    let end = min(first + share, params.blocks);
    var own = vec2<u32>();
    for (var i = first; i < end; i++) { own += blocks[i]; }
    let upto = scan(lane, own);
    var running = upto - own;
    for (var i = first; i < end; i++) {
        let here = blocks[i];
        blocks[i] = running;
        running += here;
    }
    if (lane == 255u) {
        let additions = min(upto.y, params.windows * params.rows);
        let wanted = (additions + params.min_additions - 1u) / params.min_additions;
        let tasks = min(wanted, params.max_tasks);
        atomicStore(&tally[TALLY_DENSE], upto.x);
        atomicStore(&tally[TALLY_ADDITIONS], additions);
        atomicStore(&tally[TALLY_TASKS], tasks);
        atomicStore(&tally[TALLY_SHARE], additions / max(tasks, 1u));
        atomicStore(&tally[TALLY_EXTRA], additions % max(tasks, 1u));
        atomicStore(&tally[TALLY_LONGEST], 0u);
    }
}
"""

LISTING = """
@compute @workgroup_size(256) fn list_dense(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    let first = group.x * BLOCK + lane * SHARE;
    let end = min(first + SHARE, params.windows * params.columns);
    var own = vec2<u32>();
    for (var bucket = first; bucket < end; bucket++) {
        let count = bucket_at(bucket).count;
        if (count > 1u) { own += vec2<u32>(1u, count - 1u); }
    }
    var place = blocks[group.x] + scan(lane, own) - own;
    var longest = 0u;
    for (var bucket = first; bucket < end; bucket++) {
        let here = bucket_at(bucket);
        if (here.count > 1u) {
            dense[place.x] = vec4<u32>(bucket, here.start, here.count, place.y);
            longest = max(longest, task_of(place.y + here.count - 2u) - task_of(place.y) + 1u);
            place += vec2<u32>(1u, here.count - 1u);
        }
    }
    if (longest > 1u) { atomicMax(&tally[TALLY_LONGEST], longest); }
}
"""


def plan_templates(plant: Plant | None = None) -> dict[str, Template]:
    return {
        "classify": template(
            "classify",
            "Empty buckets become infinity, buckets of one point get it, the others are counted with their additions.",
            ("starts", "handles", "points_x", "points_y"),
            ("buckets", "blocks", "tally"),
            point_source(load=True) + BUCKET + SCAN + CLASSIFY,
            plant=plant,
        ),
        "totals": template(
            "totals",
            "Prefix sums over the blocks, and how many tasks share how many additions. One workgroup.",
            (),
            ("blocks", "tally"),
            SCAN + TOTALS,
            plant=plant,
        ),
        "list": template(
            "list_dense",
            "Lists buckets of two points or more: bucket, first handle, points, additions before it.\n"
            "Also finds over how many tasks the longest bucket goes, so that combine knows when to stop.",
            ("starts",),
            ("blocks", "dense", "tally"),
            BUCKET + SCAN + TASKS + LISTING,
            plant=plant,
        ),
    }
