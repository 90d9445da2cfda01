// Empty buckets become infinity, buckets of one point get it, the others are counted with their additions.

//# import params
//# import tally
//# import load_point
//# import bucket
//# import scan

@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read> handles: array<u32>;
@group(0) @binding(3) var<storage, read> points_x: array<Fe>;
@group(0) @binding(4) var<storage, read> points_y: array<Fe>;
@group(0) @binding(5) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(6) var<storage, read_write> blocks: array<vec2<u32>>;
@group(0) @binding(7) var<storage, read_write> tally: array<atomic<u32>>;

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
