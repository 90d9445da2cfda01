// What batches of affine additions share, eight lanes at a time: products of all denominators, one inversion for them,
// and the lazy bounds of their sums. In a header, and unnamed, because it is code of the files that have the flags.
#pragma once

#include "field/lanes52.hpp"
#include "field/plants.hpp"

namespace whet::msm {

namespace {

// Subtracts k p where the top limb, not yet carried, passes a limit that lies half-way between k p and the bound of the
// result. Carries still to come move the top limb by 2^6 of its 2^46: far less than that margin.
WHET_INLINE Lanes below_limit(Lanes a, const u64& limit, const Limbs52& multiple) {
    LaneMask over = _mm512_cmpgt_epi64_mask(a.limb[4], all_lanes(limit));
    if (WHET_FIELD_PLANT(reduction_missing)) over = 0;
    WHET_UNROLL for (int i = 0; i < 5; ++i) a.limb[i] =
        _mm512_mask_sub_epi64(a.limb[i], over, a.limb[i], all_lanes(multiple[static_cast<std::size_t>(i)]));
    return tidy(a);
}

// Two products at a time, out of line. With all five of an addition inlined the backward loop was 12.9 KB, too large
// for the cache of decoded instructions, and ran exactly as fast as 16 bytes a cycle can be decoded.
[[maybe_unused]] __attribute__((noinline)) void multiply_pair(Lanes& ab, const Lanes& a, const Lanes& b, Lanes& cd,
                                                              const Lanes& c, const Lanes& d) {
    product_pair(ab, a, b, cd, c, d);
}

// Four chains of products: group g belongs to chain g % 4. Two chains advance side by side, and the next two do not
// wait for them, so the latency of a product is hidden.
struct Products {
    Lanes chain[4];
    static Products ones() {
        const Lanes one = all_lanes(constants52.one);
        return {{one, one, one, one}};
    }
    Lanes* pair_of(std::size_t even_group) { return chain + even_group % 4; }
};

WHET_INLINE Lanes rotate_lanes(const Lanes& a, int by) {
    const Word index = _mm512_and_si512(
        _mm512_add_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(by)), _mm512_set1_epi64(7));
    Lanes r;
    WHET_UNROLL for (int i = 0; i < 5; ++i) r.limb[i] = _mm512_permutexvar_epi64(index, a.limb[i]);
    return r;
}

// The inverses of all chains' products with one modular inversion: products over 8 lanes and 4 chains by a butterfly.
inline Products invert(const Products& run) {
    const Lanes even = product(run.chain[0], run.chain[1]), odd = product(run.chain[2], run.chain[3]);
    const Lanes both = product(even, odd);
    const Lanes pairs = product(both, rotate_lanes(both, 4));
    const Lanes quads = product(pairs, rotate_lanes(pairs, 2));
    const Lanes all = product(quads, rotate_lanes(quads, 1));
    alignas(64) u64 words[4][8];
    Word w[4];
    to_words(canonical(masked(all)), w);
    for (int i = 0; i < 4; ++i) _mm512_store_si512(words[i], w[i]);
    const Limbs<4> value = {words[0][0], words[1][0], words[2][0], words[3][0]};
    const Limbs<4> inverse = is_zero(value) ? value : inverse_vartime(value, Fp::modulus);
    // (a R)^-1 times R^3 over R is a^-1 R.
    const Lanes one_over_all = product(all_lanes(split52(inverse)), all_lanes(constants52.r_cubed));
    const Lanes over_quads = product(one_over_all, rotate_lanes(quads, 1));
    const Lanes over_pairs = product(over_quads, rotate_lanes(pairs, 2));
    const Lanes over_both = product(over_pairs, rotate_lanes(both, 4));
    const Lanes over_even = product(over_both, odd), over_odd = product(over_both, even);
    return {{product(over_even, run.chain[1]), product(over_even, run.chain[0]), product(over_odd, run.chain[3]),
             product(over_odd, run.chain[2])}};
}

inline LaneMask is_multiple_of_p(const Lanes& tidy_value) {  // of a value below 5 p
    LaneMask zero = 0;
    for (int k = 0; k < (WHET_FIELD_PLANT(lazy_zero_missed) ? 1 : 5); ++k) zero |= equals(tidy_value, constants52.p[k]);
    return zero;
}

inline bool has_zero(const Products& run) {
    const auto zero = [](const Lanes& a) {  // of a value below 2 p
        const Lanes value = masked(a);
        return equals(value, constants52.p[0]) | equals(value, constants52.p[1]);
    };
    return (zero(run.chain[0]) | zero(run.chain[1]) | zero(run.chain[2]) | zero(run.chain[3])) != 0;
}

}  // namespace

}  // namespace whet::msm
