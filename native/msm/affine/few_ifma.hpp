// A few points, eight to a vector, with AVX-512 IFMA.
#pragma once

#include "msm/affine/chunk.hpp"

namespace whet::msm {

// Scratch for n points, aligned to 64.
std::size_t few_ifma_bytes(std::size_t n);

// Points whose sum with weights 2^i is the answer, to by_bit: room for 128 points of 64 bytes in Montgomery form
// (R = 2^256), zeros on entry. `points`: n of 64 bytes, infinity as zeros, with R = 2^260 if `converted`, else 2^256.
// `scalars`: n of 32 bytes, little-endian, any.
void few_ifma(const std::byte* points, bool converted, const std::byte* scalars, std::size_t n, void* scratch,
              std::byte* by_bit, Counts& counts, u64& entries);

}  // namespace whet::msm
