#include "field/constants52.hpp"

namespace whet {

namespace {

// The top limb of (whole + 2^-fraction_bits) p.
constexpr u64 top_limb(u64 whole, unsigned fraction_bits) {
    Limbs<4> sum = modulus_times(whole);
    add_to(sum, shift_right(Fp::modulus, fraction_bits));
    return split52(sum)[4];
}

constexpr Limbs52 times_r(const Fp& value) {     // value R with R = 2^260, canonical
    const Fp scaled = value * Fp::from_u64(16);  // Fp keeps value 2^256
    return split52(scaled.montgomery_limbs());
}

// 9 p does not fit 256 bits: limb by limb, not carried.
constexpr Limbs52 nine_times_p() {
    const Limbs52 four = split52(modulus_times(4)), five = split52(modulus_times(5));
    Limbs52 sum{};
    for (std::size_t i = 0; i < 5; ++i) sum[i] = four[i] + five[i];
    return sum;
}

}  // namespace

Constants52 constants52 = {
    {split52(modulus_times(0)), split52(modulus_times(1)), split52(modulus_times(2)), split52(modulus_times(3)),
     split52(modulus_times(4)), split52(modulus_times(5))},
    negated_inverse52(),
    mask52,
    top_limb(3, 2),
    top_limb(2, 3),
    top_limb(5, 2),
    split52(power_of_two_mod_p(260)),
    split52(power_of_two_mod_p(520)),
    split52(power_of_two_mod_p(780)),
    split52(power_of_two_mod_p(264)),
    split52(power_of_two_mod_p(256)),
    nine_times_p(),
    times_r(Fp::from_canonical(Bn254BaseParams::cube_root_of_one)),
};

}  // namespace whet
