// The AVX-512 intrinsics that the IFMA kernels use, in plain C++. For the programs emulated_* the kernels are compiled
// against this file in place of the compiler's own, so that the very same sources run on any machine, under any
// sanitizer. Slow; nothing but tests is built with it. What it cannot show: what the instructions really do.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

// Every CPU has what this file emulates.
#define __builtin_cpu_init() static_cast<void>(0)
#define __builtin_cpu_supports(feature) true

using __mmask8 = std::uint8_t;
using __mmask32 = std::uint32_t;

struct alignas(16) __m128i {
    std::uint16_t part[8];
};
struct alignas(32) __m256i {
    std::uint32_t part[8];
};
struct alignas(64) __m512i {
    std::uint64_t part[8];
};

namespace whet::avx512 {

constexpr std::uint64_t low_52 = (std::uint64_t{1} << 52) - 1;

template <class Vector, class Of>
Vector make(Of&& of) {
    Vector r;
    using Part = std::remove_reference_t<decltype(r.part[0])>;
    for (int i = 0; i < 8; ++i) r.part[i] = static_cast<Part>(of(i));
    return r;
}
template <class Of>
__m512i words(Of&& of) {
    return make<__m512i>(of);
}
template <class Of>
__mmask8 mask(Of&& of) {
    unsigned r = 0;
    for (int i = 0; i < 8; ++i) r |= static_cast<unsigned>(of(i) ? 1 : 0) << i;
    return static_cast<__mmask8>(r);
}
inline bool has(__mmask8 lanes, int i) { return (lanes >> i & 1) != 0; }
template <class Vector>
Vector load(const void* from) {
    Vector r;
    std::memcpy(&r, from, sizeof r);
    return r;
}
__extension__ using Wide = unsigned __int128;
inline Wide product_52(std::uint64_t a, std::uint64_t b) { return static_cast<Wide>(a & low_52) * (b & low_52); }
inline std::int64_t as_signed(std::uint64_t word) { return static_cast<std::int64_t>(word); }

}  // namespace whet::avx512

// Words in and out.
inline __m512i _mm512_setzero_si512() { return {}; }
inline __m512i _mm512_set1_epi64(long long a) {
    return whet::avx512::words([&](int) { return static_cast<std::uint64_t>(a); });
}
inline __m512i _mm512_set_epi64(long long h, long long g, long long f, long long e, long long d, long long c,
                                long long b, long long a) {
    const long long in_order[8] = {a, b, c, d, e, f, g, h};
    return whet::avx512::words([&](int i) { return static_cast<std::uint64_t>(in_order[i]); });
}
inline __m512i _mm512_set1_epi16(short a) {
    return whet::avx512::words([&](int) { return std::uint64_t{static_cast<std::uint16_t>(a)} * 0x1000100010001; });
}
inline __m512i _mm512_loadu_si512(const void* from) { return whet::avx512::load<__m512i>(from); }
inline void _mm512_storeu_si512(void* to, __m512i a) { std::memcpy(to, &a, sizeof a); }
inline void _mm512_store_si512(void* to, __m512i a) { *static_cast<__m512i*>(to) = a; }  // as aligned as the real one

// Arithmetic.
inline __m512i _mm512_add_epi64(__m512i a, __m512i b) {
    return whet::avx512::words([&](int i) { return a.part[i] + b.part[i]; });
}
inline __m512i _mm512_sub_epi64(__m512i a, __m512i b) {
    return whet::avx512::words([&](int i) { return a.part[i] - b.part[i]; });
}
inline __m512i _mm512_mask_sub_epi64(__m512i from, __mmask8 lanes, __m512i a, __m512i b) {
    return whet::avx512::words(
        [&](int i) { return whet::avx512::has(lanes, i) ? a.part[i] - b.part[i] : from.part[i]; });
}
inline __m512i _mm512_madd52lo_epu64(__m512i sum, __m512i a, __m512i b) {
    return whet::avx512::words([&](int i) {
        return sum.part[i] +
               (static_cast<std::uint64_t>(whet::avx512::product_52(a.part[i], b.part[i])) & whet::avx512::low_52);
    });
}
inline __m512i _mm512_madd52hi_epu64(__m512i sum, __m512i a, __m512i b) {
    return whet::avx512::words([&](int i) {
        return sum.part[i] + static_cast<std::uint64_t>(whet::avx512::product_52(a.part[i], b.part[i]) >> 52);
    });
}
inline __m512i _mm512_and_si512(__m512i a, __m512i b) {
    return whet::avx512::words([&](int i) { return a.part[i] & b.part[i]; });
}
inline __m512i _mm512_or_si512(__m512i a, __m512i b) {
    return whet::avx512::words([&](int i) { return a.part[i] | b.part[i]; });
}

// Shifts. By a number they go on to zero or the sign; the pairs of words take theirs modulo 64.
inline __m512i _mm512_slli_epi64(__m512i a, unsigned by) {
    return whet::avx512::words([&](int i) { return by > 63 ? 0 : a.part[i] << by; });
}
inline __m512i _mm512_srli_epi64(__m512i a, unsigned by) {
    return whet::avx512::words([&](int i) { return by > 63 ? 0 : a.part[i] >> by; });
}
inline __m512i _mm512_srai_epi64(__m512i a, unsigned by) {
    return whet::avx512::words(
        [&](int i) { return static_cast<std::uint64_t>(whet::avx512::as_signed(a.part[i]) >> (by > 63 ? 63 : by)); });
}
inline __m512i _mm512_srlv_epi64(__m512i a, __m512i by) {
    return whet::avx512::words([&](int i) { return by.part[i] > 63 ? 0 : a.part[i] >> by.part[i]; });
}
inline __m512i _mm512_shrdv_epi64(__m512i low, __m512i high, __m512i by) {
    return whet::avx512::words([&](int i) {
        const unsigned shift = by.part[i] & 63;
        return shift == 0 ? low.part[i] : low.part[i] >> shift | high.part[i] << (64 - shift);
    });
}
inline __m512i _mm512_shrdi_epi64(__m512i low, __m512i high, int by) {
    return _mm512_shrdv_epi64(low, high, _mm512_set1_epi64(by));
}

// Comparisons and masks.
inline __mmask8 _mm512_cmpgt_epi64_mask(__m512i a, __m512i b) {
    return whet::avx512::mask(
        [&](int i) { return whet::avx512::as_signed(a.part[i]) > whet::avx512::as_signed(b.part[i]); });
}
inline __mmask8 _mm512_cmplt_epu64_mask(__m512i a, __m512i b) {
    return whet::avx512::mask([&](int i) { return a.part[i] < b.part[i]; });
}
inline __mmask8 _mm512_cmpge_epu64_mask(__m512i a, __m512i b) {
    return whet::avx512::mask([&](int i) { return a.part[i] >= b.part[i]; });
}
inline __mmask8 _mm512_mask_cmpeq_epi64_mask(__mmask8 lanes, __m512i a, __m512i b) {
    return whet::avx512::mask([&](int i) { return whet::avx512::has(lanes, i) && a.part[i] == b.part[i]; });
}
inline __mmask32 _mm512_cmpeq_epi16_mask(__m512i a, __m512i b) {
    __mmask32 equal = 0;
    for (int i = 0; i < 32; ++i) {
        const int by = 16 * (i % 4);
        const std::uint64_t differ = (a.part[i / 4] ^ b.part[i / 4]) >> by & 0xffff;
        equal |= static_cast<__mmask32>(differ == 0) << i;
    }
    return equal;
}
inline __mmask8 _mm512_movepi64_mask(__m512i a) {
    return whet::avx512::mask([&](int i) { return a.part[i] >> 63 != 0; });
}
inline __m512i _mm512_movm_epi64(__mmask8 lanes) {
    return whet::avx512::words([&](int i) { return whet::avx512::has(lanes, i) ? ~std::uint64_t{0} : 0; });
}
inline __m512i _mm512_mask_blend_epi64(__mmask8 lanes, __m512i if_clear, __m512i if_set) {
    return whet::avx512::words([&](int i) { return whet::avx512::has(lanes, i) ? if_set.part[i] : if_clear.part[i]; });
}

// Words moved between lanes.
inline __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) {
    return whet::avx512::words([&](int i) { return (i % 2 ? b : a).part[i / 2 * 2]; });
}
inline __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) {
    return whet::avx512::words([&](int i) { return (i % 2 ? b : a).part[i / 2 * 2 + 1]; });
}
inline __m512i _mm512_shuffle_i64x2(__m512i a, __m512i b, int pairs) {
    return whet::avx512::words([&](int i) { return (i < 4 ? a : b).part[2 * (pairs >> i / 2 * 2 & 3) + i % 2]; });
}
inline __m512i _mm512_permutexvar_epi64(__m512i index, __m512i a) {
    return whet::avx512::words([&](int i) { return a.part[index.part[i] & 7]; });
}
inline __m512i _mm512_castsi256_si512(__m256i a) {
    __m512i r = {};
    std::memcpy(&r, &a, sizeof a);
    return r;
}
inline __m512i _mm512_inserti64x4(__m512i a, __m256i b, int half) {
    std::memcpy(a.part + 4 * half, &b, sizeof b);
    return a;
}
inline __m128i _mm512_castsi512_si128(__m512i a) { return whet::avx512::load<__m128i>(&a); }
inline __m128i _mm512_cvtepi64_epi16(__m512i a) {
    return whet::avx512::make<__m128i>([&](int i) { return a.part[i]; });
}

// Eight words of 32 bits.
inline __m256i _mm256_loadu_si256(const __m256i* from) { return whet::avx512::load<__m256i>(from); }
inline __m256i _mm256_set1_epi32(int a) {
    return whet::avx512::make<__m256i>([&](int) { return a; });
}
inline __mmask8 _mm256_test_epi32_mask(__m256i a, __m256i b) {
    return whet::avx512::mask([&](int i) { return (a.part[i] & b.part[i]) != 0; });
}
inline __mmask8 _mm256_cmpneq_epi32_mask(__m256i a, __m256i b) {
    return whet::avx512::mask([&](int i) { return a.part[i] != b.part[i]; });
}

// Eight words of 16 bits.
inline __m128i _mm_loadu_si128(const __m128i* from) { return whet::avx512::load<__m128i>(from); }
inline void _mm_storeu_si128(__m128i* to, __m128i a) { std::memcpy(static_cast<void*>(to), &a, sizeof a); }
inline __m128i _mm_set1_epi16(short a) {
    return whet::avx512::make<__m128i>([&](int) { return a; });
}
inline __mmask8 _mm_cmpeq_epi16_mask(__m128i a, __m128i b) {
    return whet::avx512::mask([&](int i) { return a.part[i] == b.part[i]; });
}
inline __mmask8 _mm_cmpgt_epu16_mask(__m128i a, __m128i b) {
    return whet::avx512::mask([&](int i) { return a.part[i] > b.part[i]; });
}
inline __mmask8 _mm_cmpge_epu16_mask(__m128i a, __m128i b) {
    return whet::avx512::mask([&](int i) { return a.part[i] >= b.part[i]; });
}
inline __m128i _mm_mask_blend_epi16(__mmask8 lanes, __m128i if_clear, __m128i if_set) {
    return whet::avx512::make<__m128i>(
        [&](int i) { return whet::avx512::has(lanes, i) ? if_set.part[i] : if_clear.part[i]; });
}
inline __m128i _mm_minpos_epu16(__m128i a) {  // the least and where it is
    __m128i r = {};
    for (int i = 1; i < 8; ++i) {
        if (a.part[i] < a.part[r.part[1]]) r.part[1] = static_cast<std::uint16_t>(i);
    }
    r.part[0] = a.part[r.part[1]];
    return r;
}
inline int _mm_extract_epi16(__m128i a, int i) { return a.part[i]; }
