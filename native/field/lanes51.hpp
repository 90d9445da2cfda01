// Eight field elements side by side in 5 x 51-bit limbs for AVX2 and FMA, R = 2^255. A limb is a whole number kept as a
// double; limbs and values have signs, so a subtraction needs no multiple of p.
//
// A product of limbs is exact in two halves. fma(a, b, 1.5 2^103) rounds a b to a multiple of 2^51, and what that left
// out is one more fma; both come with a constant exponent, so that their bit patterns are added up as integers and the
// exponents are subtracted once, in what a column starts at. Rounding must be to nearest: NearestRounding sees to it.
// Bounds, |a b| < 2^102: limbs are "balanced", at most 2^50, after every product; sums of a few such serve as operands.
#pragma once

#include <immintrin.h>

#include "field/constants51.hpp"
#include "field/plants.hpp"

#define WHET_UNROLL _Pragma("GCC unroll 10")
#define WHET_INLINE inline __attribute__((always_inline))

namespace whet {

namespace {

using Real = __m256d;
using Word = __m256i;
struct Four {
    Real limb[5];
};
struct alignas(64) Lanes {
    Four half[2];
};
using LaneMask = std::uint8_t;

WHET_INLINE Real all_lanes(const RealFour& c) { return _mm256_load_pd(c.lane); }
WHET_INLINE Word all_lanes(const WordFour& c) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(c.lane)); }
WHET_INLINE Four all_lanes(const RealLimbs& c) {
    Four r;
    WHET_UNROLL for (std::size_t i = 0; i < 5; ++i) r.limb[i] = all_lanes(c[i]);
    return r;
}
WHET_INLINE Lanes both_halves(const RealLimbs& c) { return {{all_lanes(c), all_lanes(c)}}; }

WHET_INLINE Four plus(const Four& a, const Four& b) {
    Four r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = _mm256_add_pd(a.limb[i], b.limb[i]);
    return r;
}
WHET_INLINE Four minus(const Four& a, const Four& b) {
    Four r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = _mm256_sub_pd(a.limb[i], b.limb[i]);
    return r;
}
WHET_INLINE Lanes plus(const Lanes& a, const Lanes& b) {
    return {{plus(a.half[0], b.half[0]), plus(a.half[1], b.half[1])}};
}
WHET_INLINE Lanes minus(const Lanes& a, const Lanes& b) {
    return {{minus(a.half[0], b.half[0]), minus(a.half[1], b.half[1])}};
}
WHET_INLINE Lanes choose(LaneMask mask, const Lanes& if_set, const Lanes& if_clear) {
    Lanes r;
    WHET_UNROLL for (int h = 0; h < 2; ++h) {
        const Real wanted = _mm256_castsi256_pd(all_lanes(constants51.lane_masks[mask >> (4 * h) & 15]));
        WHET_UNROLL for (int i = 0; i < 5; ++i) r.half[h].limb[i] =
            _mm256_blendv_pd(if_clear.half[h].limb[i], if_set.half[h].limb[i], wanted);
    }
    return r;
}

// Limbs to at most 2^50 in absolute value. They are below 2^53, so that every step is exact.
WHET_INLINE Four balanced(Four a) {
    const Real magic = all_lanes(constants51.high), down = all_lanes(constants51.carry_down);
    WHET_UNROLL for (int i = 0; i < 4; ++i) {
        const Real carry = _mm256_sub_pd(_mm256_add_pd(a.limb[i], magic), magic);
        a.limb[i] = _mm256_sub_pd(a.limb[i], carry);
        if (!WHET_FIELD_PLANT(carry_dropped)) a.limb[i + 1] = _mm256_fmadd_pd(carry, down, a.limb[i + 1]);
    }
    return a;
}
// The value less its nearest multiple of p, as far as the last limb tells: at most (1/2 + 2^-40) p, balanced.
WHET_INLINE Four nearest_zero(Four a) {
    const Real magic = all_lanes(constants51.low);
    Real times = _mm256_sub_pd(_mm256_fmadd_pd(a.limb[4], all_lanes(constants51.over_p), magic), magic);
    if (WHET_FIELD_PLANT(reduction_missing)) times = _mm256_setzero_pd();
    WHET_UNROLL for (std::size_t i = 0; i < 5; ++i) a.limb[i] =
        _mm256_fnmadd_pd(times, all_lanes(constants51.p[i]), a.limb[i]);
    return balanced(a);
}
WHET_INLINE Lanes nearest_zero(const Lanes& a) { return {{nearest_zero(a.half[0]), nearest_zero(a.half[1])}}; }

struct Columns {
    Word t[10];
};
WHET_INLINE Word plus_bits(Word a, Real b) { return _mm256_add_epi64(a, _mm256_castpd_si256(b)); }
// Two fma, one subtraction, two additions of bit patterns. In assembly because both compilers keep the halves in memory
// and add them up later: 0.94 of the time with gcc, 0.6 with clang. `b` lies in memory, four lanes of it.
template <class Memory>
WHET_INLINE void add_product(Word& low, Word& high, Real a, const Memory& b) {
    static_assert(sizeof b == sizeof a);
    Real h, l;
    asm("vmovapd %[b], %[h]\n\t"
        "vfmadd213pd %[high_magic], %[a], %[h]\n\t"
        "vsubpd %[both_magic], %[h], %[l]\n\t"
        "vfmsub231pd %[b], %[a], %[l]\n\t"
        "vpaddq %[h], %[high], %[high]\n\t"
        "vpaddq %[l], %[low], %[low]"
        : [h] "=&x"(h), [l] "=&x"(l), [high] "+x"(high), [low] "+x"(low)
        : [a] "x"(a), [b] "m"(b), [high_magic] "m"(constants51.high), [both_magic] "m"(constants51.both));
}
WHET_INLINE Real balanced_low(Word column) {
    const Word bits = _mm256_and_si256(column, all_lanes(constants51.mask));
    return _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(bits), all_lanes(constants51.unit)),
                         all_lanes(constants51.balance));
}
WHET_INLINE void carry_up(Columns& c, std::size_t from) {
    c.t[from + 1] = _mm256_add_epi64(c.t[from + 1], _mm256_srli_epi64(c.t[from], 51));
}
template <std::size_t i>
WHET_INLINE void product_row(Columns& c, const Four& a, const Four& b) {
    if constexpr (i == 0) {
        WHET_UNROLL for (std::size_t k = 0; k < 5; ++k) c.t[k] = all_lanes(constants51.column[k]);
    }
    c.t[i + 5] = all_lanes(constants51.column[i + 5]);
    WHET_UNROLL for (std::size_t j = 0; j < 5; ++j) add_product(c.t[i + j], c.t[i + j + 1], a.limb[i], b.limb[j]);
}
// m p_0 and the column add up to a multiple of 2^51, so one fma has them without rounding.
template <std::size_t i>
WHET_INLINE void reduction_row(Columns& c) {
    const Real t = balanced_low(c.t[i]);
    const Real k = all_lanes(constants51.negated_inverse), magic = all_lanes(constants51.high);
    const Real h = _mm256_fmadd_pd(t, k, magic);
    const Real m = _mm256_fmadd_pd(t, k, _mm256_sub_pd(magic, h));
    carry_up(c, i);
    const Real cleared = _mm256_fmadd_pd(m, all_lanes(constants51.p[0]), t);
    c.t[i + 1] =
        plus_bits(c.t[i + 1], _mm256_fmadd_pd(cleared, all_lanes(constants51.carry_down), all_lanes(constants51.low)));
    WHET_UNROLL for (std::size_t j = 1; j < 5; ++j) add_product(c.t[i + j], c.t[i + j + 1], m, constants51.p[j]);
}
WHET_INLINE Four finish(Columns& c) {
    Four r;
    WHET_UNROLL for (std::size_t i = 0; i < 4; ++i) {
        r.limb[i] = balanced_low(c.t[5 + i]);
        carry_up(c, 5 + i);
    }
    r.limb[4] = _mm256_sub_pd(_mm256_castsi256_pd(c.t[9]), all_lanes(constants51.low));
    return r;
}
template <std::size_t i>
WHET_INLINE void reduce_both(Columns& c, Columns& d) {
    reduction_row<i>(c);
    reduction_row<i>(d);
}
template <std::size_t i>
WHET_INLINE void row_of_both(Columns& c, Columns& d, const Lanes& a, const Lanes& b) {
    product_row<i>(c, a.half[0], b.half[0]);
    product_row<i>(d, a.half[1], b.half[1]);
    reduce_both<i>(c, d);
}
// a b / R with |a b| / R + p / 2 as its bound: about 550 vector operations. Out of line, once: it is 8 KB of code. The
// two halves take turns because each of the five rows waits 28 cycles for its reduction factor.
__attribute__((noinline)) void multiply(Lanes& out, const Lanes& a, const Lanes& b) {
    Columns c, d;
    row_of_both<0>(c, d, a, b);
    row_of_both<1>(c, d, a, b);
    row_of_both<2>(c, d, a, b);
    row_of_both<3>(c, d, a, b);
    row_of_both<4>(c, d, a, b);
    out.half[0] = finish(c);
    out.half[1] = finish(d);
}
template <std::size_t i>
WHET_INLINE void square_row(Columns& c, const Four& a) {
    if constexpr (i == 0) {
        WHET_UNROLL for (std::size_t k = 0; k < 5; ++k) c.t[k] = all_lanes(constants51.square_column[k]);
    }
    c.t[i + 5] = all_lanes(constants51.square_column[i + 5]);
    add_product(c.t[2 * i], c.t[2 * i + 1], a.limb[i], a.limb[i]);
    const Real twice = _mm256_add_pd(a.limb[i], a.limb[i]);
    WHET_UNROLL for (std::size_t j = i + 1; j < 5; ++j) add_product(c.t[i + j], c.t[i + j + 1], twice, a.limb[j]);
}
template <std::size_t i>
WHET_INLINE void square_row_of_both(Columns& c, Columns& d, const Lanes& a) {
    square_row<i>(c, a.half[0]);
    square_row<i>(d, a.half[1]);
    reduce_both<i>(c, d);
}
// a a / R for balanced limbs: 15 instead of 25 products of limbs.
__attribute__((noinline)) void square(Lanes& out, const Lanes& a) {
    Columns c, d;
    square_row_of_both<0>(c, d, a);
    square_row_of_both<1>(c, d, a);
    square_row_of_both<2>(c, d, a);
    square_row_of_both<3>(c, d, a);
    square_row_of_both<4>(c, d, a);
    out.half[0] = finish(c);
    out.half[1] = finish(d);
}
inline Lanes product(const Lanes& a, const Lanes& b) {
    Lanes r;
    multiply(r, a, b);
    return r;
}

// Four 32-byte numbers, one per lane, to limbs below 2^51.
WHET_INLINE Four gather(const std::byte* a, const std::byte* b, const std::byte* c, const std::byte* d) {
    const auto load = [](const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); };
    const Word wa = load(a), wb = load(b), wc = load(c), wd = load(d);
    const Word ab_even = _mm256_unpacklo_epi64(wa, wb), ab_odd = _mm256_unpackhi_epi64(wa, wb);
    const Word cd_even = _mm256_unpacklo_epi64(wc, wd), cd_odd = _mm256_unpackhi_epi64(wc, wd);
    const Word w0 = _mm256_permute2x128_si256(ab_even, cd_even, 0x20);
    const Word w1 = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x20);
    const Word w2 = _mm256_permute2x128_si256(ab_even, cd_even, 0x31);
    const Word w3 = _mm256_permute2x128_si256(ab_odd, cd_odd, 0x31);
    const auto joined = [](Word low, int right, Word high) {
        return _mm256_or_si256(_mm256_srli_epi64(low, right), _mm256_slli_epi64(high, 64 - right));
    };
    const Word mask = all_lanes(constants51.mask);
    const auto real = [](Word whole) {
        const Real unit = all_lanes(constants51.unit);
        return _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(whole), unit), unit);
    };
    return {{real(_mm256_and_si256(w0, mask)), real(_mm256_and_si256(joined(w0, 51, w1), mask)),
             real(_mm256_and_si256(joined(w1, 38, w2), mask)), real(_mm256_and_si256(joined(w2, 25, w3), mask)),
             real(_mm256_srli_epi64(w3, 12))}};
}

// Limbs to [0, 2^51) but for the last, which keeps the sign. There is no arithmetic shift: a bias makes all positive.
WHET_INLINE void carry_words(Word (&x)[5]) {
    const Word bias = all_lanes(constants51.carry_bias), back = all_lanes(constants51.carry_back);
    WHET_UNROLL for (int i = 0; i < 4; ++i) {
        const Word up = _mm256_add_epi64(x[i], bias);
        x[i] = _mm256_and_si256(up, all_lanes(constants51.mask));
        x[i + 1] = _mm256_add_epi64(x[i + 1], _mm256_sub_epi64(_mm256_srli_epi64(up, 51), back));
    }
}
// Four canonical numbers of 32 bytes, lane after lane, from a value between -p and p.
WHET_INLINE void canonical(const Four& a, Word (&out)[4]) {
    const Real magic = all_lanes(constants51.low);
    Word x[5], y[5];
    WHET_UNROLL for (std::size_t i = 0; i < 5; ++i) {
        x[i] = _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(a.limb[i], magic)), all_lanes(constants51.low_bits));
        y[i] = _mm256_add_epi64(x[i], all_lanes(constants51.p_words[i]));
    }
    carry_words(x);
    carry_words(y);
    const Real negative = _mm256_castsi256_pd(x[4]);
    WHET_UNROLL for (int i = 0; i < 5; ++i) x[i] =
        _mm256_castpd_si256(_mm256_blendv_pd(_mm256_castsi256_pd(x[i]), _mm256_castsi256_pd(y[i]), negative));
    const auto joined = [](Word low, int right, Word high, int left) {
        return _mm256_or_si256(_mm256_srli_epi64(low, right), _mm256_slli_epi64(high, left));
    };
    const Word w0 = joined(x[0], 0, x[1], 51), w1 = joined(x[1], 13, x[2], 38);
    const Word w2 = joined(x[2], 26, x[3], 25), w3 = joined(x[3], 39, x[4], 12);
    const Word even_low = _mm256_unpacklo_epi64(w0, w1), odd_low = _mm256_unpackhi_epi64(w0, w1);
    const Word even_high = _mm256_unpacklo_epi64(w2, w3), odd_high = _mm256_unpackhi_epi64(w2, w3);
    out[0] = _mm256_permute2x128_si256(even_low, even_high, 0x20);
    out[1] = _mm256_permute2x128_si256(odd_low, odd_high, 0x20);
    out[2] = _mm256_permute2x128_si256(even_low, even_high, 0x31);
    out[3] = _mm256_permute2x128_si256(odd_low, odd_high, 0x31);
}

// Of balanced limbs. Zero and p have no second form: none of their limbs is 2^50 in absolute value.
WHET_INLINE LaneMask equals(const Lanes& a, const RealLimbs& constant) {
    LaneMask same = 0;
    WHET_UNROLL for (int h = 0; h < 2; ++h) {
        Real all = _mm256_cmp_pd(a.half[h].limb[0], all_lanes(constant[0]), _CMP_EQ_OQ);
        WHET_UNROLL for (std::size_t i = 1; i < 5; ++i) all =
            _mm256_and_pd(all, _mm256_cmp_pd(a.half[h].limb[i], all_lanes(constant[i]), _CMP_EQ_OQ));
        same = static_cast<LaneMask>(same | _mm256_movemask_pd(all) << (4 * h));
    }
    return same;
}

// The canonical value of one lane; in absolute value it is below 2 p.
inline Limbs<4> lane_value(const Lanes& a, std::size_t lane) {
    const Limbs51 p = split51(Fp::modulus);
    u64 limb[5];
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < 5; ++i) {
        alignas(32) double column[4];
        _mm256_store_pd(column, a.half[lane / 4].limb[i]);
        const std::int64_t sum =
            static_cast<std::int64_t>(column[lane % 4]) + 2 * static_cast<std::int64_t>(p[i]) + carry;
        limb[i] = static_cast<u64>(sum) & mask51;
        carry = sum >> 51;
    }
    limb[4] |= static_cast<u64>(carry) << 51;
    return reduced51({limb[0] | limb[1] << 51, limb[1] >> 13 | limb[2] << 38, limb[2] >> 26 | limb[3] << 25,
                      limb[3] >> 39 | limb[4] << 12});
}

// The caller's rounding and treatment of small numbers, put aside while the lanes are at work.
class NearestRounding {
  public:
    NearestRounding() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
    ~NearestRounding() { _mm_setcsr(before_); }
    NearestRounding(const NearestRounding&) = delete;
    NearestRounding& operator=(const NearestRounding&) = delete;

  private:
    unsigned before_;
};

}  // namespace

}  // namespace whet
