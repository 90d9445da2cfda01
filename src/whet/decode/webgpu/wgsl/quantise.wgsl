// What the CPU's rounding of h does: a block of 16 to e2m1 with one e4m3 scale, and back.
var<workgroup> hidden_block: array<f32, LANES * TILE>;

// Nearest e4m3, ties to even, at most 448.
fn rounded_to_e4m3(positive: f32) -> f32 {
    if (positive >= 448.0) { return 448.0; }
    if (positive < 0.015625) { return round(positive * 512.0) * 0.001953125; }
    let word = bitcast<u32>(positive);
    let rounded = (word + 0x7ffffu + ((word >> 20u) & 1u)) & 0xfff00000u;
    return min(bitcast<f32>(rounded), 448.0);
}

// Nearest e2m1; a tie goes to the neighbour with an even mantissa.
fn rounded_to_e2m1(a: f32) -> f32 {
    if (a <= 0.25) { return 0.0; }
    if (a < 0.75) { return 0.5; }
    if (a <= 1.25) { return 1.0; }
    if (a < 1.75) { return 1.5; }
    if (a <= 2.5) { return 2.0; }
    if (a < 3.5) { return 3.0; }
    return select(6.0, 4.0, a <= 5.0);
}

// One of a block of 16 whose largest magnitude is `top`. A scale that rounds to zero makes the block zero.
fn rounded_to_fp4(value: f32, top: f32) -> f32 {
    let scale = rounded_to_e4m3(top / 6.0);
    if (scale == 0.0) { return 0.0; }
    let size = rounded_to_e2m1(abs(value) / scale) * scale;
    return select(size, -size, value < 0.0);
}
