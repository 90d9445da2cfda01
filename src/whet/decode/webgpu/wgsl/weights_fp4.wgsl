// A block of 16 columns is 8 bytes, the low nibble the even column; its e4m3 scale lies behind the scales of the rows.

//# import e4m3_scale

@group(0) @binding(1) var<storage, read> weights: array<vec2u>;

// Four e2m1 values of 16 bits. 0 and 0.5 have no leading one and go through an integer.
fn from_e2m1(half: u32) -> vec4f {
    let nibble = (vec4u(half) >> vec4u(0u, 4u, 8u, 12u)) & vec4u(15u);
    let magnitude = nibble & vec4u(7u);
    let normal = bitcast<vec4f>((magnitude << vec4u(22u)) + vec4u(126u << 23u));
    let value = select(normal, vec4f(magnitude) * 0.5, magnitude < vec4u(2u));
    return bitcast<vec4f>(bitcast<vec4u>(value) | ((nibble & vec4u(8u)) << vec4u(28u)));
}

fn weight_block(row: u32, block: u32) -> Block {
    let at = row * params.blocks + block;
    let words = weights[at];
    let scale = e4m3_scale(scales[params.rows + at / 4u], at % 4u);
    return Block(
        from_e2m1(words.x) * scale, from_e2m1(words.x >> 16u) * scale,
        from_e2m1(words.y) * scale, from_e2m1(words.y >> 16u) * scale,
    );
}
