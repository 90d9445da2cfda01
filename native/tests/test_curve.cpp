// Group laws with every exceptional pair, the endomorphism and its split, fixed-base multiples, reading and writing.
#include <vector>

#include "check.hpp"
#include "curve/batch.hpp"
#include "curve/fixed_base.hpp"
#include "curve/glv.hpp"
#include "curve/normalise.hpp"

using namespace whet;

namespace {

const G1Affine G = Bn254::generator();

G1Affine times(u64 k) { return multiply(G, Limbs<1>{k}).affine(); }

G1Jacobian rescaled(const G1Affine& point, u64 z) {  // the same point with another Z
    if (point.is_infinity()) return {Fp::from_u64(z), Fp::from_u64(3 * z), Fp::zero()};
    const Fp f = Fp::from_u64(z);
    return {point.x * f.squared(), point.y * f.squared() * f, f};
}

void check_additions() {
    for (u64 a = 0; a < 12; ++a) {
        for (u64 b = 0; b < 12; ++b) {
            const G1Affine p = times(a), q = times(b), sum = times(a + b), difference = times(a > b ? a - b : b - a);
            CHECK(p.is_on_curve() && sum.is_on_curve());
            CHECK(add(rescaled(p, 5), rescaled(q, 9)).affine() == sum);
            CHECK(add(rescaled(p, 5), q).affine() == sum);
            CHECK(add(rescaled(p, 5), rescaled(-q, 9)).affine() == (a > b ? difference : -difference));
            CHECK(add(rescaled(p, 5), -q).affine() == (a > b ? difference : -difference));
            CHECK(rescaled(p, 3).equals(rescaled(q, 4)) == (a == b));
        }
        CHECK(rescaled(times(a), 6).doubled().affine() == times(2 * a));
    }
}

void check_order_and_endomorphism() {
    CHECK(is_in_subgroup(G) && is_in_subgroup(times(77)) && is_in_subgroup(G1Affine::infinity()));
    CHECK(multiply(G, glv::lambda).affine() == glv::endomorphism(G));
    CHECK(glv::beta * glv::beta * glv::beta == Fp::one() && !(glv::beta == Fp::one()));
    const Fr lambda = Fr::from_canonical(glv::lambda);
    Fr k = Fr::from_u64(3);
    for (int i = 0; i < 2000; ++i) {
        const glv::Split halves = glv::split(k.canonical());
        const auto value = [](const glv::Half& half) {
            CHECK(half.magnitude[1] >> (glv::half_bits - 64) == 0);
            const Fr magnitude = Fr::from_canonical({half.magnitude[0], half.magnitude[1], 0, 0});
            return half.negative ? -magnitude : magnitude;
        };
        CHECK(value(halves.k1) + value(halves.k2) * lambda == k);
        k = i % 3 == 0 ? -k : k.squared() + Fr::one();
    }
}

void check_batches() {
    std::vector<Scalar256> scalars;
    Fr k = Fr::from_u64(11);
    for (u64 i = 0; i < 40; ++i) {
        scalars.push_back({i, 0, 0, 0});
        scalars.push_back(k.canonical());
        k = k.squared() - Fr::one();
    }
    scalars.push_back(Fr::modulus);
    scalars.push_back({~u64{0}, ~u64{0}, ~u64{0}, ~u64{0}});
    std::vector<G1Affine> points(scalars.size()), back(scalars.size());
    multiply_generator(scalars, points);
    for (std::size_t i = 0; i < points.size(); ++i) CHECK(points[i] == multiply(G, scalars[i]).affine());

    std::vector<Limbs<8>> raw(points.size());
    write_points(points, raw);
    CHECK(read_points(raw, false, true, back).reason == PointDefect::none);
    CHECK(back == points);
    raw[17][0] ^= 1;
    const FirstDefect off_curve = read_points(raw, false, true, back);
    CHECK(off_curve.index == 17 && off_curve.reason == PointDefect::not_on_curve);
    CHECK(read_points(raw, false, false, back).reason == PointDefect::none);
    CHECK(check_on_curve(back).index == 17);
    for (std::size_t j = 0; j < 4; ++j) raw[9][4 + j] = Fp::modulus[j];
    const FirstDefect too_large = read_points(raw, false, true, back);
    CHECK(too_large.index == 9 && too_large.reason == PointDefect::coordinate_not_below_p);

    std::vector<Fp> x;
    std::vector<unsigned char> odd;
    std::vector<G1Affine> finite;
    for (const G1Affine& point : points) {
        if (point.is_infinity()) continue;
        finite.push_back(point);
        x.push_back(point.x);
        odd.push_back(static_cast<unsigned char>(point.y.canonical()[0] & 1));
    }
    back.resize(finite.size());
    CHECK(decompress(x, odd, RootRule::odd, back).reason == PointDefect::none);
    CHECK(back == finite);
    std::vector<unsigned char> larger;
    for (const G1Affine& point : finite) larger.push_back(less_than((-point).y.canonical(), point.y.canonical()));
    CHECK(decompress(x, larger, RootRule::larger, back).reason == PointDefect::none);
    CHECK(back == finite);
    x[5] = Fp::from_u64(4);  // 4^3 + 3 = 67 is not a square mod p
    CHECK(decompress(x, odd, RootRule::odd, back).index == 5);
}

}  // namespace

int main() {
    check_additions();
    check_order_and_endomorphism();
    check_batches();
    return whet::test::finish("curve");
}
