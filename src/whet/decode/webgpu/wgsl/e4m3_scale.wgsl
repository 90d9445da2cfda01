// The value of one e4m3 byte of a word. Shifts by constants only: some drivers miscompile others.
// 0x7f and 0xff would be NaN; scales of weights are finite, because a layer refuses others before they come here.
fn e4m3_scale(word: u32, which: u32) -> f32 {
    let half = select(word, word >> 16u, which >= 2u);
    let byte = select(half, half >> 8u, (which & 1u) != 0u) & 0xffu;
    let magnitude = byte & 0x7fu;
    let normal = bitcast<f32>((magnitude << 20u) + (120u << 23u));
    let value = select(normal, f32(magnitude) * 0.001953125, magnitude < 8u);
    return select(value, -value, byte >= 0x80u);
}
