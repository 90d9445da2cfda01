// Eight field elements side by side in 5 x 52-bit limbs for AVX-512 IFMA, R = 2^260.
//
// Lazy on purpose. R > 84 p, so a product of operands below 9 p is below 2 p and needs no subtraction. vpmadd52 reads
// the low 52 bits of a limb only, so a limb whose excess has been carried on need not be masked while it serves as an
// operand of a product ("carried"); sums and stores want it masked ("tidy"). Bounds are stated where values are made.
#pragma once

#include <immintrin.h>

#include "field/constants52.hpp"

#define WHET_UNROLL _Pragma("GCC unroll 10")
#define WHET_INLINE inline __attribute__((always_inline))

namespace whet {

using Word = __m512i;
struct Lanes {
    Word limb[5];
};
using LaneMask = __mmask8;

WHET_INLINE Word all_lanes(const u64& memory) { return _mm512_set1_epi64(static_cast<long long>(memory)); }
WHET_INLINE Word add_low(Word sum, Word a, Word b) { return _mm512_madd52lo_epu64(sum, a, b); }
WHET_INLINE Word add_high(Word sum, Word a, Word b) { return _mm512_madd52hi_epu64(sum, a, b); }
WHET_INLINE Word operator_add(Word a, Word b) { return _mm512_add_epi64(a, b); }
WHET_INLINE Word operator_sub(Word a, Word b) { return _mm512_sub_epi64(a, b); }

WHET_INLINE Lanes all_lanes(const Limbs52& memory) {
    Lanes r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = all_lanes(memory[static_cast<std::size_t>(i)]);
    return r;
}

// Limb by limb; the result is neither carried nor tidy.
WHET_INLINE Lanes plus(const Lanes& a, const Lanes& b) {
    Lanes r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = operator_add(a.limb[i], b.limb[i]);
    return r;
}
WHET_INLINE Lanes minus(const Lanes& a, const Lanes& b) {
    Lanes r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = operator_sub(a.limb[i], b.limb[i]);
    return r;
}
WHET_INLINE Lanes choose(LaneMask mask, const Lanes& if_set, const Lanes& if_clear) {
    Lanes r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = _mm512_mask_blend_epi64(mask, if_clear.limb[i], if_set.limb[i]);
    return r;
}

// The value must not be negative; single limbs may be.
WHET_INLINE Lanes carried(Lanes a) {
    WHET_UNROLL for (int i = 0; i < 4; ++i) a.limb[i + 1] =
        operator_add(a.limb[i + 1], _mm512_srai_epi64(a.limb[i], 52));
    return a;
}
WHET_INLINE Lanes masked(Lanes a) {
    const Word mask = all_lanes(constants52.mask);
    WHET_UNROLL for (int i = 0; i < 4; ++i) a.limb[i] = _mm512_and_si512(a.limb[i], mask);
    return a;
}
WHET_INLINE Lanes tidy(const Lanes& a) { return masked(carried(a)); }

// a b / R + offset, not carried: 100 multiply-adds, 10 other vector operations. a, b carried; the product below 81 p^2.
// Row i adds a_i b, then the multiple of p that clears limb i. The low half of m p_0 is never computed: the column
// starts at 2^52 - 1, so its carry is right without it, and m = (t + 1) / -p folds the correction into one
// multiply-add.
struct Columns {
    Word t[10];
};
WHET_INLINE void start(Columns& c, const Lanes* offset) {
    const Word low_start = all_lanes(constants52.mask);
    WHET_UNROLL for (int i = 0; i < 5; ++i) {
        c.t[i] = low_start;
        c.t[i + 5] = offset ? offset->limb[i] : _mm512_setzero_si512();
    }
}
template <int i>
WHET_INLINE void product_row_low(Columns& c, const Lanes& a, const Lanes& b) {
    WHET_UNROLL for (int j = 0; j < 5; ++j) c.t[i + j] = add_low(c.t[i + j], a.limb[i], b.limb[j]);
}
template <int i>
WHET_INLINE void product_row_high(Columns& c, const Lanes& a, const Lanes& b) {
    WHET_UNROLL for (int j = 0; j < 5; ++j) c.t[i + j + 1] = add_high(c.t[i + j + 1], a.limb[i], b.limb[j]);
}
template <int i>
WHET_INLINE void reduction_row(Columns& c, Word m) {
    c.t[i + 1] = operator_add(c.t[i + 1], _mm512_srli_epi64(c.t[i], 52));
    WHET_UNROLL for (int j = 1; j < 5; ++j) c.t[i + j] =
        add_low(c.t[i + j], m, all_lanes(constants52.p[1][static_cast<std::size_t>(j)]));
    WHET_UNROLL for (int j = 0; j < 5; ++j) c.t[i + j + 1] =
        add_high(c.t[i + j + 1], m, all_lanes(constants52.p[1][static_cast<std::size_t>(j)]));
}
WHET_INLINE Word reduction_factor(Word column) {
    const Word k = all_lanes(constants52.negated_inverse);
    return add_low(k, column, k);
}
template <int i>
WHET_INLINE void row(Columns& c, const Lanes& a, const Lanes& b) {
    product_row_low<i>(c, a, b);
    const Word m = reduction_factor(c.t[i]);
    product_row_high<i>(c, a, b);
    reduction_row<i>(c, m);
}
WHET_INLINE Lanes finish(const Columns& c) {
    Lanes r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = c.t[i + 5];
    return r;
}
WHET_INLINE Lanes product_columns(const Lanes& a, const Lanes& b, const Lanes* offset = nullptr) {
    Columns c;
    start(c, offset);
    row<0>(c, a, b);
    row<1>(c, a, b);
    row<2>(c, a, b);
    row<3>(c, a, b);
    row<4>(c, a, b);
    return finish(c);
}
WHET_INLINE Lanes product(const Lanes& a, const Lanes& b) { return carried(product_columns(a, b)); }

// Two independent products, rows interleaved: one alone waits for its reduction factors (118 cycles of latency against
// 59 of throughput on two IFMA ports).
template <int i>
WHET_INLINE void row_pair(Columns& c, const Lanes& a, const Lanes& b, Columns& d, const Lanes& e, const Lanes& f) {
    product_row_low<i>(c, a, b);
    const Word m = reduction_factor(c.t[i]);
    product_row_low<i>(d, e, f);
    const Word n = reduction_factor(d.t[i]);
    product_row_high<i>(c, a, b);
    product_row_high<i>(d, e, f);
    reduction_row<i>(c, m);
    reduction_row<i>(d, n);
}
WHET_INLINE void product_columns_pair(Lanes& r, const Lanes& a, const Lanes& b, const Lanes* r_offset, Lanes& s,
                                      const Lanes& e, const Lanes& f, const Lanes* s_offset) {
    Columns c, d;
    start(c, r_offset);
    start(d, s_offset);
    row_pair<0>(c, a, b, d, e, f);
    row_pair<1>(c, a, b, d, e, f);
    row_pair<2>(c, a, b, d, e, f);
    row_pair<3>(c, a, b, d, e, f);
    row_pair<4>(c, a, b, d, e, f);
    r = finish(c);
    s = finish(d);
}
WHET_INLINE void product_pair(Lanes& r, const Lanes& a, const Lanes& b, Lanes& s, const Lanes& e, const Lanes& f) {
    product_columns_pair(r, a, b, nullptr, s, e, f, nullptr);
    r = carried(r);
    s = carried(s);
}

// Four 64-bit words, least significant first, to tidy limbs and back. Values below 2^256.
WHET_INLINE Lanes from_words(const Word w[4]) {
    const Word mask = all_lanes(constants52.mask);
    Lanes r;
    r.limb[0] = _mm512_and_si512(w[0], mask);
    r.limb[1] = _mm512_and_si512(_mm512_shrdi_epi64(w[0], w[1], 52), mask);
    r.limb[2] = _mm512_and_si512(_mm512_shrdi_epi64(w[1], w[2], 40), mask);
    r.limb[3] = _mm512_and_si512(_mm512_shrdi_epi64(w[2], w[3], 28), mask);
    r.limb[4] = _mm512_srli_epi64(w[3], 16);
    return r;
}
WHET_INLINE void to_words(const Lanes& a, Word w[4]) {
    w[0] = _mm512_or_si512(a.limb[0], _mm512_slli_epi64(a.limb[1], 52));
    w[1] = _mm512_or_si512(_mm512_srli_epi64(a.limb[1], 12), _mm512_slli_epi64(a.limb[2], 40));
    w[2] = _mm512_or_si512(_mm512_srli_epi64(a.limb[2], 24), _mm512_slli_epi64(a.limb[3], 28));
    w[3] = _mm512_or_si512(_mm512_srli_epi64(a.limb[3], 36), _mm512_slli_epi64(a.limb[4], 16));
}

// Subtracts `bound` where the tidy value reaches it: exact.
WHET_INLINE Lanes reduced_once(const Lanes& a, const Limbs52& bound) {
    Lanes difference = carried(minus(a, all_lanes(bound)));
    const LaneMask negative = _mm512_movepi64_mask(difference.limb[4]);
    return choose(negative, a, masked(difference));
}
// From a tidy value below 4 p.
WHET_INLINE Lanes canonical(const Lanes& a) {
    return reduced_once(reduced_once(a, constants52.p[2]), constants52.p[1]);
}
WHET_INLINE LaneMask equals(const Lanes& tidy_value, const Limbs52& constant) {
    LaneMask same = 0xff;
    WHET_UNROLL for (int i = 0; i < 5; ++i) same =
        _mm512_mask_cmpeq_epi64_mask(same, tidy_value.limb[i], all_lanes(constant[static_cast<std::size_t>(i)]));
    return same;
}

// Eight 32-byte field elements, one per lane, to four words of eight lanes: 4 inserts, 8 shuffles.
WHET_INLINE Lanes gather(const std::byte* const at[8]) {
    const auto half = [&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at[i])); };
    const auto both = [&](int i, int j) { return _mm512_inserti64x4(_mm512_castsi256_si512(half(i)), half(j), 1); };
    const Word a = both(0, 2), b = both(1, 3), c = both(4, 6), d = both(5, 7);
    const Word ab_even = _mm512_unpacklo_epi64(a, b), ab_odd = _mm512_unpackhi_epi64(a, b);
    const Word cd_even = _mm512_unpacklo_epi64(c, d), cd_odd = _mm512_unpackhi_epi64(c, d);
    const Word words[4] = {_mm512_shuffle_i64x2(ab_even, cd_even, 0x88), _mm512_shuffle_i64x2(ab_odd, cd_odd, 0x88),
                           _mm512_shuffle_i64x2(ab_even, cd_even, 0xdd), _mm512_shuffle_i64x2(ab_odd, cd_odd, 0xdd)};
    return from_words(words);
}
WHET_INLINE void scatter(const Lanes& tidy_value, std::byte* const at[8], LaneMask mask) {
    alignas(64) u64 rows[4][8];
    Word words[4];
    to_words(tidy_value, words);
    for (int i = 0; i < 4; ++i) _mm512_store_si512(rows[i], words[i]);
    for (int lane = 0; lane < 8; ++lane) {
        if (!(mask >> lane & 1)) continue;
        u64* out = reinterpret_cast<u64*>(at[lane]);
        for (int i = 0; i < 4; ++i) out[i] = rows[i][lane];
    }
}

// Points x, y of eight lanes to 64 bytes each where the mask is set: a transpose of 8 x 8 words, 24 shuffles.
WHET_INLINE void scatter_points(const Lanes& tidy_x, const Lanes& tidy_y, std::byte* const at[8], LaneMask mask) {
    Word w[8], row[8];
    to_words(tidy_x, w);
    to_words(tidy_y, w + 4);
    const auto quarter = [&](Word a, Word b, Word c, Word d, int lane) {  // rows lane, lane + 2, lane + 4, lane + 6
        const Word ab_low = _mm512_shuffle_i64x2(a, b, 0x44), ab_high = _mm512_shuffle_i64x2(a, b, 0xee);
        const Word cd_low = _mm512_shuffle_i64x2(c, d, 0x44), cd_high = _mm512_shuffle_i64x2(c, d, 0xee);
        row[lane] = _mm512_shuffle_i64x2(ab_low, cd_low, 0x88);
        row[lane + 2] = _mm512_shuffle_i64x2(ab_low, cd_low, 0xdd);
        row[lane + 4] = _mm512_shuffle_i64x2(ab_high, cd_high, 0x88);
        row[lane + 6] = _mm512_shuffle_i64x2(ab_high, cd_high, 0xdd);
    };
    quarter(_mm512_unpacklo_epi64(w[0], w[1]), _mm512_unpacklo_epi64(w[2], w[3]), _mm512_unpacklo_epi64(w[4], w[5]),
            _mm512_unpacklo_epi64(w[6], w[7]), 0);
    quarter(_mm512_unpackhi_epi64(w[0], w[1]), _mm512_unpackhi_epi64(w[2], w[3]), _mm512_unpackhi_epi64(w[4], w[5]),
            _mm512_unpackhi_epi64(w[6], w[7]), 1);
    WHET_UNROLL for (int lane = 0; lane < 8; ++lane) {
        if (mask >> lane & 1) _mm512_storeu_si512(at[lane], row[lane]);
    }
}

}  // namespace whet
