// The fast reading of points against the plain one: all tail lengths, both forms, every kind of defect in every lane.
#include <vector>

#include "check.hpp"
#include "curve/normalise.hpp"
#include "msm/affine/points_in.hpp"

using namespace whet;

namespace {

std::vector<G1Affine> some_points(std::size_t n) {
    std::vector<G1Affine> points;
    G1Jacobian at = G1Jacobian::from(Bn254::generator());
    for (; points.size() < n; at = add(at.doubled(), Bn254::generator())) {
        points.push_back(points.size() % 7 == 3 ? G1Affine::infinity() : at.affine());
        if (points.size() % 5 == 2) points.back() = -points.back();
    }
    return points;
}

std::vector<Limbs<8>> as_given(const std::vector<G1Affine>& points, bool montgomery) {
    std::vector<Limbs<8>> raw(points.size());
    if (!montgomery) {
        write_points(points, raw);
        return raw;
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
        for (std::size_t k = 0; k < 4; ++k) {
            raw[i][k] = points[i].x.montgomery_limbs()[k];
            raw[i][k + 4] = points[i].y.montgomery_limbs()[k];
        }
    }
    return raw;
}

void compare(const std::vector<Limbs<8>>& raw, bool montgomery, bool check_curve) {
    std::vector<G1Affine> plain(raw.size()), fast(raw.size());
    const FirstDefect want = read_points(raw, montgomery, check_curve, plain);
    const FirstDefect got = msm::read_points_fast(raw, montgomery, check_curve, fast);
    CHECK(got.reason == want.reason);
    if (want.reason != PointDefect::none) CHECK(got.index == want.index);
    const std::size_t good = want.reason == PointDefect::none ? raw.size() : want.index;
    for (std::size_t i = 0; i < good; ++i) CHECK(fast[i] == plain[i]);
}

void put(Limbs<8>& raw, std::size_t from, const Limbs<4>& value) {
    for (std::size_t k = 0; k < 4; ++k) raw[from + k] = value[k];
}

}  // namespace

int main() {
    const Limbs<4> all_ones = {~u64{0}, ~u64{0}, ~u64{0}, ~u64{0}};
    Limbs<4> largest = Fp::modulus, above = Fp::modulus, twice = Fp::modulus;
    largest[0] -= 1;
    above[0] += 1;
    add_to(twice, Fp::modulus);
    for (const bool montgomery : {false, true}) {
        for (const bool check_curve : {false, true}) {
            for (std::size_t n = 0; n <= 26; ++n) {
                const std::vector<Limbs<8>> raw = as_given(some_points(n), montgomery);
                compare(raw, montgomery, check_curve);
                for (std::size_t i = 0; i < n; ++i) {
                    for (const std::size_t of : {std::size_t{0}, std::size_t{4}}) {
                        for (const Limbs<4>& value : {Fp::modulus, above, twice, all_ones, largest, Limbs<4>{}}) {
                            std::vector<Limbs<8>> bad = raw;
                            put(bad[i], of, value);
                            compare(bad, montgomery, check_curve);
                        }
                        std::vector<Limbs<8>> off = raw;
                        off[i][of] ^= 2;
                        off[n - 1][of] ^= 4;
                        compare(off, montgomery, check_curve);
                    }
                }
            }
        }
    }
    return whet::test::finish("reading points");
}
