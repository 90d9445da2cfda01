// Points as callers give them, checked and brought into Montgomery form (R = 2^256), by the fastest code of this CPU.
#pragma once

#include "curve/batch.hpp"

namespace whet::msm {

// As read_points of the curve.
FirstDefect read_points_fast(std::span<const Limbs<8>> raw, bool montgomery, bool check_curve, std::span<G1Affine> out);

#if defined(__x86_64__)
// Reads points eight at a time as long as nothing is wrong with them. Returns how many were read.
std::size_t read_points_ifma(const std::byte* points, std::size_t n, bool montgomery, bool check_curve, std::byte* out);
#endif

}  // namespace whet::msm
