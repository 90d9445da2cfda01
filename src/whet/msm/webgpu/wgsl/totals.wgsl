// Prefix sums over the blocks, and how many tasks share how many additions. One workgroup.

//# import params
//# import tally
//# import scan

@group(0) @binding(1) var<storage, read_write> blocks: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> tally: array<atomic<u32>>;

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
