// Prefix sums of pairs over a workgroup of 256.

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
