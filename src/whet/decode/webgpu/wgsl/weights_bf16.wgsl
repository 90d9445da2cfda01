// A block of 16 columns is 32 bytes; the low half of a word is the even column.
@group(0) @binding(1) var<storage, read> weights: array<vec4u>;

fn from_bf16(words: vec2u) -> vec4f {
    return bitcast<vec4f>(vec4u(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}

fn weight_block(row: u32, block: u32) -> Block {
    let at = 2u * (row * params.blocks + block);
    let low = weights[at];
    let high = weights[at + 1u];
    return Block(from_bf16(low.xy), from_bf16(low.zw), from_bf16(high.xy), from_bf16(high.zw));
}
