// The value of one e4m3 byte of a word. Shifts by constants only: some drivers miscompile others.
// 0x7f and 0xff are NaN, as in e4m3.wgsl; a layer refuses weights with such scales before they come here.
fn e4m3_scale(word: u32, which: u32) -> f32 {
    let half = select(word, word >> 16u, which >= 2u);
    let byte = select(half, half >> 8u, (which & 1u) != 0u) & 0xffu;
    let magnitude = byte & 0x7fu;
    let normal = bitcast<f32>((magnitude << 20u) + (120u << 23u));
    let value = select(normal, f32(magnitude) * 0.001953125, magnitude < 8u);
    let bits = select(bitcast<u32>(value), 0x7fc00000u, magnitude == 0x7fu);
    return bitcast<f32>(bits | ((byte & 0x80u) << 24u));
}
