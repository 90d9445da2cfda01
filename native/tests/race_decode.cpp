// The cooperative launch of the decode layer for the thread sanitizer: portable kernel with its regions, a few shapes,
// every way to share rows. With the word "relaxed" the barrier publishes nothing, which the sanitizer must see.
#include <cstring>

#include "check.hpp"
#include "decode/kernel.hpp"
#include "decode/plants.hpp"
#include "decode_fixture.hpp"

#ifndef WHET_FAULTS
#error "this program is for builds with WHET_FAULTS only"
#endif

using namespace whet::decode;

// This build has the timed kernel alone; layer.cpp names both.
void whet::decode::kernel_portable(Context& c, int first, int last, unsigned worker) {
    kernel_portable_timed(c, first, last, worker);
}

int main(int count, char** words) {
    if (count > 1 && std::strcmp(words[1], "relaxed") == 0) whet::Planted<Plant>::active = Plant::barrier_relaxed;
    for (const auto type : {WeightType::int8, WeightType::fp4}) {
        for (const std::size_t batch : {1U, 3U}) {
            whet::test::Fixture f(type, KvType::bf16, batch);
            const auto want = f.run(Isa::portable, 1, {.wo_split = 3}, true);
            for (const unsigned workers : {2U, 3U}) {
                for (const Variant& variant :
                     {Variant{.wo_split = 3}, Variant{.wo_split = 3, .fc1_shared = false},
                      Variant{.wo_split = 3, .fused = false}, Variant{.wo_split = 3, .claimed = false}}) {
                    CHECK(f.run(Isa::portable, workers, variant, true) == want);
                }
            }
        }
    }
    return whet::test::finish("race_decode");
}
