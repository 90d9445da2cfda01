// Numbers of the 5 x 51-bit representation with R = 2^255 as whole doubles, worked out at compile time.
#pragma once

#include <array>
#include <bit>

#include "field/bn254.hpp"

namespace whet {

using Limbs51 = std::array<u64, 5>;  // unsigned
constexpr u64 mask51 = (u64{1} << 51) - 1;

constexpr Limbs51 split51(const Limbs<4>& a) {
    return {a[0] & mask51, ((a[0] >> 51) | (a[1] << 13)) & mask51, ((a[1] >> 38) | (a[2] << 26)) & mask51,
            ((a[2] >> 25) | (a[3] << 39)) & mask51, a[3] >> 12};
}

constexpr Limbs<4> two_to_the(unsigned exponent) {  // mod p
    Limbs<4> value{1};
    for (unsigned i = 0; i < exponent; ++i) {
        const Limbs<4> copy = value;
        add_to(value, copy);
        Limbs<4> trial = value;
        if (subtract_from(trial, Fp::modulus) == 0) value = trial;
    }
    return value;
}

constexpr double high_magic = 0x1.8p103, low_magic = 0x1.8p52;
constexpr u64 bits_of(double value) { return std::bit_cast<u64>(value); }

// One constant in every lane: memory operands of 256-bit instructions.
struct alignas(32) RealFour {
    double lane[4];
};
struct alignas(32) WordFour {
    u64 lane[4];
};
constexpr RealFour four(double v) { return {{v, v, v, v}}; }
constexpr WordFour four(u64 v) { return {{v, v, v, v}}; }

using RealLimbs = std::array<RealFour, 5>;
constexpr RealLimbs real_limbs(const Limbs51& a) {
    return {four(static_cast<double>(a[0])), four(static_cast<double>(a[1])), four(static_cast<double>(a[2])),
            four(static_cast<double>(a[3])), four(static_cast<double>(a[4]))};
}
// Limbs in [-2^50, 2^50), the last one as it comes.
constexpr RealLimbs balanced_limbs(const Limbs51& a, bool negative) {
    RealLimbs r{};
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < 5; ++i) {
        std::int64_t limb = (negative ? -static_cast<std::int64_t>(a[i]) : static_cast<std::int64_t>(a[i])) + carry;
        carry = 0;
        if (i < 4) {
            carry = (limb + (std::int64_t{1} << 50)) >> 51;
            limb -= carry * (std::int64_t{1} << 51);
        }
        r[i] = four(static_cast<double>(limb));
    }
    return r;
}

// Columns are kept positive by a multiple of 2^51 and rounded by half of it, so that a logical shift gives the carry
// that leaves a balanced limb. What they add up is below 2^55 in absolute value.
constexpr u64 column_bias = (u64{1} << 58) + (u64{1} << 50);
constexpr u64 column_start(std::size_t k, bool square) {
    u64 start = k < 9 ? column_bias : bits_of(low_magic);
    if (k > 0) start -= column_bias >> 51;
    for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t j = 0; j < 5; ++j) {
            // a_i b_j, in a square once for both orders, and m_i p_j but for j = 0
            const u64 times = u64{!square || i <= j} + u64{j > 0};
            if (i + j == k) start -= times * bits_of(low_magic);
            if (i + j + 1 == k) start -= times * bits_of(high_magic);
        }
        if (i + 1 == k) start -= bits_of(low_magic);  // m_i p_0 with the column that it clears
    }
    return start;
}

constexpr double negated_inverse51() {  // -1 / p mod 2^51, balanced
    u64 inverse = 1;
    for (int i = 0; i < 6; ++i) inverse *= 2 - Fp::modulus[0] * inverse;
    const u64 value = (u64{0} - inverse) & mask51;
    return value >> 50 ? -static_cast<double>(mask51 + 1 - value) : static_cast<double>(value);
}

// In memory and not const: as literals they would be moved through general registers.
struct Constants51 {
    RealLimbs p;                          // limbs below 2^51
    RealLimbs balanced_p, balanced_less;  // p and -p
    RealLimbs one, r_cubed, beta;         // R, R^3, beta R
    RealFour negated_inverse, high, both, low, unit, balance, carry_down, over_p;
    WordFour mask;
    WordFour carry_bias, carry_back;  // 2^58, and what of it a carry by 51 bits brings along
    WordFour low_bits;                // the bit pattern of `low`
    std::array<WordFour, 5> p_words;
    std::array<WordFour, 10> column, square_column;
    std::array<WordFour, 16> lane_masks;  // all ones where the index has a bit
};
extern Constants51 constants51;

// Compiled without the flags of this header's users: code that others share must run on every CPU.
Limbs<4> reduced51(const Limbs<4>& value);              // to canonical
Limbs<4> inverse_or_zero51(const Limbs<4>& canonical);  // mod p

}  // namespace whet
