// The sum of each chain to its bucket.

//# import params
//# import point
//# import chain_of_pieces

@group(0) @binding(1) var<storage, read> dense: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> partials: array<Pt>;
@group(0) @binding(3) var<storage, read_write> buckets: array<Pt>;
@group(0) @binding(4) var<storage, read_write> tally: array<atomic<u32>>;

@compute @workgroup_size(${workgroup}) fn store(@builtin(global_invocation_id) id: vec3<u32>) {
    let chain = chain_of(id.x);
    if (chain.pieces > 0u && chain.rank == 0u) { buckets[chain.bucket] = partials[tail_place(id.x)]; }
}
