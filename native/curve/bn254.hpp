// BN254 G1: y^2 = x^3 + 3 over Fp, of prime order r, so with cofactor 1: every point of the curve is in the group.
#pragma once

#include "curve/weierstrass.hpp"
#include "field/bn254.hpp"

namespace whet {

struct Bn254 {
    using Base = Fp;
    using Scalar = Fr;

    static constexpr Fp b() { return Fp::from_u64(3); }
    static constexpr Affine<Bn254> generator() { return {Fp::from_u64(1), Fp::from_u64(2)}; }
};

using G1Affine = Affine<Bn254>;
using G1Jacobian = Jacobian<Bn254>;
// A scalar as callers give it: any integer below 2^256, little-endian limbs.
using Scalar256 = Limbs<4>;

static_assert(sizeof(G1Affine) == 64, "a point is one cache line");

// r P = O. Void on this curve, since the cofactor is 1: being on the curve is enough. Here for the tests and for
// curves where it is not void.
inline bool is_in_subgroup(const G1Affine& point) { return multiply(point, Fr::modulus).is_infinity(); }

}  // namespace whet
