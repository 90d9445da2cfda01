// Jacobian to affine for many points with one inversion: 3 multiplications per point for the shared inverse, then 3M +
// 1S.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "curve/weierstrass.hpp"
#include "field/prime_field.hpp"

namespace whet {

// `out` has as many elements as `points`. Works in slices, so that the scratch stays in cache.
template <class Curve>
void normalise(std::span<const Jacobian<Curve>> points, std::span<Affine<Curve>> out) {
    using Field = typename Curve::Base;
    constexpr std::size_t slice = 1024;
    const std::size_t scratch_size = std::min(slice, points.size());
    std::vector<Field> inverse(scratch_size), scratch(scratch_size);
    for (std::size_t start = 0; start < points.size(); start += slice) {
        const std::size_t count = std::min(slice, points.size() - start);
        for (std::size_t i = 0; i < count; ++i) inverse[i] = points[start + i].z;
        invert_all<Field>({inverse.data(), count}, {scratch.data(), count});
        for (std::size_t i = 0; i < count; ++i) {
            const Field square = inverse[i].squared();
            const Jacobian<Curve>& point = points[start + i];
            out[start + i] = {point.x * square, point.y * square * inverse[i]};
        }
    }
}

}  // namespace whet
