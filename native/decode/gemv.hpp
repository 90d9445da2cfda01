// Matrix times a few vectors, bound by the memory that the weights stream from. Several rows go together so that their
// chains of additions hide each other's latency; a row's order of reduction does not depend on its neighbours.
#pragma once

#include "decode/lanes.hpp"

namespace whet::decode {
namespace {

template <WeightType T>
constexpr std::size_t block_bytes = T == WeightType::f32    ? 64
                                    : T == WeightType::bf16 ? 32
                                    : T == WeightType::int8 ? 16
                                                            : 8;

// How many rows go together at batch 1: streams in flight against registers and ways of the first-level cache. fp4
// reads scales beside its codes and looks both up, so it has room for fewer.
#if defined(__AVX512F__)
template <WeightType T>
constexpr std::size_t rows_alone = T == WeightType::fp4 ? 6 : 8;
#else
template <WeightType T>
constexpr std::size_t rows_alone = 4;
#endif
constexpr std::size_t rows_in_batch = 4;
// How far ahead of the loads each stream fetches. Without it int8 streams at 25 GB/s where 31 can be read.
template <WeightType T>
constexpr std::size_t ahead_bytes = T == WeightType::fp4 ? 512 : 1024;
constexpr std::size_t line_bytes = 64;

// Turns a block of stored weights into lanes.
template <WeightType T>
struct Decoder {
    WHET_INLINE F operator()(const std::uint8_t* row, const std::uint8_t*, std::size_t block) const {
        const std::uint8_t* at = row + block * block_bytes<T>;
        if constexpr (T == WeightType::f32) return load(reinterpret_cast<const float*>(at));
        if constexpr (T == WeightType::bf16) return from_bf16(at);
        if constexpr (T == WeightType::int8) return from_int8(at);
    }
};

#if defined(__AVX512F__)
// e2m1 times e4m3 has six significant bits, so the product is exact and 256 scales times 16 codes fit in a table of
// 16 KB: one permutation looks a block up, scaled. 2.9 vector operations a block, shared by two ports.
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

// A line has eight blocks (lines.hpp): nibble j of dword l is column l of block j. A permutation looks at the lowest
// four bits alone, so a block is one shift, and the first none.
template <>
struct Decoder<WeightType::fp4> {
    const ScaledCodes& codes = scaled_codes();

    WHET_INLINE static __m512i line(const std::uint8_t* row, std::size_t block) {
        return _mm512_load_si512(row + block / line_blocks * line_bytes);
    }
    WHET_INLINE F looked_up(__m512i code, std::uint8_t scale) const {
        return reinterpret_cast<F>(_mm512_permutexvar_ps(code, _mm512_load_ps(codes.value[scale])));
    }
    WHET_INLINE F operator()(const std::uint8_t* row, const std::uint8_t* scales, std::size_t block) const {
        const auto shift = static_cast<unsigned>(4 * (block % line_blocks));
        return looked_up(_mm512_srl_epi32(line(row, block), _mm_cvtsi32_si128(static_cast<int>(shift))), scales[block]);
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

    WHET_INLINE F operator()(const std::uint8_t* row, const std::uint8_t* scales, std::size_t block) const {
        const std::size_t of = WHET_DECODE_PLANT(fp4_scale_of_first_block) ? 0 : block;
        return from_fp4(row + block * block_bytes<WeightType::fp4>) * table[scales[of]];
    }
};
#endif

// Keeps the compiler from computing a later sum first: gcc 12 otherwise decodes everything ahead and runs out of
// registers.
WHET_INLINE void in_order(F& sum) {
#if defined(__AVX512F__)
    asm volatile("" : "+v"(sum));
#else
    static_cast<void>(sum);
#endif
}

#if defined(__AVX512F__)
template <WeightType T>
constexpr bool by_lines = T == WeightType::fp4;
#else
template <WeightType T>
constexpr bool by_lines = false;
#endif

// Rows row, row + apart, ... (R of them) over blocks [first, last): lane l sums columns l, l + 16, ... ascending, then
// the tree.
template <WeightType T, std::size_t N, std::size_t R>
__attribute__((noinline)) void dot_rows(const Matrix& m, std::size_t row, std::size_t apart, std::size_t first,
                                        std::size_t last, const float* x, std::size_t x_stride, float* out,
                                        std::size_t out_stride, std::size_t batch) {
    using Decode = Decoder<T>;
    constexpr std::size_t unrolled = line_bytes / block_bytes<T>;  // a line of each row, fetched ahead once
    const auto* data = static_cast<const std::uint8_t*>(m.data);
    const auto* scales = static_cast<const std::uint8_t*>(m.scales);
    const Decode decode;
    std::size_t at[R];
    F sum[R][N];
    repeat<R>([&](auto r) WHET_BODY {
        at[r] = (row + r * apart) * (by_lines<T> ? m.lines() * line_blocks : m.blocks()) + first;
        repeat<N>([&](auto n) WHET_BODY { sum[r][n] = F{}; });
    });
    const float* from = x + first * lanes;
    const auto one = [&](std::size_t block) WHET_BODY {
        F input[N];
        repeat<N>([&](auto n) WHET_BODY { input[n] = load(from + n * x_stride + block * lanes); });
        repeat<R>([&](auto r) WHET_BODY {
            const F w = decode(data, scales, at[r] + block);
            repeat<N>([&](auto n) WHET_BODY {
                sum[r][n] = fused(w, input[n], sum[r][n]);
                in_order(sum[r][n]);
            });
        });
    };
    const auto some = [&](std::size_t blocks) WHET_BODY {
        for (std::size_t block = 0; block < blocks; ++block) one(block);
        from += blocks * lanes;
        repeat<R>([&](auto r) WHET_BODY { at[r] += blocks; });
    };
    std::size_t left = last - first;
    if constexpr (by_lines<T>) {
        const std::size_t before = (line_blocks - first % line_blocks) % line_blocks;
        const std::size_t head = before < left ? before : left;
        some(head);
        left -= head;
    }
    for (; left >= unrolled; left -= unrolled) {
        if constexpr (by_lines<T>) {
#if defined(__AVX512F__)
            repeat<R>([&](auto r) WHET_BODY {
                const __m512i line = Decode::line(data, at[r]);
                repeat<line_blocks>([&](auto j) WHET_BODY {
                    const __m512i code = j == 0 ? line : _mm512_srli_epi32(line, 4 * j);
                    const F w = decode.looked_up(code, scales[at[r] + j]);
                    repeat<N>([&](auto n) WHET_BODY {
                        sum[r][n] = fused(w, load(from + n * x_stride + j * lanes), sum[r][n]);
                    });
                });
            });
#endif
        } else {
            repeat<unrolled>(one);
        }
        from += unrolled * lanes;
        repeat<R>([&](auto r) WHET_BODY {
            __builtin_prefetch(data + at[r] * block_bytes<T> + ahead_bytes<T>);
            if constexpr (T == WeightType::fp4) __builtin_prefetch(scales + at[r] + ahead_bytes<T> / block_bytes<T>);
            at[r] += unrolled;
            asm("" : "+r"(at[r]));  // else gcc keeps two pointers per row and moves them through vector registers
        });
    }
    some(left);
    repeat<R>([&](auto r) WHET_BODY {
        const std::size_t to = row + r * apart;
        float scale = m.global_scale;
        if constexpr (T == WeightType::int8) {
            const std::size_t of = WHET_DECODE_PLANT(int8_scale_of_next_row) ? (to + 1) % m.rows : to;
            scale = static_cast<const float*>(m.scales)[of];
        }
        repeat<N>([&](auto n) WHET_BODY {
            const float total = fold(sum[r][n]);
            const bool scaled = T == WeightType::int8 || T == WeightType::fp4;
            if (n < batch) out[n * out_stride + to] = scaled ? total * scale : total;
        });
    });
}

// `Passes` times N sequences: eight at once would need more registers than there are (103 against 65 ms), and the
// second four find the rows in the cache.
template <WeightType T, std::size_t N, std::size_t Passes = 1>
void multiply_typed(const Matrix& m, const Part& part, std::size_t first, std::size_t last, const float* x,
                    std::size_t x_stride, float* out, std::size_t out_stride, std::size_t batch) {
    constexpr std::size_t together = N == 1 ? rows_alone<T> : rows_in_batch;
    const auto rows = [&]<std::size_t R>(std::size_t row, std::size_t apart) {
        for (std::size_t pass = 0; pass < Passes; ++pass) {
            dot_rows<T, N, R>(m, row, apart, first, last, x + pass * N * x_stride, x_stride,
                              out + pass * N * out_stride, out_stride, batch - pass * N);
        }
    };
    const auto neighbours = [&](std::size_t row, std::size_t end) {
        for (; row + together <= end; row += together) rows.template operator()<together>(row, 1);
        for (; row < end; ++row) rows.template operator()<1>(row, 1);
    };
    if (part.streams == together) {
        for (std::size_t row = part.row; row < part.row + part.rows; ++row) {
            rows.template operator()<together>(row, part.apart);
        }
    } else {  // cut for a matrix of another type
        for (std::size_t stream = 0; stream < part.streams; ++stream) {
            const std::size_t row = part.row + stream * part.apart;
            neighbours(row, row + part.rows);
        }
    }
    if (!WHET_DECODE_PLANT(rest_of_rows_lost)) neighbours(part.rest.begin, part.rest.end);
}

template <WeightType T>
void multiply_batch(std::size_t padded_batch, const Matrix& m, const Part& part, std::size_t first, std::size_t last,
                    const float* x, std::size_t x_stride, float* out, std::size_t out_stride, std::size_t batch) {
    switch (padded_batch) {
        case 1:
            return multiply_typed<T, 1>(m, part, first, last, x, x_stride, out, out_stride, batch);
        case 2:
            return multiply_typed<T, 2>(m, part, first, last, x, x_stride, out, out_stride, batch);
        case 4:
            return multiply_typed<T, 4>(m, part, first, last, x, x_stride, out, out_stride, batch);
        default:
            return multiply_typed<T, 4, 2>(m, part, first, last, x, x_stride, out, out_stride, batch);
    }
}

// out[b][row] = sum over the blocks of m[row][k] * x[b][k], for the rows of the part and every b below batch.
inline void multiply(const Context& c, const Matrix& m, const Part& part, std::size_t first, std::size_t last,
                     const float* x, std::size_t x_stride, float* out, std::size_t out_stride) {
    if (WHET_DECODE_PLANT(dot_skips_last_block) && last - first > 1) --last;
    const std::size_t batch = c.step.batch;
    const auto run = [&](auto multiply_one) {
        multiply_one(c.padded_batch, m, part, first, last, x, x_stride, out, out_stride, batch);
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

// How many rows of the matrix go together in this step.
inline std::size_t rows_together(const Context& c, const Matrix& m) {
    if (c.padded_batch > 1) return rows_in_batch;
    return m.type == WeightType::fp4 ? rows_alone<WeightType::fp4> : rows_alone<WeightType::f32>;
}

// A unit of about this many bytes is 4 us of one core's reading: less than the 0.1 ms in which a barrier may put a
// worker to sleep, and two hundred times what its claim costs.
constexpr std::size_t unit_bytes = 65536;

inline Plan plan_rows(const Context& c, const Matrix& m, Rows rows) {
    constexpr std::size_t bytes[] = {block_bytes<WeightType::f32>, block_bytes<WeightType::bf16>,
                                     block_bytes<WeightType::int8>, block_bytes<WeightType::fp4>};
    const std::size_t together = rows_together(c, m);
    const std::size_t step = unit_bytes / (together * m.blocks() * bytes[static_cast<std::size_t>(m.type)]);
    return Plan(rows, together, 1, step > 1 ? step : 1);
}

}  // namespace
}  // namespace whet::decode
