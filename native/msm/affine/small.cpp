#include "msm/affine/small.hpp"

namespace whet::msm {

namespace {

// Crossovers on one core of a Zen 3 (benchmarks/msm_small.py): adx takes 484 against 561 us at 32 points and 699
// against 682 at 48; portable 729 against 801 at 16 and 1,426 against 1,240 at 32. Beside the vectors it is an estimate
// from their times: that kernel was not at hand.
constexpr std::size_t most_beside_portable = 20;
#if defined(__x86_64__)
constexpr std::size_t most_beside_adx = 44, most_beside_vectors = 20;
static_assert(most_beside_adx <= straus_most);
#endif

}  // namespace

SmallSums small_sums(const Kernel& kernel) {
#if defined(__x86_64__)
    if (&kernel == &ifma_kernel) return {adx_kernel.usable() ? straus_adx : straus_portable, most_beside_vectors};
    if (&kernel == &adx_kernel) return {straus_adx, most_beside_adx};
#endif
    static_cast<void>(kernel);
    return {straus_portable, most_beside_portable};
}

G1Affine small_sum(const Kernel& kernel, const std::byte* table, const std::byte* scalars, std::size_t n, void* scratch,
                   Counts& counts, u64& entries) {
    const StrausSum sum = small_sums(kernel).sum;
    if (kernel.montgomery_bits == 256) return sum(table, scalars, n, scratch, counts, entries);
    auto* const points = static_cast<std::byte*>(scratch) + straus_bytes(n);
    static const Fp sixteenth = Fp::from_u64(16).inverse();
    for (std::size_t i = 0; i < 2 * n; ++i) {
        Limbs<4> value;
        std::memcpy(&value, table + field_bytes * i, field_bytes);
        const Fp converted = Fp::from_montgomery_limbs(value) * sixteenth;
        std::memcpy(points + field_bytes * i, &converted, field_bytes);
    }
    return sum(points, scalars, n, scratch, counts, entries);
}

}  // namespace whet::msm
