// Points into the prepared table and scalars into digits, one at a time, for kernels without vectors for it.
#pragma once

#include "msm/affine/chunk.hpp"

namespace whet::msm {

void prepare_scalar(const std::byte* points, std::size_t n, bool montgomery, std::byte* table);
// The same for R = 2^255.
void prepare_scalar_255(const std::byte* points, std::size_t n, bool montgomery, std::byte* table);
void decompose_scalar(const std::byte* scalars, std::size_t n, const Digits& digits);

}  // namespace whet::msm
