// The decode layer on small shapes: every instruction set, worker count, weight and KV type gives the bits of one
// worker with portable code. What it is for is the builds around it: sanitizers see every load, store and race of the
// cooperative kernel, with guard bytes right behind every array.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.hpp"
#include "decode/stream.hpp"
#include "decode_fixture.hpp"

using namespace whet::decode;
using whet::test::Fixture;

namespace {

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
        CHECK(same_bits(want, f.run(isa, 2, {.wo_split = 3, .claimed = false}, true)));
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
