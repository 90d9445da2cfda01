// Lists buckets of two points or more: bucket, first handle, points, additions before it.
// Also finds over how many tasks the longest bucket goes, so that combine knows when to stop.

//# import params
//# import tally
//# import bucket
//# import scan
//# import tasks

@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read_write> blocks: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> dense: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> tally: array<atomic<u32>>;

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
            let last = task_of(place.y + here.count - 2u);
            longest = max(longest, last - task_of_first(place.y) + 1u);
            place += vec2<u32>(1u, here.count - 1u);
        }
    }
    if (longest > 1u) { atomicMax(&tally[TALLY_LONGEST], longest); }
}
