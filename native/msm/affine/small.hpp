// Sums of so few points that buckets would cost more than they save: which code, and up to how many.
#pragma once

#include "msm/affine/forms.hpp"
#include "msm/affine/jacobian.hpp"
#include "msm/affine/multiples.hpp"
#include "msm/affine/straus.hpp"

namespace whet::msm {

extern const StrausSum straus_portable;
extern const HornerSum horner_portable;
extern const Multiples multiples_portable;
#if defined(__x86_64__)
extern const StrausSum straus_adx;
extern const HornerSum horner_adx;
extern const Multiples multiples_adx;
#endif

// The fastest of this CPU.
HornerSum fastest_horner();
Multiples fastest_multiples();

// Points up to which buckets are slower.
std::size_t small_most(const Kernel& kernel);
// Of scratch for n points, aligned to 64.
std::size_t small_bytes(const Kernel& kernel, std::size_t n);
// The sum of n points of 64 bytes in Montgomery form with R = 2^form_bits, 256 or that of the kernel.
G1Affine small_sum(const Kernel& kernel, const std::byte* points, unsigned form_bits, const std::byte* scalars,
                   std::size_t n, void* scratch, Counts& counts, u64& entries);

}  // namespace whet::msm
