// The exponential of every value of a buffer, in place: how far off it is on a device is found before its first layer.

//# import exponential

@group(0) @binding(0) var<storage, read_write> values: array<f32>;

@compute @workgroup_size(64) fn exponentials(@builtin(global_invocation_id) id: vec3u) {
    values[id.x] = exponential(values[id.x]);
}
