// Rounds 16 values to e2m1 with one e4m3 scale: scale = max |x| / 6, nearest even, saturating; a scale that rounds to
// zero makes the block zero. The values come back as floats, so the product that follows is the one of the stored form.
#pragma once

#include <cmath>

#include "decode/lanes.hpp"

namespace whet::decode {
namespace {

inline float rounded_to_e4m3(float positive) {
    if (positive >= 448.0F) return 448.0F;
    if (positive < 0.015625F) return std::nearbyint(positive * 512.0F) * 0.001953125F;
    std::uint32_t word;
    std::memcpy(&word, &positive, sizeof word);
    word += 0x7ffffU + ((word >> 20) & 1U);
    word &= ~0xfffffU;
    float rounded;
    std::memcpy(&rounded, &word, sizeof rounded);
    return rounded > 448.0F ? 448.0F : rounded;
}

// Borders lie halfway; a tie goes to the neighbour with an even mantissa.
inline float rounded_to_e2m1(float a) {
    if (a <= 0.25F) return 0.0F;
    if (a < 0.75F) return 0.5F;
    if (a <= 1.25F) return 1.0F;
    if (a < 1.75F) return 1.5F;
    if (a <= 2.5F) return 2.0F;
    if (a < 3.5F) return 3.0F;
    return a <= 5.0F ? 4.0F : 6.0F;
}

inline F rounded_to_fp4(F values) {
    float lane[lanes];
    store(lane, values);
    float top = 0.0F;
    for (const float v : lane) top = std::fabs(v) > top ? std::fabs(v) : top;
    const float scale = WHET_DECODE_PLANT(quantise_scale_unrounded) ? top / 6.0F : rounded_to_e4m3(top / 6.0F);
    for (float& v : lane) {
        const float size = scale == 0.0F ? 0.0F : rounded_to_e2m1(std::fabs(v) / scale) * scale;
        v = std::copysign(size, v);
    }
    return load(lane);
}

}  // namespace
}  // namespace whet::decode
