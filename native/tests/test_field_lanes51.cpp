// Products of 51-bit limbs by fma against Fp, on limbs as large as they may be: every sign, halves of 2^51, where
// rounding to nearest is a tie, and the balanced limbs next to them. Random values never come near.
#include <cstring>
#include <random>

#include "check.hpp"
#include "field/lanes51.hpp"

using namespace whet;

namespace {

std::mt19937_64 random_bits(51);

// |a| limbs up to `most` 2^50, the last one so that the value stays below 2 p.
double awkward(double most, bool last) {
    constexpr double some[] = {0, 1, -1, 0x1p50, -0x1p50, 0x1p50 - 1, 1 - 0x1p50, 0x1p49, -0x1p49, 0x1p49 + 1};
    const double limb = random_bits() % 3 ? some[random_bits() % std::size(some)]
                                          : static_cast<double>(static_cast<std::int64_t>(random_bits()) >> 13);
    if (last) return limb;
    return random_bits() % 2 ? most * limb : limb;
}

double& at(Lanes& lanes, std::size_t lane, std::size_t limb) {
    return reinterpret_cast<double*>(&lanes.half[lane / 4].limb[limb])[lane % 4];
}

Fp value_of(Lanes& lanes, std::size_t lane) {
    Fp value;
    for (std::size_t i = 5; i-- > 0;) {
        for (int bit = 0; bit < 51; ++bit) value = value.doubled();
        const double limb = at(lanes, lane, i);
        const Fp size = Fp::from_u64(static_cast<u64>(limb < 0 ? -limb : limb));
        value = limb < 0 ? value - size : value + size;
    }
    return value;
}

// R = 2^255 divided out of the product, whatever the rounding of the caller.
void check_products(unsigned rounding) {
    const Fp over_r = Fp::from_canonical(two_to_the(255)).inverse();
    std::size_t wrong = 0, unbalanced = 0, far = 0;
    for (int repeat = 0; repeat < 4000; ++repeat) {
        Lanes a, b, out;
        const double most = repeat % 2 ? 3 : 1;
        for (std::size_t lane = 0; lane < 8; ++lane) {
            for (std::size_t i = 0; i < 5; ++i) {
                at(a, lane, i) = awkward(most, i == 4);
                at(b, lane, i) = awkward(1, i == 4);
            }
        }
        const unsigned before = _mm_getcsr();
        _mm_setcsr((before & ~0xe040u) | rounding);
        {
            const NearestRounding nearest;
            multiply(out, a, b);
        }
        CHECK((_mm_getcsr() & 0xe040u) == rounding);
        _mm_setcsr(before);
        for (std::size_t lane = 0; lane < 8; ++lane) {
            wrong += !(value_of(out, lane) == value_of(a, lane) * value_of(b, lane) * over_r);
            for (std::size_t i = 0; i < 4; ++i) unbalanced += at(out, lane, i) < -0x1p50 || at(out, lane, i) >= 0x1p50;
            far += at(out, lane, 4) < -0x1p51 || at(out, lane, 4) > 0x1p51;
        }
        Lanes squared;
        square(squared, b);
        for (std::size_t lane = 0; lane < 8; ++lane)
            wrong += !(value_of(squared, lane) == value_of(b, lane) * value_of(b, lane) * over_r);
        Lanes near = nearest_zero(out);
        for (std::size_t lane = 0; lane < 8; ++lane) {
            wrong += !(value_of(near, lane) == value_of(out, lane));
            wrong += !(Fp::from_canonical(lane_value(near, lane)) == value_of(out, lane));
            Word words[4];
            canonical(near.half[lane / 4], words);
            Limbs<4> value;
            std::memcpy(&value, &words[lane % 4], sizeof value);
            wrong += value != lane_value(near, lane);
            const double half = static_cast<double>(split51(Fp::modulus)[4]) / 2;
            far += at(near, lane, 4) < -half - 2 || at(near, lane, 4) > half + 2;
        }
    }
    CHECK(wrong == 0);
    CHECK(unbalanced == 0);
    CHECK(far == 0);
}

void check_multiples_of_p_are_seen() {
    Lanes a = {};
    for (std::size_t lane = 0; lane < 8; ++lane) {
        for (std::size_t i = 0; i < 5; ++i) {
            const double limb = constants51.balanced_p[i].lane[0];
            at(a, lane, i) = lane == 0 || lane == 5 ? 0 : lane == 1 ? limb : lane == 6 ? -limb : i == lane - 2;
        }
    }
    CHECK(equals(a, constants51.balanced_p) == 0x02);
    CHECK(equals(a, constants51.balanced_less) == 0x40);
}

}  // namespace

int main() {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        constexpr unsigned toward_zero = 0x6000, up = 0x4000, down = 0x2000, flush = 0x8040;
        for (const unsigned rounding : {0u, toward_zero, up, down, flush}) check_products(rounding);
        check_multiples_of_p_are_seen();
    }
    CHECK(column_start(9, false) != 0);
    return whet::test::finish("51-bit lanes");
}
