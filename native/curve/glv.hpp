// The endomorphism of BN254 (Gallant, Lambert and Vanstone): (x, y) -> (beta x, y) is multiplication by lambda, so
// k P = k1 P + k2 phi(P) with k1 and k2 of half the length. All constants come from the curve's u at compile time.
#pragma once

#include "curve/bn254.hpp"

namespace whet::glv {

constexpr u64 curve_u = 4965661367192848881;

// Short basis of {(a, b): a + b lambda = 0 mod r}: (long_a, small) and (small, -long_b), with determinant -r.
constexpr u128 square_6u = static_cast<u128>(curve_u) * curve_u * 6;
constexpr u64 small = 2 * curve_u + 1;
constexpr u128 long_a = square_6u + static_cast<u128>(curve_u) * 4 + 1;
constexpr u128 long_b = square_6u + static_cast<u128>(curve_u) * 2;

// Halves are below (long_a + small) / 2 < 2^125.8 in absolute value, because the rounding below is exact.
constexpr std::size_t half_bits = 126;

// A cube root of one mod r, and its partner among the cube roots of one mod p. The tests derive both.
constexpr Limbs<4> lambda = {0x8b17ea66b99c90dd, 0x5bfc41088d8daaa7, 0xb3c4d79d41a91758, 0};
constexpr Fp beta = Fp::from_canonical(Bn254BaseParams::cube_root_of_one);

constexpr G1Affine endomorphism(const G1Affine& point) {
    return {WHET_FAULT(glv_beta_not_applied) ? point.x : point.x * beta, point.y};
}

struct Half {
    Limbs<2> magnitude;
    bool negative;
};

struct Split {
    Half k1, k2;
};

namespace detail {

// floor(numerator 2^512 / r), seven limbs: long division bit by bit, at compile time only.
constexpr Limbs<7> shifted_quotient(u128 numerator) {
    Limbs<7> quotient{};
    Limbs<4> remainder{};
    for (std::size_t i = 128 + 512; i-- > 0;) {
        const Limbs<4> copy = remainder;
        add_to(remainder, copy);
        if (i >= 512) remainder[0] |= static_cast<u64>(numerator >> (i - 512)) & 1;
        for (std::size_t j = 7; j-- > 0;) quotient[j] = (quotient[j] << 1) | (j > 0 ? quotient[j - 1] >> 63 : 0);
        if (!less_than(remainder, Fr::modulus)) {
            subtract_from(remainder, Fr::modulus);
            quotient[0] |= 1;
        }
    }
    return quotient;
}

constexpr Limbs<7> quotient_b = shifted_quotient(long_b);
constexpr Limbs<7> quotient_small = shifted_quotient(small);

// round(k x / r) for k < r, with the quotient q = floor(x 2^512 / r). Exact: k q / 2^512 is less than 2^-258 below
// k x / r, and k x / r keeps a distance of at least 1 / 2r from the nearest half, because r is odd.
constexpr Limbs<2> rounded_product(const Limbs<4>& k, const Limbs<7>& q) {
    Limbs<11> product{};
    for (std::size_t i = 0; i < 4; ++i) {
        u64 carry = 0;
        for (std::size_t j = 0; j < 7; ++j) {
            const u128 sum = static_cast<u128>(k[i]) * q[j] + product[i + j] + carry;
            product[i + j] = low(sum);
            carry = high(sum);
        }
        product[i + 7] = carry;
    }
    const u128 whole = static_cast<u128>(product[9]) << 64 | product[8];
    const u128 rounded = whole + (product[7] >> 63);
    return {low(rounded), high(rounded)};
}

// sum -= a b modulo 2^192: enough, because the final values fit in 127 bits and a sign.
constexpr void subtract_product(Limbs<3>& sum, const Limbs<2>& a, u128 b) {
    const Limbs<2> factor = {low(b), high(b)};
    Limbs<3> product{};
    for (std::size_t i = 0; i < 2; ++i) {
        u64 carry = 0;
        for (std::size_t j = 0; j < 2; ++j) {
            const u128 part = static_cast<u128>(a[i]) * factor[j] + product[i + j] + carry;
            product[i + j] = low(part);
            carry = high(part);
        }
        if (i == 0) product[2] = carry;
    }
    subtract_from(sum, product);
}

constexpr Half signed_half(Limbs<3> value) {
    const bool negative = (value[2] >> 63) != 0;
    if (negative) {
        Limbs<3> zero{};
        subtract_from(zero, value);
        value = zero;
    }
    return {{value[0], value[1]}, negative};
}

}  // namespace detail

// k = k1 + k2 lambda mod r, for k < r.
constexpr Split split(const Limbs<4>& k) {
    const Limbs<2> c1 = detail::rounded_product(k, detail::quotient_b);
    const Limbs<2> c2 = detail::rounded_product(k, detail::quotient_small);
    Limbs<3> k1 = {k[0], k[1], k[2]};
    detail::subtract_product(k1, c1, long_a);
    if (!WHET_FAULT(glv_drops_small_term)) detail::subtract_product(k1, c2, small);
    Limbs<3> negated{}, k2{};  // k2 = c2 long_b - c1 small
    detail::subtract_product(negated, c2, long_b);
    detail::subtract_product(k2, c1, small);
    subtract_from(k2, negated);
    return {detail::signed_half(k1), detail::signed_half(k2)};
}

}  // namespace whet::glv
