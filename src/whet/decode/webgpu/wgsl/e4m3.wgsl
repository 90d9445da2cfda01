// Four e4m3 bytes of a word, lowest first. No infinities; 0x7f and 0xff are NaN. Values below 2^-6 go through an
// integer and never through a subnormal float, which a device may flush.
fn from_e4m3(word: u32) -> vec4f {
    let byte = (vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu);
    let magnitude = byte & vec4u(0x7fu);
    let normal = bitcast<vec4f>((magnitude << vec4u(20u)) + vec4u(120u << 23u));
    let small = vec4f(magnitude) * 0.001953125;
    let value = bitcast<vec4u>(select(normal, small, magnitude < vec4u(8u)));
    let bits = select(value, vec4u(0x7fc00000u), magnitude == vec4u(0x7fu));
    return bitcast<vec4f>(bits | ((byte & vec4u(0x80u)) << vec4u(24u)));
}
