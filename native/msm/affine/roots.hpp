// Candidates for square roots in Fp, in batches: the slow part of decompressing points.
#pragma once

#include "curve/batch.hpp"

namespace whet::msm {

// The fastest batch of v^((p + 1) / 4) that this CPU runs.
RootBatch fastest_roots();

// By AVX-512 IFMA; only where ifma_kernel is usable.
void roots_ifma(const Fp* values, Fp* roots, std::size_t n);

}  // namespace whet::msm
