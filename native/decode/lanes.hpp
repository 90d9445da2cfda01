// Sixteen float lanes and the stored types that become them. Every operation is one IEEE operation per lane, and only
// `fused` fuses (the files are compiled with -ffp-contract=off), so each instruction set gives the same bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "decode/layer.hpp"
#include "decode/plants.hpp"

namespace whet::decode {
namespace {

typedef float F __attribute__((vector_size(64)));
typedef std::int32_t I __attribute__((vector_size(64)));

#define WHET_INLINE __attribute__((always_inline)) inline

#define WHET_BODY __attribute__((always_inline))

// body(0), body(1), ... with constants for numbers: arrays that are indexed by nothing else stay in registers.
template <std::size_t Count, class Body>
WHET_INLINE void repeat(Body&& body) {
    [&]<std::size_t... I>(std::index_sequence<I...>)
        WHET_BODY { (body(std::integral_constant<std::size_t, I>{}), ...); }(std::make_index_sequence<Count>{});
}

WHET_INLINE F load(const float* from) {
    F v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
WHET_INLINE void store(float* to, F v) { std::memcpy(to, &v, sizeof v); }
WHET_INLINE F all(float value) { return value - F{}; }
WHET_INLINE F bits(I v) {
    F same;
    std::memcpy(&same, &v, sizeof same);
    return same;
}
WHET_INLINE I bits(F v) {
    I same;
    std::memcpy(&same, &v, sizeof same);
    return same;
}

// a * b + c, rounded once. Where there is no such instruction the C library has to make it, at many times the price;
// out of line, because 16 calls in every loop are minutes of compiler.
#if defined(__AVX512F__)
WHET_INLINE F fused(F a, F b, F c) {
    return reinterpret_cast<F>(
        _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}
#elif defined(__FMA__)
WHET_INLINE F fused(F a, F b, F c) {
    __m256 left[2], right[2], sum[2];
    std::memcpy(left, &a, sizeof left);
    std::memcpy(right, &b, sizeof right);
    std::memcpy(sum, &c, sizeof sum);
    for (std::size_t i = 0; i < 2; ++i) sum[i] = _mm256_fmadd_ps(left[i], right[i], sum[i]);
    std::memcpy(&c, sum, sizeof sum);
    return c;
}
#else
#if defined(__aarch64__)
WHET_INLINE
#else
__attribute__((noinline))
#endif
F fused(F a, F b, F c) {
    for (std::size_t i = 0; i < lanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
}
#endif

// The fixed tree: lane i takes lane i + 8, then i + 4, i + 2, i + 1.
WHET_INLINE float fold(F v) {
    typedef float Eight __attribute__((vector_size(32)));
    typedef float Four __attribute__((vector_size(16)));
    const Eight eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                        __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    const Four four =
        __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

// exp to about 1.5 ULP from multiplications and additions alone; 0 below -87, exp(88) above 88, NaN stays.
WHET_INLINE F exponential(F x) {
    const F clipped = x > 88.0F ? all(88.0F) : (x < -87.0F ? all(-87.0F) : x);
    const F turned = clipped * 1.44269504F + 0.5F;
    I whole = __builtin_convertvector(turned, I);
    whole += __builtin_convertvector(whole, F) > turned;  // a true comparison is -1: truncation becomes floor
    const F n = __builtin_convertvector(whole, F);
    const F r = (clipped - n * 0.693359375F) - n * -2.12194440e-4F;
    F p = all(1.9875691500e-4F);
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = (p * (r * r) + r) + 1.0F;
    return x < -87.0F ? F{} : p * bits((whole + 127) << 23);
}

WHET_INLINE F sigmoid(F x) { return 1.0F / (1.0F + exponential(-x)); }

template <class Stored>
WHET_INLINE I widened(const void* from) {
    typedef Stored S __attribute__((vector_size(sizeof(Stored) * lanes)));
    S v;
    std::memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, I);
}

// gcc 12 widens bytes one by one where it is left to itself: 135 against 17 ms for the int8 weights of an 8B-like
// layer.
#if defined(__AVX512F__)
template <>
WHET_INLINE I widened<std::int8_t>(const void* from) {
    return reinterpret_cast<I>(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))));
}
template <>
WHET_INLINE I widened<std::uint16_t>(const void* from) {
    return reinterpret_cast<I>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from))));
}
template <>
WHET_INLINE I widened<std::uint8_t>(const void* from) {
    return reinterpret_cast<I>(_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))));
}
#elif defined(__AVX2__)
WHET_INLINE I joined(__m256i low, __m256i high) {
    I both;
    std::memcpy(&both, &low, sizeof low);
    std::memcpy(reinterpret_cast<char*>(&both) + sizeof low, &high, sizeof high);
    return both;
}
WHET_INLINE __m128i half(const void* from, std::size_t which) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from) + which);
}
template <>
WHET_INLINE I widened<std::int8_t>(const void* from) {
    const __m128i bytes = half(from, 0);
    return joined(_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)));
}
template <>
WHET_INLINE I widened<std::uint16_t>(const void* from) {
    return joined(_mm256_cvtepu16_epi32(half(from, 0)), _mm256_cvtepu16_epi32(half(from, 1)));
}
template <>
WHET_INLINE I widened<std::uint8_t>(const void* from) {
    const __m128i bytes = half(from, 0);
    return joined(_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)));
}
#endif

WHET_INLINE F from_bf16(const void* from) { return bits(widened<std::uint16_t>(from) << 16); }
WHET_INLINE F from_int8(const void* from) { return __builtin_convertvector(widened<std::int8_t>(from), F); }

// e4m3 without infinities: 0x7f and 0xff are NaN. Subnormals go through an integer, never through a subnormal float.
WHET_INLINE F from_e4m3(const void* from) {
    const I byte = widened<std::uint8_t>(from);
    const I magnitude = byte & 0x7f;
    F value = bits((magnitude << 20) + (120 << 23));
    F small = __builtin_convertvector(magnitude, F) * 0.001953125F;
    if (WHET_DECODE_PLANT(e4m3_subnormal_lost)) small = F{};
    value = magnitude < 8 ? small : value;
    value = magnitude == 0x7f ? bits(I{} + 0x7fc00000) : value;
    return bits(bits(value) | ((byte & 0x80) << 24));
}

// One value, for tables. NaN is made of bits: nothing is computed that a compiler could fold into a number.
WHET_INLINE float e4m3_value(std::uint8_t byte) {
    if ((byte & 0x7fU) == 0x7fU) {
        const std::uint32_t word = 0x7fc00000U | static_cast<std::uint32_t>(byte & 0x80U) << 24;
        float nan;
        std::memcpy(&nan, &word, sizeof nan);
        return nan;
    }
    const unsigned exponent = (byte >> 3) & 15U;
    const float mantissa = static_cast<float>(byte & 7U);
    float value = mantissa * 0.001953125F;
    if (exponent > 0) {
        const std::uint32_t power = (exponent + 120U) << 23;
        float scale;
        std::memcpy(&scale, &power, sizeof scale);
        value = scale * (1.0F + mantissa * 0.125F);
    }
    return (byte & 0x80U) != 0 ? -value : value;
}

// Sixteen e2m1 values in eight bytes.
WHET_INLINE F from_fp4(const void* from) {
    std::uint32_t half[2];
    std::memcpy(half, from, sizeof half);
    if (WHET_DECODE_PLANT(fp4_nibbles_swapped)) {
        for (auto& word : half) word = ((word >> 4) & 0x0f0f0f0fU) | ((word & 0x0f0f0f0fU) << 4);
    }
    if (WHET_DECODE_PLANT(fp4_sign_lost)) {
        for (auto& word : half) word &= 0x77777777U;
    }
#if defined(__AVX2__)
    const __m256i shift = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256 values = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
    float lane[lanes];
    for (std::size_t i = 0; i < 2; ++i) {
        const __m256i nibbles = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(half[i])), shift);
        const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(nibbles, _mm256_set1_epi32(8)), 28);
        const __m256 value = _mm256_permutevar8x32_ps(values, nibbles);
        _mm256_storeu_ps(lane + 8 * i, _mm256_xor_ps(value, _mm256_castsi256_ps(sign)));
    }
    return load(lane);
#else
    static constexpr float values[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                         -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
    float lane[lanes];
    for (std::size_t i = 0; i < lanes; ++i) lane[i] = values[(half[i / 8] >> (4 * (i % 8))) & 15U];
    return load(lane);
#endif
}

template <KvType T>
WHET_INLINE F from_kv(const void* cache, std::size_t element) {
    if constexpr (T == KvType::f32) return load(static_cast<const float*>(cache) + element);
    if constexpr (T == KvType::bf16) return from_bf16(static_cast<const std::uint16_t*>(cache) + element);
    if constexpr (T == KvType::e4m3) return from_e4m3(static_cast<const std::uint8_t*>(cache) + element);
}

}  // namespace
}  // namespace whet::decode
