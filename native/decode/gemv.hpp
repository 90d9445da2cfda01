// Matrix times a few vectors, bound by the memory that the weights stream from. Four rows go together so that four
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

// The scale of each block, for fp4; e4m3 has 256 values.
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

template <WeightType T>
WHET_INLINE F weight_block(const std::uint8_t* row, const std::uint8_t* scales, const float* table, std::size_t block) {
    const std::uint8_t* at = row + block * block_bytes<T>;
    if constexpr (T == WeightType::f32) return load(reinterpret_cast<const float*>(at));
    if constexpr (T == WeightType::bf16) return from_bf16(at);
    if constexpr (T == WeightType::int8) return from_int8(at);
    if constexpr (T == WeightType::fp4) {
        const std::size_t of = WHET_DECODE_PLANT(fp4_scale_of_first_block) ? 0 : block;
        return from_fp4(at) * table[scales[of]];
    }
}

// Rows [row, row + R) over blocks [first, last): lane l sums columns l, l + 16, ... ascending, then the tree.
template <WeightType T, std::size_t N, std::size_t R>
WHET_INLINE void dot_rows(const Matrix& m, std::size_t row, std::size_t first, std::size_t last, const float* x,
                          std::size_t x_stride, float* out, std::size_t out_stride, std::size_t batch) {
    const auto* data = static_cast<const std::uint8_t*>(m.data);
    const auto* scales = static_cast<const std::uint8_t*>(m.scales);
    const float* table = T == WeightType::fp4 ? scale_table().value : nullptr;
    F sum[R][N] = {};
    for (std::size_t block = first; block < last; ++block) {
        F input[N];
        for (std::size_t n = 0; n < N; ++n) input[n] = load(x + n * x_stride + block * lanes);
        for (std::size_t r = 0; r < R; ++r) {
            const std::size_t base = (row + r) * m.blocks();
            const F w = weight_block<T>(data + base * block_bytes<T>, scales + base, table, block);
            for (std::size_t n = 0; n < N; ++n) sum[r][n] = sum[r][n] + w * input[n];
        }
    }
    for (std::size_t r = 0; r < R; ++r) {
        float scale = m.global_scale;
        if constexpr (T == WeightType::int8) {
            const std::size_t of = WHET_DECODE_PLANT(int8_scale_of_next_row) ? (row + r + 1) % m.rows : row + r;
            scale = static_cast<const float*>(m.scales)[of];
        }
        for (std::size_t n = 0; n < N && n < batch; ++n) {
            const float total = fold(sum[r][n]);
            const bool scaled = T == WeightType::int8 || T == WeightType::fp4;
            out[n * out_stride + row + r] = scaled ? total * scale : total;
        }
    }
}

// `Passes` times N sequences: eight at once would need more registers than there are (103 against 65 ms), and the
// second four find the rows in the cache.
template <WeightType T, std::size_t N, std::size_t Passes = 1>
void multiply_typed(const Matrix& m, std::size_t begin, std::size_t end, std::size_t first, std::size_t last,
                    const float* x, std::size_t x_stride, float* out, std::size_t out_stride, std::size_t batch) {
    constexpr std::size_t together = 4;
    std::size_t row = begin;
    for (; row < end; row += row + together <= end ? together : 1) {
        for (std::size_t pass = 0; pass < Passes; ++pass) {
            const float* from = x + pass * N * x_stride;
            float* to = out + pass * N * out_stride;
            const std::size_t left = batch - pass * N;
            if (row + together <= end) {
                dot_rows<T, N, together>(m, row, first, last, from, x_stride, to, out_stride, left);
            } else {
                dot_rows<T, N, 1>(m, row, first, last, from, x_stride, to, out_stride, left);
            }
        }
    }
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
