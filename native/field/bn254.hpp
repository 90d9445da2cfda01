// The two fields of BN254 (alt_bn128 of EIP-196). Both moduli come from u = 4965661367192848881; the tests derive them.
#pragma once

#include "field/prime_field.hpp"

namespace whet {

// p = 36 u^4 + 36 u^3 + 24 u^2 + 6 u + 1: coordinates.
struct Bn254BaseParams {
    static constexpr const char* name = "fp";
    static constexpr Limbs<4> modulus = {0x3c208c16d87cfd47, 0x97816a916871ca8d, 0xb85045b68181585d,
                                         0x30644e72e131a029};
    // Of the two of order three, the one that belongs to glv::lambda; the tests derive it.
    static constexpr Limbs<4> cube_root_of_one = {0x5763473177fffffe, 0xd4f263f1acdb5c4f, 0x59e26bcea0d48bac, 0};
};

// r = 36 u^4 + 36 u^3 + 18 u^2 + 6 u + 1: the order of the group, so scalars. r - 1 is divisible by 2^28.
struct Bn254ScalarParams {
    static constexpr const char* name = "fr";
    static constexpr Limbs<4> modulus = {0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d,
                                         0x30644e72e131a029};
    static constexpr u64 nonresidue = 5;
};

using Fp = PrimeField<Bn254BaseParams>;
using Fr = PrimeField<Bn254ScalarParams>;

}  // namespace whet
