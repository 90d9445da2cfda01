// The decode layer of a build with planted faults, behind a C interface. tests/decode/faulty_decode.py loads it.
// `plant` makes one fault active (1 is the first name of the list, 0 none).
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "decode/kernel.hpp"
#include "decode/layer.hpp"
#include "decode/plants.hpp"

#ifndef WHET_FAULTS
#error "this library is for builds with WHET_FAULTS only"
#endif

using namespace whet::decode;

namespace {

constexpr const char* names[] = {"none", WHET_DECODE_PLANT_LIST(WHET_PLANT_TEXT)};

}  // namespace

// This build has the untimed kernel alone; layer.cpp names both.
void whet::decode::kernel_portable_timed(Context& c, int first, int last, unsigned worker) {
    kernel_portable(c, first, last, worker);
}

#define WHET_EXPORT extern "C" __attribute__((visibility("default")))

WHET_EXPORT const char* whet_decode_plant_name(std::size_t number) {
    return number < std::size(names) ? names[number] : nullptr;
}

WHET_EXPORT void whet_decode_plant(int number) { whet::Planted<Plant>::active = static_cast<Plant>(number); }

// Runs the step twice on one layer and leaves the arrivals of the second launch; false where the step is refused.
WHET_EXPORT bool whet_decode_step(const Shape* shape, const Weights* weights, const Step* step, const Variant* variant,
                                  unsigned workers, std::uint32_t* arrivals) {
    Layer layer(*shape, *weights, workers, Isa::portable);
    for (int launch = 0; launch < 2; ++launch) {
        if (!layer.run(*step, *variant).empty()) return false;
    }
    const auto found = layer.arrivals();
    std::copy(found.begin(), found.end(), arrivals);
    return true;
}
