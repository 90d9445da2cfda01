// The MSM variants of a build with planted faults, behind a C interface. tests/msm/faulty_engine.py loads it and puts
// each fault before the real gate. `plant` makes one fault active (1 is the first name of the list, 0 none).
#include <cstddef>
#include <span>

#include "curve/batch.hpp"
#include "fault.hpp"
#include "msm/reference.hpp"

#ifndef WHET_FAULTS
#error "this library is for builds with WHET_FAULTS only"
#endif

using namespace whet;

namespace {

constexpr const char* names[] = {"none", WHET_FAULT_LIST(WHET_PLANT_TEXT)};

void answer(const G1Jacobian& sum, u64* out) {
    const G1Affine point = sum.affine();
    write_points({&point, 1}, {reinterpret_cast<Limbs<8>*>(out), 1});
}

std::span<const G1Affine> as_points(const u64* limbs, std::size_t n) {
    return {reinterpret_cast<const G1Affine*>(limbs), n};
}

std::span<const Scalar256> as_scalars(const u64* limbs, std::size_t n) {
    return {reinterpret_cast<const Scalar256*>(limbs), n};
}

}  // namespace

#define WHET_EXPORT extern "C" __attribute__((visibility("default")))

WHET_EXPORT const char* whet_fault_name(std::size_t number) {
    return number < std::size(names) ? names[number] : nullptr;
}

WHET_EXPORT void whet_plant(int number) { Planted<Fault>::active = static_cast<Fault>(number); }

WHET_EXPORT void whet_plain(const u64* points, const u64* scalars, std::size_t n, u64* out) {
    MsmWork work;
    answer(msm_plain(as_points(points, n), as_scalars(scalars, n), work), out);
}

WHET_EXPORT void whet_pippenger(const u64* points, const u64* scalars, std::size_t n, unsigned window_bits, bool glv,
                                u64* out) {
    MsmWork work;
    answer(msm_pippenger(as_points(points, n), as_scalars(scalars, n), {.window_bits = window_bits, .glv = glv}, work),
           out);
}
