// A small decode layer with a step, for native test programs: arrays of exactly the size that may be read.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"
#include "decode/layer.hpp"

namespace whet::test {

using namespace whet::decode;

inline constexpr std::size_t block_bytes[] = {64, 32, 16, 8};
inline constexpr std::size_t kv_bytes[] = {4, 2, 1};

struct Stored {
    std::vector<std::uint8_t> data, scales;
    Matrix matrix;
};

inline Stored stored(WeightType type, std::size_t rows, std::size_t cols, std::mt19937& rng) {
    Stored s;
    const auto kind = static_cast<std::size_t>(type);
    s.matrix = {type, rows, cols, nullptr, nullptr, 0.01F};
    s.data.assign(rows * s.matrix.blocks() * block_bytes[kind], 0);
    const auto put = [&](std::vector<std::uint8_t>& to, std::size_t at, const void* from, std::size_t size) {
        std::memcpy(to.data() + at, from, size);
    };
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t col = 0; col < cols; ++col) {
            const float value = (static_cast<float>(rng() % 2001U) - 1000.0F) / 4000.0F;
            const std::size_t at = row * s.matrix.blocks() * lanes + col;
            std::uint32_t word;
            std::memcpy(&word, &value, sizeof word);
            const auto half = static_cast<std::uint16_t>(word >> 16);
            if (type == WeightType::f32) put(s.data, at * 4, &value, 4);
            if (type == WeightType::bf16) put(s.data, at * 2, &half, 2);
            if (type == WeightType::int8) s.data[at] = static_cast<std::uint8_t>(word);
            if (type == WeightType::fp4) s.data[at / 2] = static_cast<std::uint8_t>(word);
        }
    }
    if (type == WeightType::int8) {
        s.scales.resize(rows * sizeof(float));
        const float scale = 0.001F;
        for (std::size_t row = 0; row < rows; ++row) put(s.scales, row * 4, &scale, 4);
    }
    if (type == WeightType::fp4) {
        s.scales.resize(rows * s.matrix.blocks());
        for (auto& scale : s.scales) scale = static_cast<std::uint8_t>(0x30U + rng() % 16U);
    }
    s.matrix.data = s.data.data();
    s.matrix.scales = s.scales.data();
    return s;
}

struct Fixture {
    Shape shape{.hidden = 39, .intermediate = 67, .q_heads = 4, .kv_heads = 2, .head_dim = 16};
    std::vector<Stored> matrices;
    std::vector<float> norms[2];
    std::vector<std::uint8_t> k, v;
    std::vector<std::int32_t> table, lengths;
    std::vector<float> x;
    Weights weights;
    Step step;

    Fixture(WeightType type, KvType kv, std::size_t batch) {
        std::mt19937 rng(static_cast<unsigned>(batch) * 16U + static_cast<unsigned>(type) * 4U +
                         static_cast<unsigned>(kv));
        Matrix* const places[] = {&weights.q,    &weights.k,  &weights.v,   &weights.o,
                                  &weights.gate, &weights.up, &weights.down};
        const std::size_t rows[] = {64, 32, 32, 39, 67, 67, 39};
        const std::size_t cols[] = {39, 39, 39, 64, 39, 39, 67};
        for (std::size_t i = 0; i < 7; ++i) matrices.push_back(stored(type, rows[i], cols[i], rng));
        for (std::size_t i = 0; i < 7; ++i) *places[i] = matrices[i].matrix;
        for (auto& norm : norms) norm.assign(shape.hidden, 1.0F);
        weights.norm_attention = norms[0].data();
        weights.norm_mlp = norms[1].data();
        step.batch = batch;
        step.page_size = 3;
        step.table_width = 7;
        step.pages = 7 * batch;
        step.kv = kv;
        const std::size_t entries = step.pages * step.page_size * shape.kv_size();
        for (auto* cache : {&k, &v}) {
            cache->assign(entries * kv_bytes[static_cast<std::size_t>(kv)], 0);
            for (auto& byte : *cache) byte = static_cast<std::uint8_t>(rng() % 64U);  // small, finite in every type
        }
        for (std::size_t i = 0; i < step.pages; ++i) table.push_back(static_cast<std::int32_t>(step.pages - 1 - i));
        for (std::size_t b = 0; b < batch; ++b) lengths.push_back(static_cast<std::int32_t>(b == 1 ? 0 : 21 - b));
        for (std::size_t i = 0; i < batch * shape.hidden; ++i)
            x.push_back(static_cast<float>(rng() % 100U) / 50.0F - 1.0F);
        step.x = x.data();
        step.k_cache = k.data();
        step.v_cache = v.data();
        step.table = table.data();
        step.lengths = lengths.data();
    }

    std::vector<float> run(Isa isa, unsigned workers, const Variant& variant, bool timed) {
        std::vector<float> out(step.batch * shape.hidden, NAN);
        std::vector<float> own(2 * step.batch * shape.kv_size(), NAN);
        Step given = step;
        given.out = out.data();
        given.k_out = own.data();
        given.v_out = own.data() + step.batch * shape.kv_size();
        Layer layer(shape, weights, workers, isa);
        for (int launch = 0; launch < 2; ++launch) CHECK(layer.run(given, variant, timed).empty());
        CHECK(layer.region_ticks().empty() == !timed);
        out.insert(out.end(), own.begin(), own.end());
        return out;
    }
};

}  // namespace whet::test
