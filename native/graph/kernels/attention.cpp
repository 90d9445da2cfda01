// Paged attention in four steps over one or more cache blocks: scores, softmax of the block, weighted values, and the
// running combination of blocks. Against a plain softmax it keeps a maximum and a sum per head, so that no step needs
// all blocks; that buys a graph with one short task per block. It presses on memory: each cache block is read once.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/kernels/kernels.hpp"

namespace whet::graph::kernel {

namespace {

using Half = std::uint16_t;  // bfloat16

float wide(Half x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

// To nearest, ties to even. The values rounded here are probabilities: never NaN.
Half narrow(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<Half>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Block i of a sequence: the i-th itself, or the one that the block table names.
const Half* cache_block(const void* cache, std::uint64_t table, std::size_t index, std::size_t elements) {
    const auto* entries = std::bit_cast<const std::int64_t*>(table);
    const std::size_t block = entries ? static_cast<std::size_t>(entries[index]) : index;
    return static_cast<const Half*>(cache) + block * elements;
}

}  // namespace

int scores(Tensors tensors, Scalars scalars, void*) {
    const std::size_t heads = scalars[0], width = scalars[1], block = scalars[2], blocks = scalars[3];
    const auto* query = static_cast<const Half*>(tensors[0]);
    auto* out = static_cast<float*>(tensors[2]);
    for (std::size_t b = 0; b < blocks; ++b) {
        const Half* keys = cache_block(tensors[1], scalars[4], b, block * width);
        for (std::size_t h = 0; h < heads; ++h) {
            for (std::size_t j = 0; j < block; ++j) {
                float sum = 0;
                for (std::size_t d = 0; d < width; ++d) sum += wide(query[h * width + d]) * wide(keys[j * width + d]);
                out[(h * blocks + b) * block + j] = sum;
            }
        }
    }
    return 0;
}

// Columns from `valid` on are beyond the context: their probability is 0, their score is not read.
int softmax(Tensors tensors, Scalars scalars, void*) {
    const std::size_t heads = scalars[0], columns = scalars[1], valid = scalars[2];
    const auto scale = static_cast<float>(std::bit_cast<double>(scalars[3]));
    const auto* in = static_cast<const float*>(tensors[0]);
    auto* probabilities = static_cast<Half*>(tensors[1]);
    auto* maximum = static_cast<float*>(tensors[2]);
    auto* total = static_cast<float*>(tensors[3]);
    for (std::size_t h = 0; h < heads; ++h) {
        const float* row = in + h * columns;
        const float top = scale * *std::max_element(row, row + valid);
        float sum = 0;
        for (std::size_t j = 0; j < columns; ++j) {
            const Half p = j < valid ? narrow(std::exp(scale * row[j] - top)) : Half{0};
            probabilities[h * columns + j] = p;
            sum += wide(p);
        }
        maximum[h] = top;
        total[h] = sum;
    }
    return 0;
}

int weighted_values(Tensors tensors, Scalars scalars, void*) {
    const std::size_t heads = scalars[0], width = scalars[1], block = scalars[2], blocks = scalars[3];
    const auto* probabilities = static_cast<const Half*>(tensors[0]);
    auto* out = static_cast<float*>(tensors[2]);
    std::memset(out, 0, heads * width * sizeof(float));
    for (std::size_t b = 0; b < blocks; ++b) {
        const Half* values = cache_block(tensors[1], scalars[4], b, block * width);
        for (std::size_t h = 0; h < heads; ++h) {
            for (std::size_t j = 0; j < block; ++j) {
                const float p = wide(probabilities[(h * blocks + b) * block + j]);
                for (std::size_t d = 0; d < width; ++d) out[h * width + d] += p * wide(values[j * width + d]);
            }
        }
    }
    return 0;
}

int update(Tensors tensors, Scalars scalars, void*) {
    const std::size_t heads = scalars[0], width = scalars[1];
    const bool first = scalars[2] != 0, last = scalars[3] != 0;
    const auto* block_maximum = static_cast<const float*>(tensors[0]);
    const auto* block_sum = static_cast<const float*>(tensors[1]);
    const auto* partial = static_cast<const float*>(tensors[2]);
    auto* maximum = static_cast<float*>(tensors[3]);
    auto* total = static_cast<float*>(tensors[4]);
    auto* accumulator = static_cast<float*>(tensors[5]);
    auto* out = static_cast<float*>(tensors[6]);
    for (std::size_t h = 0; h < heads; ++h) {
        const float before = first ? -std::numeric_limits<float>::infinity() : maximum[h];
        const float top = std::max(before, block_maximum[h]);
        const float keep = first ? 0 : std::exp(before - top);
        const float gain = std::exp(block_maximum[h] - top);
        const float sum = (first ? 0 : keep * total[h]) + gain * block_sum[h];
        for (std::size_t d = 0; d < width; ++d) {
            const std::size_t i = h * width + d;
            accumulator[i] = (first ? 0 : keep * accumulator[i]) + gain * partial[i];
            if (last) out[i] = accumulator[i] / sum;
        }
        maximum[h] = top;
        total[h] = sum;
    }
    return 0;
}

}  // namespace whet::graph::kernel
