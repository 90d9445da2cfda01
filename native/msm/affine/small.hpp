// Sums of so few points that buckets would cost more than they save: which code, and up to how many.
#pragma once

#include "msm/affine/straus.hpp"

namespace whet::msm {

extern const StrausSum straus_portable;
#if defined(__x86_64__)
extern const StrausSum straus_adx;
#endif

// What goes with a kernel. The vector kernel has none of its own: its points are converted for the scalar one.
struct SmallSums {
    StrausSum sum;
    std::size_t most;  // points up to which it is faster than the kernel's buckets
};
SmallSums small_sums(const Kernel& kernel);

// The sum of n points as they lie in a table of that kernel. `scratch`: small_bytes(n).
G1Affine small_sum(const Kernel& kernel, const std::byte* table, const std::byte* scalars, std::size_t n, void* scratch,
                   Counts& counts, u64& entries);
constexpr std::size_t small_bytes(std::size_t n) { return straus_bytes(n) + point_bytes * n; }

}  // namespace whet::msm
