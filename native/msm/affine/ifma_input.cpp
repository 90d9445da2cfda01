// What surrounds the sums, eight at a time with AVX-512 IFMA: points into the prepared table, scalars into digits.
// Against the scalar code it replaces 64-bit carry chains by lanes; a scalar then costs about 20 cycles instead of 150.
#include "msm/affine/ifma_input.hpp"

#include <algorithm>

#include "curve/glv.hpp"
#include "field/lanes52.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

// Numbers of the GLV split in 52-bit limbs. quotient_* are floor(x 2^260 / r): the error they leave in a rounded
// quotient is below 2^-5, so both halves stay below (1/2 + 1/32) (long_a + small), which is glv_half_bound.
struct SplitConstants {
    u64 long_a[3], long_b[3], small[2];
    u64 quotient_b[3], quotient_small[2];
    u64 half;  // 2^51
    Limbs52 r[5];
};

constexpr u64 limb52(u128 value, unsigned index) { return static_cast<u64>(value >> (52 * index)) & mask52; }

constexpr Limbs<4> shifted_quotient260(u128 numerator) {  // floor(numerator 2^260 / r)
    Limbs<4> quotient{}, remainder{};
    for (unsigned i = 128 + 260; i-- > 0;) {
        const Limbs<4> copy = remainder;
        add_to(remainder, copy);
        if (i >= 260) remainder[0] |= static_cast<u64>(numerator >> (i - 260)) & 1;
        const Limbs<4> twice = quotient;
        add_to(quotient, twice);
        if (!less_than(remainder, Fr::modulus)) {
            subtract_from(remainder, Fr::modulus);
            quotient[0] |= 1;
        }
    }
    return quotient;
}

constexpr Limbs52 order_times(u64 factor) {
    Limbs<4> product{};
    for (u64 i = 0; i < factor; ++i) add_to(product, Fr::modulus);
    return split52(product);
}

constexpr Limbs52 quotient_b52 = split52(shifted_quotient260(glv::long_b));
constexpr Limbs52 quotient_small52 = split52(shifted_quotient260(glv::small));

}  // namespace

// Not in the unnamed namespace and not const: see constants52.hpp.
SplitConstants split_constants = {
    {limb52(glv::long_a, 0), limb52(glv::long_a, 1), limb52(glv::long_a, 2)},
    {limb52(glv::long_b, 0), limb52(glv::long_b, 1), limb52(glv::long_b, 2)},
    {limb52(glv::small, 0), limb52(glv::small, 1)},
    {quotient_b52[0], quotient_b52[1], quotient_b52[2]},
    {quotient_small52[0], quotient_small52[1]},
    u64{1} << 51,
    {order_times(0), order_times(1), order_times(2), order_times(0), order_times(4)},
};

namespace {

struct Lanes3 {  // modulo 2^156
    Word limb[3];
};

template <std::size_t N>
WHET_INLINE void accumulate_rounded(Word (&column)[4], const Lanes& k, const u64 (&quotient)[N]) {
    WHET_UNROLL for (std::size_t i = 0; i < 5; ++i) {
        WHET_UNROLL for (std::size_t j = 0; j < N; ++j) {
            if (i + j >= 4) column[i + j - 4] = add_low(column[i + j - 4], k.limb[i], all_lanes(quotient[j]));
            if (i + j >= 3) column[i + j - 3] = add_high(column[i + j - 3], k.limb[i], all_lanes(quotient[j]));
        }
    }
}

// round(k quotient / 2^260): the columns below the fourth are left out, which moves it by less than 2^-40.
template <std::size_t N>
WHET_INLINE Lanes3 rounded(const Lanes& k, const u64 (&quotient)[N]) {
    Word column[4] = {all_lanes(split_constants.half), _mm512_setzero_si512(), _mm512_setzero_si512(),
                      _mm512_setzero_si512()};
    accumulate_rounded(column, k, quotient);
    WHET_UNROLL for (int i = 0; i < 3; ++i) column[i + 1] =
        operator_add(column[i + 1], _mm512_srli_epi64(column[i], 52));
    return {{column[1], column[2], column[3]}};
}

template <std::size_t N>
WHET_INLINE void add_product(Lanes3& sum, const Lanes3& a, std::size_t limbs_of_a, const u64 (&b)[N]) {
    WHET_UNROLL for (std::size_t i = 0; i < limbs_of_a; ++i) {
        WHET_UNROLL for (std::size_t j = 0; j < N; ++j) {
            if (i + j < 3) sum.limb[i + j] = add_low(sum.limb[i + j], a.limb[i], all_lanes(b[j]));
            if (i + j < 2) sum.limb[i + j + 1] = add_high(sum.limb[i + j + 1], a.limb[i], all_lanes(b[j]));
        }
    }
}

struct Words2 {
    Word low, high;
};

// Adds the bias that makes every digit non-negative, and packs to two 64-bit words.
WHET_INLINE Words2 biased(const Lanes3& k, const Words2& bias) {
    Word limb[3] = {k.limb[0], k.limb[1], k.limb[2]};
    const Word mask = all_lanes(constants52.mask);
    limb[1] = operator_add(limb[1], _mm512_srai_epi64(limb[0], 52));
    limb[2] = operator_add(limb[2], _mm512_srai_epi64(limb[1], 52));
    limb[0] = _mm512_and_si512(limb[0], mask);
    limb[1] = _mm512_and_si512(limb[1], mask);
    const Word low = _mm512_or_si512(limb[0], _mm512_slli_epi64(limb[1], 52));
    const Word high = operator_add(_mm512_srli_epi64(limb[1], 12), _mm512_slli_epi64(limb[2], 40));
    Words2 sum = {operator_add(low, bias.low), operator_add(high, bias.high)};
    const __mmask8 carry = _mm512_cmplt_epu64_mask(sum.low, low);
    sum.high = _mm512_mask_sub_epi64(sum.high, carry, sum.high, _mm512_set1_epi64(-1));
    return sum;
}

void cut(const Words2& k, const Digits& digits, std::int16_t* out) {
    unsigned position = 0;
    for (unsigned b = 0; b < digits.blocks; ++b, out += digits.block) {
        const long long wrong_carry = WHET_PLANT(block_carry_wrong) && b > 0 ? 1 : 0;
        for (unsigned w = 0; w < digits.windows; position += digits.width[w++]) {
            if (w < digits.first || w >= digits.last) continue;
            const unsigned width = fitting_width(position, digits.width[w]);
            const Word by = _mm512_set1_epi64(position & 63);
            const Word field = position >= 64 ? _mm512_srlv_epi64(k.high, by) : _mm512_shrdv_epi64(k.low, k.high, by);
            const Word digit = operator_sub(_mm512_and_si512(field, _mm512_set1_epi64((1ll << width) - 1)),
                                            _mm512_set1_epi64(((1ll << width) >> 1) - (w == 0 ? wrong_carry : 0)));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (w - digits.first) * digits.stride),
                             _mm512_cvtepi64_epi16(digit));
        }
    }
}

Words2 bias_of(const Digits& digits) {
    const u128 bias = digit_bias(digits);
    return {_mm512_set1_epi64(static_cast<long long>(low(bias))),
            _mm512_set1_epi64(static_cast<long long>(high(bias)))};
}

WHET_INLINE Lanes below_order(Lanes k) {
    const __mmask8 maybe_over = _mm512_cmpge_epu64_mask(k.limb[4], all_lanes(split_constants.r[1][4]));
    if (maybe_over) [[unlikely]] {
        for (const std::size_t multiple : {4u, 2u, 1u}) k = reduced_once(k, split_constants.r[multiple]);
    }
    return k;
}

void decompose_eight(const std::byte* scalars, const Words2& bias, const Digits& digits, std::int16_t* out) {
    const std::byte* at[lanes];
    for (std::size_t i = 0; i < lanes; ++i) at[i] = scalars + field_bytes * i;
    const Lanes k = below_order(gather(at));
    if (digits.half == 0) {
        cut(biased({{k.limb[0], k.limb[1], k.limb[2]}}, bias), digits, out);
        return;
    }
    const Lanes3 c1 = rounded(k, split_constants.quotient_b), c2 = rounded(k, split_constants.quotient_small);
    const Word zero = _mm512_setzero_si512();
    Lanes3 from_k = {{zero, zero, zero}}, k2 = {{zero, zero, zero}}, from_k2 = {{zero, zero, zero}};
    add_product(from_k, c1, 3, split_constants.long_a);
    add_product(from_k, c2, 2, split_constants.small);
    add_product(k2, c2, 2, split_constants.long_b);
    add_product(from_k2, c1, 3, split_constants.small);
    Lanes3 k1;
    WHET_UNROLL for (int i = 0; i < 3; ++i) {
        k1.limb[i] = operator_sub(k.limb[i], from_k.limb[i]);
        k2.limb[i] = operator_sub(k2.limb[i], from_k2.limb[i]);
    }
    cut(biased(k1, bias), digits, out);
    cut(biased(k2, bias), digits, out + digits.half);
}

}  // namespace

void decompose_ifma(const std::byte* scalars, std::size_t n, const Digits& digits) {
    const Words2 bias = bias_of(digits);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) decompose_eight(scalars + field_bytes * i, bias, digits, digits.out + i);
    if (i == n) return;
    // The rest through a buffer of eight.
    const std::size_t rest = n - i;
    alignas(64) std::byte padded[lanes * field_bytes] = {};
    std::int16_t cut_digits[2 * 128 * lanes];  // no more windows, in all parts, than a half has bits
    std::copy_n(scalars + field_bytes * i, rest * field_bytes, padded);
    const std::size_t halves = digits.half == 0 ? 1 : 2;
    const std::size_t local_block = 2 * lanes * (digits.last - digits.first);
    const Digits local = {cut_digits,   2 * lanes,      digits.half == 0 ? 0 : lanes,
                          digits.width, digits.windows, digits.first,
                          digits.last,  digits.blocks,  local_block};
    decompose_eight(padded, bias, local, cut_digits);
    for (unsigned b = 0; b < digits.blocks; ++b) {
        for (unsigned w = 0; w < digits.last - digits.first; ++w) {
            for (std::size_t h = 0; h < halves; ++h)
                std::copy_n(cut_digits + b * local_block + w * 2 * lanes + h * lanes, rest,
                            digits.out + i + b * digits.block + w * digits.stride + h * digits.half);
        }
    }
}

void prepare_ifma(const std::byte* points, std::size_t n, bool montgomery, std::byte* table) {
    for (std::size_t i = 0; i < n; i += lanes) {
        const std::byte *x_from[lanes], *y_from[lanes];
        std::byte *x_to[lanes], *y_to[lanes];
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const std::size_t index = std::min(i + lane, n - 1);  // the last lanes may do the last point twice
            x_from[lane] = points + point_bytes * index;
            y_from[lane] = x_from[lane] + field_bytes;
            x_to[lane] = table + point_bytes * index;
            y_to[lane] = x_to[lane] + field_bytes;
        }
        const Lanes enter = all_lanes(montgomery ? constants52.two_to_264 : constants52.r_squared);
        const Lanes x = masked(product(gather(x_from), enter)), y = masked(product(gather(y_from), enter));
        scatter(canonical(x), x_to, 0xff);
        scatter(canonical(y), y_to, 0xff);
    }
}

}  // namespace whet::msm
