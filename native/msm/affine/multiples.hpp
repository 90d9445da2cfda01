// 2^k P for many points at once, for tables that keep several multiples of a point: k Jacobian doublings each, and one
// inversion for a batch. Limit: the latency of the doublings, 7 products each.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "msm/affine/forms.hpp"
#include "msm/affine/jacobian.hpp"

namespace whet::msm {

// n points of 64 bytes in Montgomery form with R = 2^form_bits to 2^doublings times each, in the same form. Infinity
// (zeros) stays what it is. No point of the curve becomes infinity: their order is an odd prime.
using Multiples = void (*)(const std::byte* from, std::size_t n, unsigned form_bits, unsigned doublings, std::byte* to);

template <class Field>
void multiples(const std::byte* from, std::size_t n, unsigned form_bits, unsigned doublings, std::byte* to) {
    using Formulas = ScalarJacobian<Field>;
    using Jacobian = typename Formulas::Jacobian;
    constexpr std::size_t batch = 128;
    const Field enter = Formulas::from(form_factor(form_bits, 256)),
                leave = Formulas::from(form_factor(256, form_bits));
    const Jacobian stand_in = {Formulas::from(Bn254::generator().x), Formulas::from(Bn254::generator().y),
                               Field::one()};
    std::array<Jacobian, batch> point;
    std::array<Field, batch> before;  // the product of all z before
    for (std::size_t first = 0; first < n; first += batch) {
        const std::size_t count = std::min(batch, n - first);
        Field product = Field::one();
        for (std::size_t i = 0; i < count; ++i) {
            Limbs<8> limbs;
            std::memcpy(&limbs, from + point_bytes * (first + i), point_bytes);
            Jacobian& p = point[i];
            p = stand_in;
            if (limbs != Limbs<8>{}) {
                const Fp x = Fp::from_montgomery_limbs({limbs[0], limbs[1], limbs[2], limbs[3]});
                const Fp y = Fp::from_montgomery_limbs({limbs[4], limbs[5], limbs[6], limbs[7]});
                p = {Formulas::from(x) * enter, Formulas::from(y) * enter, Field::one()};
            }
            for (unsigned k = 0; k < doublings; ++k) p = Formulas::doubled(p);
            before[i] = product;
            product = product * p.z;
        }
        Field inverse = product.inverse();
        for (std::size_t i = count; i-- > 0;) {
            const Jacobian& p = point[i];
            const Field z = inverse * before[i], zz = Formulas::squared(z);
            inverse = inverse * p.z;
            const Fp doubled[2] = {Formulas::to_fp(p.x * zz * leave), Formulas::to_fp(p.y * zz * z * leave)};
            Limbs<8> limbs;
            std::memcpy(&limbs, from + point_bytes * (first + i), point_bytes);
            if (limbs != Limbs<8>{})
                std::memcpy(to + point_bytes * (first + i), doubled, point_bytes);
            else
                std::memset(to + point_bytes * (first + i), 0, point_bytes);
        }
    }
}

}  // namespace whet::msm
