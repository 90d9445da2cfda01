// Modular inversion by division steps (Bernstein and Yang, "Fast constant-time gcd computation and modular inversion"),
// in the variable-time form: 62 steps are decided on the low words alone and then applied to the long numbers at once.
// About ten batches for 256 bits, against some 380 multiplications of Fermat's way.
#pragma once

#include <bit>
#include <cstddef>

#include "field/limbs.hpp"

namespace whet {

namespace division_steps {

constexpr int batch = 62;
constexpr u64 limb_mask = (u64{1} << batch) - 1;

// Sum of limb[i] 2^(62 i); every limb but the highest lies in [0, 2^62), the highest carries the sign.
template <std::size_t S>
struct Wide {
    std::array<i64, S> limb{};

    constexpr bool negative() const { return limb[S - 1] < 0; }
    constexpr bool zero() const {
        i64 any = 0;
        for (const i64 part : limb) any |= part;
        return any == 0;
    }
};

template <std::size_t S, std::size_t N>
constexpr Wide<S> widen(const Limbs<N>& value) {
    Wide<S> wide;
    for (std::size_t i = 0; i < S; ++i) wide.limb[i] = static_cast<i64>(bits(value, batch * i, batch));
    return wide;
}

template <std::size_t N, std::size_t S>
constexpr Limbs<N> narrow(const Wide<S>& wide) {  // wide must be in [0, 2^(64 N))
    Limbs<N> value{};
    for (std::size_t i = 0; i < S; ++i) {
        const std::size_t start = batch * i;
        const u64 part = static_cast<u64>(wide.limb[i]);
        if (start / 64 < N) value[start / 64] |= part << (start % 64);
        if (start % 64 > 2 && start / 64 + 1 < N) value[start / 64 + 1] |= part >> (64 - start % 64);
    }
    return value;
}

// The effect of a batch on (f, g), times 2^62. Row sums of absolute values stay within 2^62.
struct Matrix {
    i64 u, v, q, r;
};

// Runs one batch on the low words; f is odd. Returns the new eta (minus the delta of the paper).
inline i64 run_batch(i64 eta, u64 f, u64 g, Matrix& matrix) {
    u64 u = 1, v = 0, q = 0, r = 1;
    for (int left = batch;;) {
        const int zeros = std::countr_zero(g | (~u64{0} << left));
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        eta -= zeros;
        left -= zeros;
        if (left == 0) break;
        if (eta < 0) {
            eta = -eta;
            const u64 old_f = f, old_u = u, old_v = v;
            f = g, u = q, v = r;
            g = u64{0} - old_f, q = u64{0} - old_u, r = u64{0} - old_v;
        }
        // No swap can happen for eta + 1 steps: clear up to six low bits of g with one multiple of f.
        const int limit = eta + 1 < left ? static_cast<int>(eta + 1) : left;
        const u64 mask = (~u64{0} >> (64 - limit)) & 63;
        const u64 w = (g * f * (f * f - 2)) & mask;  // f (2 - f f) is 1 / f mod 64
        g += f * w;
        q += u * w;
        r += v * w;
    }
    matrix = {static_cast<i64>(u), static_cast<i64>(v), static_cast<i64>(q), static_cast<i64>(r)};
    return eta;
}

// (u x + v y + m p) / 2^62, which the caller knows to be whole.
template <std::size_t S>
constexpr Wide<S> combine(i64 u, const Wide<S>& x, i64 v, const Wide<S>& y, i64 m, const Wide<S>& p) {
    Wide<S> result;
    i128 sum = 0;
    for (std::size_t i = 0; i < S; ++i) {
        sum += static_cast<i128>(u) * x.limb[i] + static_cast<i128>(v) * y.limb[i] + static_cast<i128>(m) * p.limb[i];
        if (i > 0) result.limb[i - 1] = static_cast<i64>(static_cast<u64>(sum) & limb_mask);
        sum >>= batch;
    }
    result.limb[S - 1] = static_cast<i64>(sum);
    return result;
}

// The multiple m of p that makes u x + v y + m p whole after division and keeps it in (-2p, p) for x, y in (-2p, p).
template <std::size_t S>
constexpr i64 correction(i64 u, const Wide<S>& x, i64 v, const Wide<S>& y, u64 p_inverse) {
    const i64 m = (x.negative() ? u : 0) + (y.negative() ? v : 0);
    const u64 low_word =
        static_cast<u64>(u) * static_cast<u64>(x.limb[0]) + static_cast<u64>(v) * static_cast<u64>(y.limb[0]);
    return m - static_cast<i64>((p_inverse * low_word + static_cast<u64>(m)) & limb_mask);
}

// x + factor * y with carries settled.
template <std::size_t S>
constexpr Wide<S> add_multiple(const Wide<S>& x, i64 factor, const Wide<S>& y) {
    Wide<S> result;
    i64 carry = 0;
    for (std::size_t i = 0; i < S; ++i) {
        const i64 sum = x.limb[i] + factor * y.limb[i] + carry;
        const bool top = i + 1 == S;
        result.limb[i] = top ? sum : static_cast<i64>(static_cast<u64>(sum) & limb_mask);
        carry = sum >> batch;
    }
    return result;
}

}  // namespace division_steps

// The inverse of value modulo an odd prime; value must be canonical and not zero.
template <std::size_t N>
Limbs<N> inverse_vartime(const Limbs<N>& value, const Limbs<N>& modulus) {
    using namespace division_steps;
    constexpr std::size_t S = 64 * N / batch + 1;
    const Wide<S> p = widen<S>(modulus);
    u64 p_inverse = 1;
    for (int i = 0; i < 6; ++i) p_inverse *= 2 - modulus[0] * p_inverse;

    Wide<S> f = p, g = widen<S>(value), d, e;
    e.limb[0] = 1;
    for (i64 eta = -1; !g.zero();) {
        Matrix t;
        eta = run_batch(eta, static_cast<u64>(f.limb[0]) | static_cast<u64>(f.limb[1]) << batch,
                        static_cast<u64>(g.limb[0]) | static_cast<u64>(g.limb[1]) << batch, t);
        const Wide<S> next_f = combine(t.u, f, t.v, g, 0, p);
        g = combine(t.q, f, t.r, g, 0, p);
        f = next_f;
        const Wide<S> next_d = combine(t.u, d, t.v, e, correction(t.u, d, t.v, e, p_inverse), p);
        e = combine(t.q, d, t.r, e, correction(t.q, d, t.r, e, p_inverse), p);
        d = next_d;
    }
    // Now f = 1 or -1 and d value = f mod p.
    if (d.negative()) d = add_multiple(d, 1, p);
    if (f.negative()) d = add_multiple(Wide<S>{}, -1, d);
    if (d.negative()) d = add_multiple(d, 1, p);
    return narrow<N>(d);
}

// Made in inverse.cpp alone: of several copies the linker keeps one for all, and files that are compiled for newer
// processors include this header too.
extern template Limbs<4> inverse_vartime<4>(const Limbs<4>&, const Limbs<4>&);

}  // namespace whet
