#include "field/constants51.hpp"

namespace whet {

namespace {

constexpr std::array<WordFour, 10> make_columns(bool square) {
    std::array<WordFour, 10> r{};
    for (std::size_t k = 0; k < 10; ++k) r[k] = four(column_start(k, square));
    return r;
}
constexpr std::array<WordFour, 16> make_masks() {
    std::array<WordFour, 16> r{};
    for (std::size_t mask = 0; mask < 16; ++mask) {
        for (std::size_t lane = 0; lane < 4; ++lane) r[mask].lane[lane] = mask >> lane & 1 ? ~u64{0} : 0;
    }
    return r;
}

constexpr Limbs51 p51 = split51(Fp::modulus);
// 2^204 / p, as near as a double comes.
constexpr double over_p = 1 / (static_cast<double>(p51[4]) + static_cast<double>(p51[3]) * 0x1p-51);
constexpr Limbs<4> beta_limbs =
    (Fp::from_canonical(Bn254BaseParams::cube_root_of_one) * Fp::from_canonical(two_to_the(255))).canonical();

}  // namespace

Constants51 constants51 = {
    real_limbs(p51),
    balanced_limbs(p51, false),
    balanced_limbs(p51, true),
    balanced_limbs(split51(two_to_the(255)), false),
    balanced_limbs(split51(two_to_the(765)), false),
    balanced_limbs(split51(beta_limbs), false),
    four(negated_inverse51()),
    four(high_magic),
    four(high_magic + low_magic),
    four(low_magic),
    four(0x1p52),
    four(0x1p52 + 0x1p50),
    four(0x1p-51),
    four(over_p),
    four(mask51),
    four(u64{1} << 58),
    four(u64{1} << 7),
    four(bits_of(low_magic)),
    {four(p51[0]), four(p51[1]), four(p51[2]), four(p51[3]), four(p51[4])},
    make_columns(false),
    make_columns(true),
    make_masks(),
};

Limbs<4> reduced51(const Limbs<4>& value) { return Fp::reduce(value); }
Limbs<4> inverse_or_zero51(const Limbs<4>& canonical) {
    return is_zero(canonical) ? canonical : inverse_vartime(canonical, Fp::modulus);
}

}  // namespace whet
