// Signed digits of a scalar, read from its planes of 32-bit words. Digits are never stored: a window reads c + 1 bits
// of twice the scalar, whatever the windows below it are. That saves two bytes per digit and a pass.

fn scalar_word(vector: u32, word: u32, row: u32) -> u32 {
    let plane = word - params.first_word;
    if (plane >= params.words) { return 0u; }
    return scalars[(vector * params.words + plane) * params.rows + row];
}
// Magnitude in the low bits, sign in bit 31. Constant shifts only: some drivers miscompile others.
fn digit(window: u32, row: u32) -> u32 {
    let vector = window / params.vector_windows;
    let bit = (window - vector * params.vector_windows) * params.window_bits;
    var low = scalar_word(vector, bit / 32u, row);
    var high = scalar_word(vector, bit / 32u + 1u, row);
    if ((bit & 16u) != 0u) { low = (low >> 16u) | (high << 16u); high >>= 16u; }
    if ((bit & 8u) != 0u) { low = (low >> 8u) | (high << 24u); high >>= 8u; }
    if ((bit & 4u) != 0u) { low = (low >> 4u) | (high << 28u); high >>= 4u; }
    if ((bit & 2u) != 0u) { low = (low >> 2u) | (high << 30u); high >>= 2u; }
    if ((bit & 1u) != 0u) { low = (low >> 1u) | (high << 31u); high >>= 1u; }
    let raw = low & params.raw_mask;
    let rounded = (raw + 1u) >> 1u;
    if ((raw & params.sign_mask) == 0u) { return rounded; }
    return (params.sign_mask - rounded) | 0x80000000u;
}
