#include "msm/affine/small.hpp"

#include <algorithm>

#if defined(__x86_64__)
#include "msm/affine/few_ifma.hpp"
#endif

namespace whet::msm {

namespace {

// Crossovers on one core of a Sapphire Rapids, against buckets at the best number of windows (benchmarks/msm_small.py):
// eight to a vector 505 against 571 us at 256 points and 617 against 607 at 288; adx 395 against 406 at 32 and 520
// against 500 at 44; portable 668 against 560 at 16. Vectors beat adx one by one from 3 points on.
constexpr std::size_t most_beside_portable = 12;
#if defined(__x86_64__)
constexpr std::size_t most_beside_adx = 36, most_beside_vectors = 272, most_one_by_one = 2;
static_assert(most_beside_adx <= straus_most);

bool in_vectors(const Kernel& kernel, std::size_t n) { return &kernel == &ifma_kernel && n > most_one_by_one; }
#endif

StrausSum one_by_one(const Kernel& kernel) {
#if defined(__x86_64__)
    if (&kernel == &adx_kernel || (&kernel == &ifma_kernel && adx_kernel.usable()) ||
        (&kernel == &avx2_kernel && adx_kernel.usable()))
        return straus_adx;
#endif
    static_cast<void>(kernel);
    return straus_portable;
}

}  // namespace

HornerSum fastest_horner() {
#if defined(__x86_64__)
    static const HornerSum fastest = adx_kernel.usable() ? horner_adx : horner_portable;
    return fastest;
#else
    return horner_portable;
#endif
}

Multiples fastest_multiples() {
#if defined(__x86_64__)
    if (adx_kernel.usable()) return multiples_adx;
#endif
    return multiples_portable;
}

std::size_t small_most(const Kernel& kernel) {
#if defined(__x86_64__)
    if (&kernel == &ifma_kernel) return most_beside_vectors;
    if (&kernel == &adx_kernel) return most_beside_adx;
    if (&kernel == &avx2_kernel && adx_kernel.usable()) return most_beside_adx;
#endif
    static_cast<void>(kernel);
    return most_beside_portable;
}

std::size_t small_bytes(const Kernel& kernel, std::size_t n) {
#if defined(__x86_64__)
    if (in_vectors(kernel, n)) return few_ifma_bytes(n);
#endif
    return straus_bytes(n) + (kernel.montgomery_bits == 256 ? 0 : point_bytes * n);
}

G1Affine small_sum(const Kernel& kernel, const std::byte* points, unsigned form_bits, const std::byte* scalars,
                   std::size_t n, void* scratch, Counts& counts, u64& entries) {
#if defined(__x86_64__)
    if (in_vectors(kernel, n)) {
        PointsByBit by_bit;
        by_bit.fill(G1Affine::infinity());
        few_ifma(points, form_bits == 260, scalars, n, scratch, reinterpret_cast<std::byte*>(by_bit.data()), counts,
                 entries);
        return fastest_horner()(by_bit);
    }
#endif
    const StrausSum sum = one_by_one(kernel);
    if (form_bits == 256) return sum(points, scalars, n, scratch, counts, entries);
    auto* const plain = static_cast<std::byte*>(scratch) + straus_bytes(n);
    const Fp to_plain_form = form_factor(form_bits, 256);
    for (std::size_t i = 0; i < 2 * n; ++i) {
        Limbs<4> value;
        std::memcpy(&value, points + field_bytes * i, field_bytes);
        const Fp converted = Fp::from_montgomery_limbs(value) * to_plain_form;
        std::memcpy(plain + field_bytes * i, &converted, field_bytes);
    }
    return sum(plain, scalars, n, scratch, counts, entries);
}

}  // namespace whet::msm
