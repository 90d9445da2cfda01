// A block of 16 columns is 16 bytes; the scale of the row is applied after the sum.
@group(0) @binding(1) var<storage, read> weights: array<vec4u>;

fn from_int8(word: u32) -> vec4f {
    return vec4f(bitcast<vec4i>(vec4u(word) << vec4u(24u, 16u, 8u, 0u)) >> vec4u(24u));
}

fn weight_block(row: u32, block: u32) -> Block {
    let words = weights[row * params.blocks + block];
    return Block(from_int8(words.x), from_int8(words.y), from_int8(words.z), from_int8(words.w));
}
