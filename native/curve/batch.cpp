#include "curve/batch.hpp"

#include <algorithm>
#include <array>

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

void root_candidates(const Fp* values, Fp* roots, std::size_t n) {
    static_assert((Fp::modulus[0] & 3) == 3);
    constexpr Limbs<4> exponent = [] {
        Limbs<4> value = shift_right(Fp::modulus, 2);
        value[0] += 1;
        return value;
    }();
    for (std::size_t i = 0; i < n; ++i) roots[i] = values[i].power(exponent);
}

FirstDefect decompress(std::span<const Fp> x, std::span<const unsigned char> second, RootRule rule,
                       std::span<G1Affine> out, RootBatch find_roots) {
    constexpr Limbs<4> half = shift_right(Fp::modulus, 1);
    constexpr std::size_t block = 128;
    std::array<Fp, block> squares, roots;
    for (std::size_t start = 0; start < x.size(); start += block) {
        const std::size_t count = std::min(block, x.size() - start);
        for (std::size_t i = 0; i < count; ++i) squares[i] = x[start + i].squared() * x[start + i] + Bn254::b();
        find_roots(squares.data(), roots.data(), count);
        for (std::size_t i = 0; i < count; ++i) {
            if (!(roots[i].squared() == squares[i])) return {start + i, PointDefect::no_square_root};
            const Limbs<4> value = roots[i].canonical();
            const bool is_second = rule == RootRule::odd ? (value[0] & 1) != 0 : less_than(half, value);
            out[start + i] = {x[start + i], is_second == (second[start + i] != 0) ? roots[i] : -roots[i]};
        }
    }
    return {};
}

}  // namespace whet
