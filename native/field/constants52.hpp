// Numbers of the 5 x 52-bit representation with R = 2^260, worked out at compile time.
#pragma once

#include <array>

#include "field/bn254.hpp"

namespace whet {

using Limbs52 = std::array<u64, 5>;
constexpr u64 mask52 = (u64{1} << 52) - 1;

constexpr Limbs52 split52(const Limbs<4>& a) {
    return {a[0] & mask52, ((a[0] >> 52) | (a[1] << 12)) & mask52, ((a[1] >> 40) | (a[2] << 24)) & mask52,
            ((a[2] >> 28) | (a[3] << 36)) & mask52, a[3] >> 16};
}

constexpr Limbs<4> modulus_times(u64 factor) {
    Limbs<4> product{};
    u64 carry = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        const u128 wide = static_cast<u128>(Fp::modulus[i]) * factor + carry;
        product[i] = low(wide);
        carry = high(wide);
    }
    return product;
}

// 2^exponent mod p.
constexpr Limbs<4> power_of_two_mod_p(unsigned exponent) {
    Limbs<4> value{1};
    for (unsigned i = 0; i < exponent; ++i) {
        const Limbs<4> copy = value;
        add_to(value, copy);
        Limbs<4> trial = value;
        if (subtract_from(trial, Fp::modulus) == 0) value = trial;
    }
    return value;
}

constexpr u64 negated_inverse52() {
    u64 inverse = 1;
    for (int i = 0; i < 6; ++i) inverse *= 2 - Fp::modulus[0] * inverse;
    return (u64{0} - inverse) & mask52;
}

// Kept in memory and not const, so that the compiler uses them as broadcast memory operands; as literals each use in a
// loop becomes a move to a general register and a broadcast, which costs a vector port.
struct Constants52 {
    Limbs52 p[6];  // p[k] = k p
    u64 negated_inverse;
    u64 mask;
    u64 x_limit, y_limit, far_limit;  // top limbs of 3.25 p, 2.125 p and 5.25 p
    Limbs52 one;                      // R
    Limbs52 r_squared, r_cubed;
    Limbs52 two_to_264;  // from R = 2^256 to R = 2^260
    Limbs52 two_to_256;  // and back
    Limbs52 nine_p;
    Limbs52 beta;  // the cube root of unity that goes with lambda, times R
};
extern Constants52 constants52;

}  // namespace whet
