// Where each bucket of a window begins among its handles: exclusive prefix sums, one workgroup per window.

//# import params

@group(0) @binding(1) var<storage, read_write> starts: array<u32>;

var<workgroup> sums: array<u32, 256>;
@compute @workgroup_size(256) fn starts_of_buckets(
    @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32
) {
    let line = group.x * (params.columns + 1u);
    let share = (params.columns + 255u) / 256u;
    let first = min(lane * share, params.columns);
    let end = min(first + share, params.columns);
    var total = 0u;
    for (var i = first; i < end; i++) { total += starts[line + i]; }
    sums[lane] = total;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach *= 2u) {
        var below = 0u;
        if (lane >= reach) { below = sums[lane - reach]; }
        workgroupBarrier();
        sums[lane] += below;
        workgroupBarrier();
    }
    var running = sums[lane] - total;
    for (var i = first; i < end; i++) {
        let here = starts[line + i];
        starts[line + i] = running;
        running += here;
    }
    if (lane == 255u) { starts[line + params.columns] = running; }
}
