// What surrounds the sums of the vector kernel: see chunk.hpp for what each function of a kernel does.
#pragma once

#include "msm/affine/chunk.hpp"

namespace whet::msm {

void prepare_ifma(const std::byte* points, std::size_t n, bool montgomery, std::byte* table);
void decompose_ifma(const std::byte* scalars, std::size_t n, const Digits& digits);

}  // namespace whet::msm
