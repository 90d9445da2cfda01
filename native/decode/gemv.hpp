// Matrix times a few vectors, bound by the memory that the weights stream from. Several rows go together so that their
// chains of additions hide each other's latency; a row's order of reduction does not depend on its neighbours.
#pragma once

#include <utility>

#include "decode/lanes.hpp"

namespace whet::decode {
namespace {

template <WeightType T>
constexpr std::size_t block_bytes = T == WeightType::f32    ? 64
                                    : T == WeightType::bf16 ? 32
                                    : T == WeightType::int8 ? 16
                                                            : 8;

// How many rows go together at batch 1: streams in flight against registers and ways of the first-level cache. fp4
// reads scales beside its codes and looks both up, so it has room for fewer (8: 16.6, 6: 22.7 GB/s).
#if defined(__AVX512F__)
template <WeightType T>
constexpr std::size_t rows_alone = T == WeightType::fp4 ? 6 : 8;
#else
template <WeightType T>
constexpr std::size_t rows_alone = 4;
#endif
// How far ahead of the loads each stream fetches. Without it int8 streams at 25 GB/s where 31 can be read.
constexpr std::size_t ahead_bytes = 1024;
constexpr std::size_t line_bytes = 64;

// Turns a block of stored weights into lanes. `arranged` puts a block of x into the order of lanes in which weights
// come, `restored` puts sums back: a lane keeps its columns, so the order of its sum is the same.
template <WeightType T>
struct Decoder {
    WHET_INLINE static F arranged(F x) { return x; }
    WHET_INLINE static F restored(F sum) { return sum; }
    WHET_INLINE F operator()(const std::uint8_t* row, const std::uint8_t*, std::size_t block) const {
        const std::uint8_t* at = row + block * block_bytes<T>;
        if constexpr (T == WeightType::f32) return load(reinterpret_cast<const float*>(at));
        if constexpr (T == WeightType::bf16) return from_bf16(at);
        if constexpr (T == WeightType::int8) return from_int8(at);
    }
};

#if defined(__AVX512F__)
// e2m1 times e4m3 has six significant bits, so the product is exact and 256 scales times 16 codes fit in a table of
// 16 KB: one permutation looks a block up, scaled. Four vector operations a block, two on each of the two ports.
struct ScaledCodes {
    alignas(64) float value[256][lanes];
    ScaledCodes() {
        static constexpr float sizes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
        for (unsigned byte = 0; byte < 256; ++byte) {
            for (unsigned code = 0; code < lanes; ++code) {
                const float size = code < 8 ? sizes[code] : -sizes[code - 8];
                value[byte][code] = size * e4m3_value(static_cast<std::uint8_t>(byte));
            }
        }
    }
};
inline const ScaledCodes& scaled_codes() {
    static const ScaledCodes codes;
    return codes;
}

// The eight bytes are broadcast, so even lanes see the first half and odd lanes the second; lane l shifts to code
// l / 2 of its half. x is permuted once for all rows.
template <>
struct Decoder<WeightType::fp4> {
    const ScaledCodes& codes = scaled_codes();

    WHET_INLINE static F arranged(F x) {
        const __m512i from = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
        return reinterpret_cast<F>(_mm512_permutexvar_ps(from, reinterpret_cast<__m512>(x)));
    }
    WHET_INLINE static F restored(F sum) {
        const __m512i from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        return reinterpret_cast<F>(_mm512_permutexvar_ps(from, reinterpret_cast<__m512>(sum)));
    }
    WHET_INLINE F operator()(const std::uint8_t* row, const std::uint8_t* scales, std::size_t block) const {
        const __m512i shift = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
        long long packed;
        std::memcpy(&packed, row + block * block_bytes<WeightType::fp4>, sizeof packed);
        const __m512i code = _mm512_srlv_epi32(_mm512_set1_epi64(packed), shift);
        return reinterpret_cast<F>(_mm512_permutexvar_ps(code, _mm512_load_ps(codes.value[scales[block]])));
    }
};
#else
// The scale of each block; e4m3 has 256 values.
struct ScaleTable {
    float value[256];
    ScaleTable() {
        for (unsigned byte = 0; byte < 256; ++byte) value[byte] = e4m3_value(static_cast<std::uint8_t>(byte));
    }
};
inline const ScaleTable& scale_table() {
    static const ScaleTable table;
    return table;
}

template <>
struct Decoder<WeightType::fp4> {
    const float* table = scale_table().value;

    WHET_INLINE static F arranged(F x) { return x; }
    WHET_INLINE static F restored(F sum) { return sum; }
    WHET_INLINE F operator()(const std::uint8_t* row, const std::uint8_t* scales, std::size_t block) const {
        const std::size_t of = WHET_DECODE_PLANT(fp4_scale_of_first_block) ? 0 : block;
        return from_fp4(row + block * block_bytes<WeightType::fp4>) * table[scales[of]];
    }
};
#endif

#define WHET_BODY __attribute__((always_inline))

// body(0), body(1), ... with constants for numbers: arrays that are indexed by nothing else stay in registers.
template <std::size_t Count, class Body>
WHET_INLINE void repeat(Body&& body) {
    [&]<std::size_t... I>(std::index_sequence<I...>)
        WHET_BODY { (body(std::integral_constant<std::size_t, I>{}), ...); }(std::make_index_sequence<Count>{});
}

// Keeps the compiler from computing a later sum first: gcc 12 otherwise decodes everything ahead and runs out of
// registers.
WHET_INLINE void in_order(F& sum) {
#if defined(__AVX512F__)
    asm volatile("" : "+v"(sum));
#else
    static_cast<void>(sum);
#endif
}

// Rows row, row + apart, ... (R of them) over blocks [first, last): lane l sums columns l, l + 16, ... ascending, then
// the tree.
template <WeightType T, std::size_t N, std::size_t R>
WHET_INLINE void dot_rows(const Matrix& m, std::size_t row, std::size_t apart, std::size_t first, std::size_t last,
                          const float* x, std::size_t x_stride, float* out, std::size_t out_stride, std::size_t batch) {
    using Decode = Decoder<T>;
    constexpr std::size_t unrolled = line_bytes / block_bytes<T>;  // a line of each row, fetched ahead once
    const auto* data = static_cast<const std::uint8_t*>(m.data);
    const auto* scales = static_cast<const std::uint8_t*>(m.scales);
    const Decode decode;
    std::size_t at[R];
    F sum[R][N];
    repeat<R>([&](auto r) WHET_BODY {
        at[r] = (row + r * apart) * m.blocks() + first;
        repeat<N>([&](auto n) WHET_BODY { sum[r][n] = F{}; });
    });
    const float* from = x + first * lanes;
    const auto one = [&](std::size_t block) WHET_BODY {
        F input[N];
        repeat<N>([&](auto n) WHET_BODY { input[n] = Decode::arranged(load(from + n * x_stride + block * lanes)); });
        repeat<R>([&](auto r) WHET_BODY {
            const F w = decode(data, scales, at[r] + block);
            repeat<N>([&](auto n) WHET_BODY {
                sum[r][n] = sum[r][n] + w * input[n];
                in_order(sum[r][n]);
            });
        });
    };
    std::size_t left = last - first;
    for (; left >= unrolled; left -= unrolled) {
        repeat<unrolled>(one);
        from += unrolled * lanes;
        repeat<R>([&](auto r) WHET_BODY {
            __builtin_prefetch(data + at[r] * block_bytes<T> + ahead_bytes);
            if constexpr (T == WeightType::fp4) __builtin_prefetch(scales + at[r] + ahead_bytes / block_bytes<T>);
            at[r] += unrolled;
            asm("" : "+r"(at[r]));  // else gcc keeps two pointers per row and moves them through vector registers
        });
    }
    for (std::size_t block = 0; block < left; ++block) one(block);
    repeat<R>([&](auto r) WHET_BODY {
        const std::size_t to = row + r * apart;
        float scale = m.global_scale;
        if constexpr (T == WeightType::int8) {
            const std::size_t of = WHET_DECODE_PLANT(int8_scale_of_next_row) ? (to + 1) % m.rows : to;
            scale = static_cast<const float*>(m.scales)[of];
        }
        repeat<N>([&](auto n) WHET_BODY {
            const float total = fold(Decode::restored(sum[r][n]));
            const bool scaled = T == WeightType::int8 || T == WeightType::fp4;
            if (n < batch) out[n * out_stride + to] = scaled ? total * scale : total;
        });
    });
}

// Rows go `together`, each from its own part of [begin, end), so that every part is one sequence of lines from its
// first row to its last and the prefetcher never starts anew. `Passes` times N sequences: eight at once would need more
// registers than there are (103 against 65 ms), and the second four find the rows in the cache.
template <WeightType T, std::size_t N, std::size_t Passes = 1>
void multiply_typed(const Matrix& m, std::size_t begin, std::size_t end, std::size_t first, std::size_t last,
                    const float* x, std::size_t x_stride, float* out, std::size_t out_stride, std::size_t batch) {
    constexpr std::size_t together = N == 1 ? rows_alone<T> : 4;
    // Odd: at an even distance rows of 2 KB would all fall into the same sets of the cache (17.8 against 22.7 GB/s).
    const std::size_t even = (end - begin) / together;
    const std::size_t apart = even > 0 && even % 2 == 0 ? even - 1 : even;
    const auto rows = [&]<std::size_t R>(std::size_t row) {
        for (std::size_t pass = 0; pass < Passes; ++pass) {
            dot_rows<T, N, R>(m, row, apart, first, last, x + pass * N * x_stride, x_stride,
                              out + pass * N * out_stride, out_stride, batch - pass * N);
        }
    };
    for (std::size_t row = begin; row < begin + apart; ++row) rows.template operator()<together>(row);
    for (std::size_t row = begin + together * apart; row < end; ++row) rows.template operator()<1>(row);
}

template <WeightType T>
void multiply_batch(std::size_t padded_batch, const Matrix& m, std::size_t begin, std::size_t end, std::size_t first,
                    std::size_t last, const float* x, std::size_t x_stride, float* out, std::size_t out_stride,
                    std::size_t batch) {
    switch (padded_batch) {
        case 1:
            return multiply_typed<T, 1>(m, begin, end, first, last, x, x_stride, out, out_stride, batch);
        case 2:
            return multiply_typed<T, 2>(m, begin, end, first, last, x, x_stride, out, out_stride, batch);
        case 4:
            return multiply_typed<T, 4>(m, begin, end, first, last, x, x_stride, out, out_stride, batch);
        default:
            return multiply_typed<T, 4, 2>(m, begin, end, first, last, x, x_stride, out, out_stride, batch);
    }
}

// out[b][row] = sum over the blocks of m[row][k] * x[b][k], for rows [begin, end) and every b below batch.
inline void multiply(const Context& c, const Matrix& m, std::size_t begin, std::size_t end, std::size_t first,
                     std::size_t last, const float* x, std::size_t x_stride, float* out, std::size_t out_stride) {
    if (WHET_DECODE_PLANT(dot_skips_last_block) && last - first > 1) --last;
    const std::size_t batch = c.step.batch;
    const auto run = [&](auto multiply_one) {
        multiply_one(c.padded_batch, m, begin, end, first, last, x, x_stride, out, out_stride, batch);
    };
    switch (m.type) {
        case WeightType::f32:
            return run(multiply_batch<WeightType::f32>);
        case WeightType::bf16:
            return run(multiply_batch<WeightType::bf16>);
        case WeightType::int8:
            return run(multiply_batch<WeightType::int8>);
        case WeightType::fp4:
            return run(multiply_batch<WeightType::fp4>);
    }
}

}  // namespace
}  // namespace whet::decode
