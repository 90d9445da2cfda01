// Points of y^2 = x^3 + b, affine and Jacobian, with additions that are right for every pair of points: infinity on
// either side, equal points and opposite points included. Curve names the fields and b (see curve/bn254.hpp).
#pragma once

#include "fault.hpp"
#include "field/limbs.hpp"

namespace whet {

// (0, 0) stands for infinity; it is not on any curve with b != 0. 64 bytes for BN254: one cache line.
template <class Curve>
struct Affine {
    using Field = typename Curve::Base;
    Field x, y;

    static constexpr Affine infinity() { return {}; }
    constexpr bool is_infinity() const { return x.is_zero() && y.is_zero(); }
    constexpr bool is_on_curve() const { return is_infinity() || y.squared() == x.squared() * x + Curve::b(); }
    constexpr Affine operator-() const { return {x, WHET_FAULT(negation_keeps_y) ? y : -y}; }
    friend constexpr bool operator==(const Affine&, const Affine&) = default;
};

// x = X / Z^2, y = Y / Z^3; Z = 0 is infinity.
template <class Curve>
struct Jacobian {
    using Field = typename Curve::Base;
    Field x, y, z;

    static constexpr Jacobian infinity() { return {Field::one(), Field::one(), Field::zero()}; }
    static constexpr Jacobian from(const Affine<Curve>& point) {
        if (point.is_infinity()) return infinity();
        return {point.x, point.y, Field::one()};
    }
    constexpr bool is_infinity() const { return z.is_zero(); }
    constexpr Jacobian operator-() const { return {x, -y, z}; }

    Affine<Curve> affine() const {
        if (WHET_FAULT(result_ignores_z)) return {x, y};
        const Field zi = z.inverse();
        const Field zi2 = zi.squared();
        return {x * zi2, y * zi2 * zi};
    }

    // Same point, whatever the Z. 8 multiplications at most.
    constexpr bool equals(const Jacobian& other) const {
        if (is_infinity() || other.is_infinity()) return is_infinity() && other.is_infinity();
        const Field zz = z.squared(), other_zz = other.z.squared();
        return x * other_zz == other.x * zz && y * other_zz * other.z == other.y * zz * z;
    }

    // 2M + 5S. A point of order two (y = 0) gives Z = 0, so infinity, as it must.
    constexpr Jacobian doubled() const {
        const Field a = x.squared();
        const Field b = y.squared();
        const Field c = b.squared();
        const Field d = ((x + b).squared() - a - c).doubled();
        const Field e = a.doubled() + a;
        const Field x3 = e.squared() - d.doubled();
        const Field y3 = e * (d - x3) - c.doubled().doubled().doubled();
        return {x3, y3, (y * z).doubled()};
    }
};

// 11M + 5S; a doubling when the points are equal.
template <class Curve>
constexpr Jacobian<Curve> add(const Jacobian<Curve>& p, const Jacobian<Curve>& q) {
    using Field = typename Curve::Base;
    if (p.is_infinity() && !WHET_FAULT(add_ignores_left_infinity)) return q;
    if (q.is_infinity() && !WHET_FAULT(add_ignores_right_infinity)) return p;
    const Field z1z1 = p.z.squared();
    const Field z2z2 = q.z.squared();
    const Field u1 = p.x * z2z2;
    const Field s1 = p.y * z2z2 * q.z;
    const Field h = q.x * z1z1 - u1;
    const Field r = q.y * z1z1 * p.z - s1;
    if (h.is_zero()) {
        if (r.is_zero() && !WHET_FAULT(add_misses_doubling)) return p.doubled();
        if (!r.is_zero() && !WHET_FAULT(add_misses_opposite)) return Jacobian<Curve>::infinity();
        if (WHET_FAULT(add_misses_opposite)) return p;
    }
    const Field hh = h.squared();
    const Field hhh = hh * h;
    const Field v = u1 * hh;
    const Field x3 = r.squared() - hhh - v.doubled();
    return {x3, r * (v - x3) - s1 * hhh, p.z * q.z * h};
}

// 8M + 3S; a doubling when the points are equal.
template <class Curve>
constexpr Jacobian<Curve> add(const Jacobian<Curve>& p, const Affine<Curve>& q) {
    using Field = typename Curve::Base;
    if (q.is_infinity() && !WHET_FAULT(mixed_ignores_infinity)) return p;
    if (p.is_infinity()) return Jacobian<Curve>::from(q);
    const Field z1z1 = p.z.squared();
    const Field h = q.x * z1z1 - p.x;
    const Field r = q.y * z1z1 * p.z - p.y;
    if (h.is_zero()) {
        if (r.is_zero() && !WHET_FAULT(mixed_misses_doubling)) return p.doubled();
        if (!r.is_zero() && !WHET_FAULT(mixed_misses_opposite)) return Jacobian<Curve>::infinity();
        if (WHET_FAULT(mixed_misses_opposite)) return p;
    }
    const Field hh = h.squared();
    const Field hhh = hh * h;
    const Field v = p.x * hh;
    const Field x3 = r.squared() - hhh - v.doubled();
    return {x3, r * (v - x3) - p.y * hhh, p.z * h};
}

// k P for a plain integer k, by double and add from the top bit.
template <class Curve, std::size_t N>
constexpr Jacobian<Curve> multiply(const Affine<Curve>& point, const Limbs<N>& k) {
    Jacobian<Curve> sum = Jacobian<Curve>::infinity();
    for (std::size_t i = bit_length(k); i-- > 0;) {
        sum = sum.doubled();
        if (bit(k, i)) sum = add(sum, point);
    }
    return sum;
}

}  // namespace whet
