// Jacobian points over the field of a scalar kernel, for what is left when vectors and batches are done: one chain of
// doublings. Right for any points; variable time. Limit: the latency of a chain of multiplications.
#pragma once

#include <array>
#include <cstring>

#include "curve/bn254.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

template <class Field>
struct ScalarJacobian {
    struct Jacobian {
        Field x, y, z;
    };

    static Field squared(const Field& a) { return a * a; }
    // Two products that do not need each other, one after the other: the processor overlaps them. In step, as the
    // batches have them (multiply_pair), they took 9 % longer here: a pair has to be gathered from two places first.
    struct Pair {
        Field first, second;
    };
    static Pair products(const Field& a, const Field& b, const Field& c, const Field& d) { return {a * b, c * d}; }
    static Field settled(const Field& value) {
        if constexpr (requires { value.settled(); })
            return value.settled();
        else
            return value;
    }

    static Field from(const Fp& value) {
        Field field;
        static_assert(sizeof field == sizeof value);
        std::memcpy(&field, &value, sizeof field);
        return field;
    }
    static Fp to_fp(const Field& value) {
        const Field limbs = settled(value);
        Limbs<4> words;
        std::memcpy(&words, &limbs, sizeof words);
        return Fp::from_montgomery_limbs(words);
    }
    static G1Affine affine(const Jacobian& sum) {
        if (sum.z == Field::one()) return {to_fp(sum.x), to_fp(sum.y)};  // a point as it was given
        const Field inverse = sum.z.inverse(), square = squared(inverse);
        return {to_fp(sum.x * square), to_fp(sum.y * square * inverse)};
    }

    // 2M + 5S.
    static Jacobian doubled(const Jacobian& p) {
        const auto [a, b] = products(p.x, p.x, p.y, p.y);
        const Field shifted = p.x + b;
        const auto [c, s] = products(b, b, shifted, shifted);
        const Field d = (s - a - c).doubled();
        const Field e = a.doubled() + a;
        const auto [ee, yz] = products(e, e, p.y, p.z);
        const Field x = ee - d.doubled();
        return {x, e * (d - x) - c.doubled().doubled().doubled(), yz.doubled()};
    }
    // 8M + 3S in two steps: between them h = 0 shows points that are equal (r = 0) or opposite.
    struct Slope {
        Field h, r, hh;
    };
    static Slope slope_to(const Jacobian& p, const Field& x, const Field& y) {
        const Field zz = squared(p.z);
        const auto [u, zzz] = products(x, zz, p.z, zz);
        const Field h = u - p.x;
        const auto [s, hh] = products(y, zzz, h, h);
        return {h, s - p.y, hh};
    }
    static Jacobian added(const Jacobian& p, const Slope& s) {
        const auto [hhh, v] = products(s.hh, s.h, p.x, s.hh);
        const auto [rr, z] = products(s.r, s.r, p.z, s.h);
        const Field x = rr - hhh - v.doubled();
        const auto [left, right] = products(s.r, v - x, p.y, hhh);
        return {x, left - right, z};
    }

    // For any two points.
    static void add(Jacobian& sum, bool& infinite, const Field& x, const Field& y, Counts& counts) {
        ++counts.additions;
        if (infinite) {
            sum = {x, y, Field::one()};
            infinite = false;
            return;
        }
        const Slope slope = slope_to(sum, x, y);
        if (!slope.h.is_zero() || WHET_PLANT(straus_doubling_missed)) {
            sum = added(sum, slope);
        } else if (slope.r.is_zero()) {
            sum = doubled(sum);
            ++counts.doublings;
        } else {
            infinite = !WHET_PLANT(straus_cancellation_missed);
            ++counts.cancellations;
        }
    }
};

// The sum of 2^i by_bit[i]: one chain of doublings, one addition for each point that is not infinity.
constexpr unsigned all_bits = 128;
using PointsByBit = std::array<G1Affine, all_bits>;
using HornerSum = G1Affine (*)(const PointsByBit& by_bit);

template <class Field>
G1Affine horner(const PointsByBit& by_bit) {
    using Formulas = ScalarJacobian<Field>;
    typename Formulas::Jacobian sum{};
    bool infinite = true;
    Counts counts;
    for (std::size_t i = all_bits; i-- > (WHET_PLANT(horner_bit_lost) ? 1 : 0);) {
        if (!infinite) sum = Formulas::doubled(sum);
        if (by_bit[i].is_infinity()) continue;
        Formulas::add(sum, infinite, Formulas::from(by_bit[i].x), Formulas::from(by_bit[i].y), counts);
    }
    return infinite ? G1Affine::infinity() : Formulas::affine(sum);
}

}  // namespace whet::msm
