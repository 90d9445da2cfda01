// Pippenger's bucket method with signed windows. Against the plain variant it shares all doublings between the points
// and turns each window of c bits into one addition per point plus 2^c per window: about 254 / c (n + 2^c) additions.
// With GLV it runs on 2n points and half the windows. It presses on the cache: 2^(c-1) Jacobian buckets of 96 bytes.
#include <algorithm>
#include <vector>

#include "curve/glv.hpp"
#include "msm/reference.hpp"

namespace whet {
namespace {

constexpr std::size_t scalar_bits = Fr::modulus_bits;

// One bit more than the scalar has: the carry out of the highest signed digit.
unsigned window_count(std::size_t bit_count, unsigned window_bits) {
    return static_cast<unsigned>((bit_count + window_bits) / window_bits);
}

// The cheapest window by multiplications: 11 for an addition into a bucket, 16 for each of the two per bucket after it.
unsigned cheapest_window(std::size_t n, std::size_t bit_count) {
    unsigned best = 1;
    double best_cost = 0;
    for (unsigned c = 1; c <= 16; ++c) {
        const double buckets = static_cast<double>(u64{1} << (c - 1));
        const double cost = window_count(bit_count, c) * (11.0 * static_cast<double>(n) + 32.0 * buckets);
        if (c == 1 || cost < best_cost) best = c, best_cost = cost;
    }
    return best;
}

// 1 B_1 + 2 B_2 + ... by running sums from the top: two additions per bucket.
G1Jacobian reduce_buckets(const std::vector<G1Jacobian>& buckets, MsmWork& work) {
    G1Jacobian running = G1Jacobian::infinity(), total = G1Jacobian::infinity();
    std::size_t top = buckets.size();
    if (WHET_FAULT(top_bucket_lost)) --top;
    while (top > 1 && buckets[top - 1].is_infinity()) --top;
    for (std::size_t b = top; b-- > (WHET_FAULT(lowest_bucket_lost) ? 1u : 0u);) {
        running = add(running, buckets[b]);
        if (WHET_FAULT(running_sum_once_short) && b == 0) break;
        total = add(total, running);
        work.additions += 2;
    }
    return total;
}

struct Digit {
    u64 magnitude;  // 0 .. 2^(c-1)
    bool negative;
};

// Window w of a scalar as a signed digit. `carry` holds what the window below passed on, and then what this one does.
template <std::size_t N>
Digit signed_digit(const Limbs<N>& scalar, unsigned w, unsigned c, unsigned char& carry) {
    const u64 half = u64{1} << (c - 1);
    const u64 digit = bits(scalar, std::size_t{w} * c, c) + (WHET_FAULT(digit_carry_dropped) ? 0 : carry);
    carry = digit > half ? 1 : 0;
    if (carry == 0) return {digit, false};
    return {2 * half - digit, !WHET_FAULT(digit_sign_wrong)};
}

// Adds every point to the bucket of its digit in window w; bucket b holds magnitude b + 1.
template <std::size_t N>
void fill_buckets(std::span<const G1Affine> points, std::span<const Limbs<N>> scalars, unsigned w, unsigned c,
                  std::vector<unsigned char>& carry, std::vector<G1Jacobian>& buckets, MsmWork& work,
                  const Pause& pause) {
    constexpr std::size_t points_between_pauses = 1 << 12;
    std::size_t count = points.size();
    if (WHET_FAULT(last_point_dropped) && count > 0) --count;
    for (std::size_t i = 0; i < count; ++i) {
        if (pause && i % points_between_pauses == 0) pause();
        const Digit digit = signed_digit(scalars[i], w, c, carry[i]);
        if (digit.magnitude == 0) continue;
        u64 index = digit.magnitude - 1;
        if (WHET_FAULT(bucket_index_off_by_one) && digit.magnitude < buckets.size()) ++index;
        if (WHET_FAULT(bucket_overwritten)) buckets[index] = G1Jacobian::infinity();
        buckets[index] = add(buckets[index], digit.negative ? -points[i] : points[i]);
        if (WHET_FAULT(first_point_twice) && i == 0) buckets[index] = add(buckets[index], points[i]);
        ++work.additions;
    }
}

// sum 2^(c w) S_w.
G1Jacobian horner(const std::vector<G1Jacobian>& window_sums, unsigned c, MsmWork& work) {
    G1Jacobian total = G1Jacobian::infinity();
    unsigned doublings = c;
    if (WHET_FAULT(horner_doubles_too_many)) ++doublings;
    if (WHET_FAULT(horner_doubles_too_few)) --doublings;
    for (std::size_t w = window_sums.size(); w-- > 0;) {
        for (unsigned i = 0; i < doublings; ++i) total = total.doubled();
        total = add(total, window_sums[w]);
        work.doublings += doublings;
        ++work.additions;
    }
    return total;
}

// sum k_i P_i for k_i below 2^bit_count.
template <std::size_t N>
G1Jacobian accumulate(std::span<const G1Affine> points, std::span<const Limbs<N>> scalars, std::size_t bit_count,
                      unsigned window_bits, MsmWork& work, const Pause& pause) {
    const unsigned c = window_bits != 0 ? window_bits : cheapest_window(points.size(), bit_count);
    const unsigned windows = window_count(bit_count, c);
    std::vector<unsigned char> carry(points.size(), 0);
    std::vector<G1Jacobian> buckets(std::size_t{1} << (c - 1), G1Jacobian::infinity());
    std::vector<G1Jacobian> window_sums(windows, G1Jacobian::infinity());
    work.window_bits = c;
    work.windows = windows;
    for (unsigned w = 0; w < windows; ++w) {
        if (WHET_FAULT(window_skipped) && w == 1) continue;
        if (WHET_FAULT(last_window_missing) && w + 1 == windows) continue;
        if (!WHET_FAULT(bucket_stale)) std::fill(buckets.begin(), buckets.end(), G1Jacobian::infinity());
        fill_buckets(points, scalars, w, c, carry, buckets, work, pause);
        window_sums[w] = reduce_buckets(buckets, work);
    }
    return horner(window_sums, c, work);
}

G1Jacobian with_endomorphism(std::span<const G1Affine> points, std::span<const Scalar256> reduced,
                             const PippengerOptions& options, MsmWork& work) {
    const std::size_t n = points.size();
    std::vector<G1Affine> bases(2 * n);
    std::vector<Limbs<2>> halves(2 * n);
    for (std::size_t i = 0; i < n; ++i) {
        const glv::Split split = glv::split(reduced[i]);
        const G1Affine image = glv::endomorphism(points[i]);
        bases[i] = split.k1.negative && !WHET_FAULT(glv_sign_of_k1_wrong) ? -points[i] : points[i];
        bases[n + i] = split.k2.negative && !WHET_FAULT(glv_sign_of_k2_wrong) ? -image : image;
        halves[i] = split.k1.magnitude;
        halves[n + i] = split.k2.magnitude;
    }
    return accumulate<2>(bases, halves, glv::half_bits, options.window_bits, work, options.pause);
}

}  // namespace

G1Jacobian msm_pippenger(std::span<const G1Affine> points, std::span<const Scalar256> scalars,
                         const PippengerOptions& options, MsmWork& work) {
    std::vector<Scalar256> reduced(scalars.begin(), scalars.end());
    if (!WHET_FAULT(scalar_not_reduced)) {
        for (Scalar256& k : reduced) k = Fr::reduce(k);
    }
    if (options.glv) return with_endomorphism(points, reduced, options, work);
    return accumulate<4>(points, reduced, scalar_bits, options.window_bits, work, options.pause);
}

}  // namespace whet
