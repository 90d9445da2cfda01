#include "curve/batch.hpp"

namespace whet {

FirstDefect read_points(std::span<const Limbs<8>> raw, bool montgomery, bool check_curve, std::span<G1Affine> out) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
        const Limbs<8>& from = raw[i];
        const Limbs<4> x = {from[0], from[1], from[2], from[3]};
        const Limbs<4> y = {from[4], from[5], from[6], from[7]};
        if (!Fp::is_canonical(x) || !Fp::is_canonical(y)) return {i, PointDefect::coordinate_not_below_p};
        out[i] = montgomery ? G1Affine{Fp::from_montgomery_limbs(x), Fp::from_montgomery_limbs(y)}
                            : G1Affine{Fp::from_canonical(x), Fp::from_canonical(y)};
        if (check_curve && !out[i].is_on_curve()) return {i, PointDefect::not_on_curve};
    }
    return {};
}

void write_points(std::span<const G1Affine> points, std::span<Limbs<8>> out) {
    for (std::size_t i = 0; i < points.size(); ++i) {
        const Limbs<4> x = points[i].x.canonical();
        const Limbs<4> y = points[i].y.canonical();
        out[i] = {x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]};
    }
}

FirstDefect check_on_curve(std::span<const G1Affine> points) {
    for (std::size_t i = 0; i < points.size(); ++i) {
        if (!points[i].is_on_curve()) return {i, PointDefect::not_on_curve};
    }
    return {};
}

FirstDefect decompress(std::span<const Fp> x, std::span<const unsigned char> second, RootRule rule,
                       std::span<G1Affine> out) {
    constexpr Limbs<4> half = shift_right(Fp::modulus, 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
        Fp y;
        if (!(x[i].squared() * x[i] + Bn254::b()).square_root(y)) return {i, PointDefect::no_square_root};
        const Limbs<4> value = y.canonical();
        const bool is_second = rule == RootRule::odd ? (value[0] & 1) != 0 : less_than(half, value);
        out[i] = {x[i], is_second == (second[i] != 0) ? y : -y};
    }
    return {};
}

}  // namespace whet
