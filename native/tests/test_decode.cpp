// The decode layer on small shapes: every instruction set, worker count, weight and KV type gives the bits of one
// worker with portable code. What it is for is the builds around it: sanitizers see every load, store and race of the
// cooperative kernel, with guard bytes right behind every array.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"
#include "decode/layer.hpp"
#include "decode/stream.hpp"

using namespace whet::decode;

namespace {

constexpr std::size_t block_bytes[] = {64, 32, 16, 8};
constexpr std::size_t kv_bytes[] = {4, 2, 1};

// Arrays of exactly the size that is allowed to be read.
struct Stored {
    std::vector<std::uint8_t> data, scales;
    Matrix matrix;
};

Stored stored(WeightType type, std::size_t rows, std::size_t cols, std::mt19937& rng) {
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

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void every_way_gives_the_same_bits(WeightType type, KvType kv, std::size_t batch) {
    Fixture f(type, kv, batch);
    const auto want = f.run(Isa::portable, 1, {.wo_split = 3}, false);
    for (const float value : want) CHECK(std::isfinite(value));
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
        if (!isa_usable(isa)) continue;
        CHECK(same_bits(want, f.run(isa, 2, {.wo_split = 3}, true)));
        CHECK(same_bits(want, f.run(isa, 3, {.wo_split = 3, .fc1_shared = false}, false)));
        CHECK(same_bits(want, f.run(isa, 2, {.wo_split = 3, .fused = false}, false)));
    }
}

void the_reader_reads_every_word() {
    whet::graph::Pool pool(3);
    for (const std::size_t count : {0U, 1U, 9U, 129U, 1001U}) {
        std::vector<std::uint64_t> words(count);
        std::uint64_t want = 0;
        for (std::size_t i = 0; i < count; ++i) want += words[i] = (i + 1) * 0x9e3779b97f4a7c15ULL;
        for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
            for (unsigned streams = 1; isa_usable(isa) && streams <= max_streams; streams *= 2) {
                CHECK(read_stretches(pool, isa, {{words.data(), count * sizeof(std::uint64_t)}}, streams) == want);
            }
        }
    }
}

}  // namespace

int main() {
    for (const auto type : {WeightType::f32, WeightType::bf16, WeightType::int8, WeightType::fp4}) {
        every_way_gives_the_same_bits(type, KvType::f32, 1);
        every_way_gives_the_same_bits(type, KvType::bf16, 3);
        every_way_gives_the_same_bits(type, KvType::e4m3, 8);
    }
    the_reader_reads_every_word();
    return whet::test::finish("test_decode");
}
