// Counts the trips of two nested loops whose bounds are in a buffer: all of them, if the driver runs loops to the end.
// Mesa 22's llvmpipe leaves every loop of an invocation after 65,535 trips in all, without an error.

@group(0) @binding(0) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(1) fn loop_budget() {
    var trips = 0u;
    for (var i = 0u; i < result[1]; i++) {
        for (var j = 0u; j < result[1]; j++) { trips = trips + 1u + (trips & result[2]); }
    }
    result[0] = trips;
}
