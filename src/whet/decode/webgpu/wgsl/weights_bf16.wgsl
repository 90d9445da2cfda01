// A block of 16 columns is 32 bytes; the low half of a word is the even column.
struct Halves { low: vec4u, high: vec4u }

@group(0) @binding(1) var<storage, read> weights: array<Halves>;

fn from_bf16(words: vec2u) -> vec4f {
    return bitcast<vec4f>(vec4u(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}

fn weight_block(row: u32, block: u32) -> Block {
    let words = weights[row * params.blocks + block];
    return Block(from_bf16(words.low.xy), from_bf16(words.low.zw), from_bf16(words.high.xy), from_bf16(words.high.zw));
}
