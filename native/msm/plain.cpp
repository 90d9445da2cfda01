// sum s_i P_i one product at a time, each by double and add: 254 doublings and about 127 additions per point.
// Nothing is shared between the products, which is what makes it a reference.
#include "msm/reference.hpp"

namespace whet {

G1Jacobian msm_plain(std::span<const G1Affine> points, std::span<const Scalar256> scalars, MsmWork& work,
                     const Pause& pause) {
    constexpr std::size_t points_between_pauses = 64;
    G1Jacobian total = G1Jacobian::infinity();
    for (std::size_t i = 0; i < points.size(); ++i) {
        if (pause && i % points_between_pauses == 0) pause();
        const Scalar256 k = Fr::reduce(scalars[i]);
        G1Jacobian product = G1Jacobian::infinity();
        const std::size_t top = bit_length(k);
        for (std::size_t j = WHET_FAULT(plain_top_bit_lost) && top > 0 ? top - 1 : top; j-- > 0;) {
            product = product.doubled();
            ++work.doublings;
            if (!bit(k, j) || (WHET_FAULT(plain_skips_limb_border) && j == 64)) continue;
            product = add(product, points[i]);
            ++work.additions;
        }
        total = add(total, product);
        ++work.additions;
    }
    return total;
}

}  // namespace whet
