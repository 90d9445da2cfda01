// Copies the c points of each window that the host needs into the result.

//# import params
//# import point

@group(0) @binding(1) var<storage, read> buckets: array<Pt>;
@group(0) @binding(2) var<storage, read_write> result: array<Pt>;

@compute @workgroup_size(${workgroup}) fn gather(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.windows * params.window_bits) { return; }
    let window = id.x / params.window_bits;
    let part = id.x - window * params.window_bits;
    let place = (params.first_window + window) * params.window_bits + part;
    result[place] = buckets[window * params.columns + params.offsets[part / 4u][part % 4u]];
}
