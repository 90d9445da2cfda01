// Paged attention of one sequence and one KV head: the query heads of the group share every key and value they load.
// Tokens go in tiles of 16 in the order of the sequence, whatever the page size; online softmax from tile to tile.
// Only tokens below the length are read, so the rest of the last page may hold anything.
#pragma once

#include <cmath>
#include <limits>

#include "decode/lanes.hpp"

namespace whet::decode {
namespace {

// v[i], v[i + half] -> v[i] cos - v[i + half] sin, v[i + half] cos + v[i] sin
inline void rotate(float* v, const float* cosine, const float* sine, std::size_t half) {
    const float sign = WHET_DECODE_PLANT(rotary_sign_wrong) ? -1.0F : 1.0F;
    for (std::size_t i = 0; i < half; ++i) {
        const float a = v[i];
        const float b = v[i + half];
        v[i] = a * cosine[i] - b * (sign * sine[i]);
        v[i + half] = b * cosine[i] + a * (sign * sine[i]);
    }
}

// Where the token's row starts in the cache, in elements.
inline std::size_t token_row(const Context& c, std::size_t b, std::size_t head, std::size_t token) {
    const Step& s = c.step;
    auto page = static_cast<std::size_t>(s.table[b * s.table_width + token / s.page_size]);
    if (WHET_DECODE_PLANT(page_table_ignored)) page = (token / s.page_size) % s.pages;
    return ((page * s.page_size + token % s.page_size) * c.shape.kv_heads + head) * c.shape.head_dim;
}

// Scratch of one worker: the group's queries (or the sum of values) as (group, head_dim), and 16 weights per head.
struct AttentionScratch {
    float *query, *sum, *weight, *top, *total;
};

inline AttentionScratch attention_scratch(const Context& c, float* at) {
    const std::size_t group = c.shape.q_heads / c.shape.kv_heads;
    const std::size_t size = group * c.shape.head_dim;
    return {at, at + size, at + 2 * size, at + 2 * size + group * lanes, at + 2 * size + group * (lanes + 1)};
}

// body.operator()<Heads>(g) for heads g, g + 1, ... of the group, up to four at a time: sums of so many stay in
// registers.
template <class Body>
WHET_INLINE void in_fours(std::size_t group, Body&& body) {
    std::size_t g = 0;
    for (; g + 4 <= group; g += 4) body.template operator()<4>(g);
    for (; g + 2 <= group; g += 2) body.template operator()<2>(g);
    if (g < group) body.template operator()<1>(g);
}

template <class Key>
WHET_INLINE void score(const AttentionScratch& s, std::size_t group, std::size_t head_dim, float scale,
                       std::size_t slot, Key&& key) {
    in_fours(group, [&]<std::size_t Heads>(std::size_t g0) WHET_BODY {
        F sum[Heads] = {};
        for (std::size_t d = 0; d < head_dim; d += lanes) {
            const F k = key(d);
            repeat<Heads>([&](auto g)
                              WHET_BODY { sum[g] = fused(k, load(s.query + (g0 + g) * head_dim + d), sum[g]); });
        }
        repeat<Heads>([&](auto g) WHET_BODY { s.weight[(g0 + g) * lanes + slot] = fold(sum[g]) * scale; });
    });
}

// The values of a tile: value(i, d) is token i at d. Each element takes the tokens in their order.
template <class Value>
WHET_INLINE void add_values(const AttentionScratch& s, std::size_t group, std::size_t head_dim, std::size_t tokens,
                            Value&& value) {
    for (std::size_t d = 0; d < head_dim; d += lanes) {
        in_fours(group, [&]<std::size_t Heads>(std::size_t g0) WHET_BODY {
            F sum[Heads];
            repeat<Heads>([&](auto g) WHET_BODY { sum[g] = load(s.sum + (g0 + g) * head_dim + d); });
            for (std::size_t i = 0; i < tokens; ++i) {
                const F v = value(i, d);
                repeat<Heads>([&](auto g)
                                  WHET_BODY { sum[g] = fused(v, all(s.weight[(g0 + g) * lanes + i]), sum[g]); });
            }
            repeat<Heads>([&](auto g) WHET_BODY { store(s.sum + (g0 + g) * head_dim + d, sum[g]); });
        });
    }
}

// Scores of a tile become weights; what was summed before is rescaled to the new maximum.
inline void soften(const AttentionScratch& s, std::size_t group, std::size_t head_dim) {
    const float lowest = -std::numeric_limits<float>::infinity();
    for (std::size_t g = 0; g < group; ++g) {
        float* weight = s.weight + g * lanes;
        float top = s.top[g];
        for (std::size_t i = 0; i < lanes; ++i) top = weight[i] > top ? weight[i] : top;
        const F scores = load(weight);
        const F p = scores == lowest ? F{} : exponential(scores - top);
        float keep = 1.0F;
        if (s.top[g] != top) {
            float lane[lanes];
            store(lane, exponential(all(s.top[g] - top)));
            keep = lane[0];
        }
        store(weight, p);
        s.total[g] = (WHET_DECODE_PLANT(softmax_sum_not_rescaled) ? s.total[g] : s.total[g] * keep) + fold(p);
        s.top[g] = top;
        if (keep == 1.0F || WHET_DECODE_PLANT(softmax_not_rescaled)) continue;
        for (std::size_t d = 0; d < head_dim; d += lanes) {
            float* at = s.sum + g * head_dim + d;
            store(at, load(at) * keep);
        }
    }
}

// Asks for the rows of a tile early: neighbouring tokens are too far apart for the prefetcher of the CPU.
template <KvType T>
WHET_INLINE void fetch(const void* cache, const std::size_t* row, std::size_t tokens, std::size_t dim) {
    constexpr std::size_t bytes = T == KvType::f32 ? 4 : T == KvType::bf16 ? 2 : 1;
    constexpr std::size_t line = 64;
    const auto* at = static_cast<const std::uint8_t*>(cache);
    for (std::size_t i = 0; i < tokens; ++i) {
        for (std::size_t d = 0; d < dim * bytes; d += line) __builtin_prefetch(at + row[i] * bytes + d);
    }
}

template <KvType T>
void attend(Context& c, std::size_t b, std::size_t head, float* scratch) {
    const Shape& shape = c.shape;
    const Step& step = c.step;
    const std::size_t dim = shape.head_dim;
    const std::size_t group = shape.q_heads / shape.kv_heads;
    const AttentionScratch s = attention_scratch(c, scratch);
    const float* projected = c.qkv + b * c.q_stride;
    const std::size_t first_head =
        (WHET_DECODE_PLANT(group_takes_wrong_head) ? shape.kv_heads - 1 - head : head) * group;
    std::memcpy(s.query, projected + first_head * dim, group * dim * sizeof(float));
    float* own_key = c.qkv + b * c.q_stride + shape.q_size() + head * dim;
    const float* own_value = own_key + shape.kv_size();
    if (step.cosine != nullptr) {
        const float* cosine = step.cosine + b * (dim / 2);
        const float* sine = step.sine + b * (dim / 2);
        for (std::size_t g = 0; g < group; ++g) rotate(s.query + g * dim, cosine, sine, dim / 2);
        if (shape.own_token && !WHET_DECODE_PLANT(rotary_forgets_keys)) rotate(own_key, cosine, sine, dim / 2);
    }
    if (shape.own_token) {
        std::memcpy(step.k_out + b * shape.kv_size() + head * dim, own_key, dim * sizeof(float));
        std::memcpy(step.v_out + b * shape.kv_size() + head * dim, own_value, dim * sizeof(float));
    }
    std::size_t cached = static_cast<std::size_t>(step.lengths[b]);
    if (WHET_DECODE_PLANT(tail_token_dropped) && cached % step.page_size == 1) --cached;
    if (WHET_DECODE_PLANT(tail_reads_beyond) && cached % step.page_size != 0) ++cached;
    const bool own = shape.own_token && !WHET_DECODE_PLANT(own_token_forgotten);
    const std::size_t tokens = cached + (own ? 1 : 0);
    const float scale = WHET_DECODE_PLANT(attention_scale_missing) ? 1.0F : 1.0F / std::sqrt(static_cast<float>(dim));
    for (std::size_t g = 0; g < group; ++g) {
        s.top[g] = -std::numeric_limits<float>::infinity();
        s.total[g] = 0.0F;
    }
    std::memset(s.sum, 0, group * dim * sizeof(float));
    const auto cached_in = [&](std::size_t start) {  // tokens of a tile that are in the cache; the own one is the last
        return start >= cached ? 0 : cached - start < lanes ? cached - start : lanes;
    };
    std::size_t rows[2][lanes];  // of this tile and of the next
    const auto find = [&](std::size_t start) {
        std::size_t* row = rows[start / lanes % 2];
        for (std::size_t i = 0; i < cached_in(start); ++i) row[i] = token_row(c, b, head, start + i);
        fetch<T>(step.k_cache, row, cached_in(start), dim);
    };
    find(0);
    for (std::size_t start = 0; start < tokens; start += lanes) {
        const std::size_t count = tokens - start < lanes ? tokens - start : lanes;
        const std::size_t in_cache = cached_in(start);
        const std::size_t* row = rows[start / lanes % 2];
        fetch<T>(step.v_cache, row, in_cache, dim);
        find(start + lanes);
        for (std::size_t i = 0; i < group * lanes; ++i) s.weight[i] = -std::numeric_limits<float>::infinity();
        for (std::size_t i = 0; i < in_cache; ++i) {
            score(s, group, dim, scale, i, [&](std::size_t d) { return from_kv<T>(step.k_cache, row[i] + d); });
        }
        if (in_cache < count) score(s, group, dim, scale, in_cache, [&](std::size_t d) { return load(own_key + d); });
        soften(s, group, dim);
        add_values(s, group, dim, in_cache,
                   [&](std::size_t i, std::size_t d) { return from_kv<T>(step.v_cache, row[i] + d); });
        if (in_cache == count) continue;
        for (std::size_t g = 0; g < group; ++g) s.weight[g * lanes] = s.weight[g * lanes + in_cache];
        add_values(s, group, dim, 1, [&](std::size_t, std::size_t d) { return load(own_value + d); });
    }
    // Without a token there is nothing to attend to: the sum is zero and stays so.
    for (std::size_t g = 0; g < group; ++g) {
        const std::size_t at = (head * group + g) * dim;
        for (std::size_t d = 0; d < dim; d += lanes) {
            F value = s.total[g] == 0.0F ? F{} : load(s.sum + g * dim + d) / s.total[g];
            if (step.gate != nullptr) {
                const F gate = load(step.gate + b * shape.q_size() + at + d);
                value = value * (WHET_DECODE_PLANT(gate_without_sigmoid) ? gate : sigmoid(gate));
            }
            store(c.attended + b * shape.q_size() + at + d, value);
        }
    }
}

}  // namespace
}  // namespace whet::decode
