// Whether a workgroup goes on.

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
