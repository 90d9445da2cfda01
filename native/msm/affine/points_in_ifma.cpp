// Points read and checked eight at a time with AVX-512 IFMA: both coordinates below p, the curve equation, Montgomery
// form. Against the plain code (6 multiplications a point, one by one): the same in lanes, 9 products for eight points.
// What that should buy is the ratio of the products, 27 ns against 3 a lane. Limit: the latency of x, x^2, x^3.
#include "field/lanes52.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/affine/points_in.hpp"

namespace whet::msm {

namespace {

// Not const for the reason given for constants52. 2^516 takes a canonical value to R = 2^256 by a product over 2^260.
Limbs52 two_to_516 = split52(power_of_two_mod_p(516));

WHET_INLINE LaneMask below_p(const Lanes& tidy_value) {
    return _mm512_movepi64_mask(carried(minus(tidy_value, all_lanes(constants52.p[1]))).limb[4]);
}
WHET_INLINE LaneMask same(const Lanes& a, const Lanes& b) {  // canonical values
    LaneMask equal = 0xff;
    WHET_UNROLL for (int i = 0; i < 5; ++i) equal = _mm512_mask_cmpeq_epi64_mask(equal, a.limb[i], b.limb[i]);
    return equal;
}

// y^2 = x^3 + 3, or infinity. x and y are canonical numbers, in Montgomery form or not.
LaneMask on_curve(const Lanes& x, const Lanes& y, bool montgomery) {
    const Lanes enter = all_lanes(montgomery ? constants52.two_to_264 : constants52.r_squared);
    Lanes own_x, own_y, square_x, square_y;
    product_pair(own_x, x, enter, own_y, y, enter);
    product_pair(square_x, own_x, own_x, square_y, own_y, own_y);
    const Lanes one = all_lanes(constants52.one);
    const Lanes cube = product_columns(square_x, own_x);              // below 1.2 p
    const Lanes right = tidy(plus(cube, plus(one, plus(one, one))));  // R mod p is 0.64 p: below 3.2 p
    const LaneMask infinite = equals(x, constants52.p[0]) & equals(y, constants52.p[0]);
    return same(canonical(masked(square_y)), canonical(right)) | infinite;
}

}  // namespace

std::size_t read_points_ifma(const std::byte* points, std::size_t n, bool montgomery, bool check_curve,
                             std::byte* out) {
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        const std::byte *x_from[lanes], *y_from[lanes];
        std::byte* to[lanes];
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            x_from[lane] = points + point_bytes * (i + lane);
            y_from[lane] = x_from[lane] + field_bytes;
            to[lane] = out + point_bytes * (i + lane);
        }
        Lanes x = gather(x_from), y = gather(y_from);
        if ((below_p(x) & below_p(y)) != 0xff) return i;
        if (check_curve && on_curve(x, y, montgomery) != 0xff) return i;
        if (!montgomery) {
            product_pair(x, x, all_lanes(two_to_516), y, y, all_lanes(two_to_516));
            x = canonical(masked(x));
            y = canonical(masked(y));
        }
        scatter_points(x, y, to, 0xff);
    }
    return i;
}

}  // namespace whet::msm
