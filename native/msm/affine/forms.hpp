// Kernels keep coordinates in Montgomery forms of their own, x 2^bits mod p: 255, 256 or 260 bits.
#pragma once

#include "field/bn254.hpp"

namespace whet::msm {

constexpr bool is_known_form(unsigned bits) { return bits == 255 || bits == 256 || bits == 260; }

// What a value in one form must be multiplied by to be in the other.
inline Fp form_factor(unsigned from_bits, unsigned to_bits) {
    Fp factor = Fp::one();
    for (unsigned bits = from_bits; bits < to_bits; ++bits) factor = factor.doubled();
    for (unsigned bits = to_bits; bits < from_bits; ++bits) factor = factor.doubled();
    return from_bits > to_bits ? factor.inverse() : factor;
}

}  // namespace whet::msm
