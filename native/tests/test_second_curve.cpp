// The scalar kernel of the sum on a second curve, BLS12-381 G1: moduli, a generator, the endomorphism's two numbers and
// how wide a point is. Held against sums by py-ecc, and larger ones against double and add.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "bls12_381_vectors.hpp"
#include "check.hpp"
#include "curve/weierstrass.hpp"
#include "field/prime_field.hpp"
#include "msm/affine/scalar_sums.hpp"

using namespace whet;
using namespace whet::msm;

namespace {

struct BlsBaseParams {
    static constexpr Limbs<6> modulus = {0xb9feffffffffaaab, 0x1eabfffeb153ffff, 0x6730d2a0f6b0f624,
                                         0x64774b84f38512bf, 0x4b1ba7b6434bacd7, 0x1a0111ea397fe69a};
};
struct BlsScalarParams {
    static constexpr Limbs<4> modulus = {0xffffffff00000001, 0x53bda402fffe5bfe, 0x3339d80809a1d805,
                                         0x73eda753299d7d48};
};
using BlsFp = PrimeField<BlsBaseParams>;

struct Bls12381 {
    using Base = BlsFp;
    using Scalar = PrimeField<BlsScalarParams>;
    static constexpr BlsFp b() { return BlsFp::from_u64(4); }
    static Affine<Bls12381> generator() {
        return {BlsFp::from_canonical(vector_points[0].x), BlsFp::from_canonical(vector_points[0].y)};
    }
};
using Point = Affine<Bls12381>;
using Sum = Jacobian<Bls12381>;

// (x, y) -> (beta x, y) is multiplication by lambda, u^2 - 1 with the curve's u; checked below.
constexpr u128 lambda = static_cast<u128>(0xac45a4010001a402) << 64 | 0x00000000ffffffff;
const BlsFp beta = BlsFp::from_canonical({0x8bfd00000000aaac, 0x409427eb4f49fffd, 0x897d29650fb85f9b,
                                          0xaa0d857d89759ad4, 0xec02408663d4de85, 0x1a0111ea397fe699});

struct SumsOnBls12381 {
    static constexpr std::size_t field_bytes = 48;
    static constexpr std::size_t point_bytes = 128;  // 96 and room: offsets are cut out by a mask
    static const std::byte* beta() { return reinterpret_cast<const std::byte*>(&::beta); }
};
using Kernel381 = ScalarSums<BlsFp, SumsOnBls12381>;

constexpr unsigned window_bits = 5, windows = 26;  // 130 bits: a half and the carry of its last digit
constexpr std::size_t buckets = std::size_t{1} << (window_bits - 1);

struct Half {
    u128 k;
    bool second;  // stands for the image of its point
    std::size_t point;
};

// k = k1 + k2 lambda with the quotient and the rest of a division.
std::array<u128, 2> split(const Limbs<4>& scalar) {
    const Limbs<4> k = Bls12381::Scalar::reduce(scalar);
    u128 quotient = 0, rest = 0;
    for (std::size_t i = 256; i-- > 0;) {
        const bool over = rest >> 127 != 0;
        rest = rest << 1 | static_cast<u128>(bit(k, i));
        quotient <<= 1;
        if (over || rest >= lambda) rest -= lambda, quotient |= 1;
    }
    return {rest, quotient};
}

// One window: every bucket a list for the kernel, entries of second halves first, eight lists of about equal length to
// a group. Then 1 B_1 + 2 B_2 + ... by running sums.
Sum sum_window(const std::vector<std::byte>& table, const std::array<std::vector<u32>, buckets>& first,
               const std::array<std::vector<u32>, buckets>& second, Counts& counts) {
    std::array<std::size_t, buckets> order;
    for (std::size_t i = 0; i < buckets; ++i) order[i] = i;
    const auto length = [&](std::size_t i) { return first[i].size() + second[i].size(); };
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
    std::vector<u32> entries, targets;
    std::vector<u16> endo_rounds;
    std::vector<Group> groups;
    for (std::size_t g = 0; g < buckets; g += lanes) {
        const auto rounds = static_cast<u16>(std::max<std::size_t>(length(order[g]), 1));
        groups.push_back({static_cast<u32>(entries.size()), rounds, 1});
        entries.resize(entries.size() + lanes * rounds, padding_entry);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const std::size_t bucket = order[g + lane];
            u32* to = entries.data() + groups.back().first + lane;
            for (const auto* const list : {&second[bucket], &first[bucket]}) {
                for (const u32 entry : *list) *to = entry, to += lanes;
            }
            targets.push_back(static_cast<u32>(bucket));
            endo_rounds.push_back(static_cast<u16>(second[bucket].size()));
        }
    }
    std::vector<std::byte> sums(buckets * SumsOnBls12381::point_bytes);
    std::array<u8, buckets> present{};
    const auto scratch = std::make_unique<Kernel381::Scratch>();
    Kernel381::sum_lists({table.data(), entries.data(), groups.data(), groups.size(), targets.data(),
                          endo_rounds.data(), sums.data(), present.data(), scratch.get()},
                         counts);
    Sum running = Sum::infinity(), total = Sum::infinity();
    for (std::size_t i = buckets; i-- > 0;) {
        Point bucket = Point::infinity();
        if (present[i]) std::memcpy(&bucket, sums.data() + SumsOnBls12381::point_bytes * i, sizeof bucket);
        CHECK(bucket.is_on_curve());
        running = add(running, bucket);
        total = add(total, running);
    }
    return total;
}

Point sum_of(std::span<const Point> points, std::span<const Limbs<4>> scalars, Counts& counts) {
    std::vector<std::byte> table(points.size() * SumsOnBls12381::point_bytes);
    std::vector<Half> halves;
    for (std::size_t i = 0; i < points.size(); ++i) {
        std::memcpy(table.data() + SumsOnBls12381::point_bytes * i, &points[i], sizeof points[i]);
        if (points[i].is_infinity()) continue;
        const auto [k1, k2] = split(scalars[i]);
        halves.push_back({k1, false, i});
        halves.push_back({k2, true, i});
    }
    std::vector<unsigned> carry(halves.size(), 0);
    std::vector<Sum> of_window;
    for (unsigned w = 0; w < windows; ++w) {
        std::array<std::vector<u32>, buckets> first, second;
        for (std::size_t h = 0; h < halves.size(); ++h) {
            const Half& half = halves[h];
            const u128 rest = w * window_bits < 128 ? half.k >> (w * window_bits) : 0;
            unsigned digit = (static_cast<unsigned>(rest) & (2 * buckets - 1)) + carry[h];
            carry[h] = digit > buckets;
            if (digit == 0 || digit == 2 * buckets) continue;
            const bool negative = digit > buckets;
            if (negative) digit = 2 * buckets - digit;
            const auto entry = static_cast<u32>(half.point * SumsOnBls12381::point_bytes) | (negative ? entry_sign : 0);
            (half.second ? second : first)[digit - 1].push_back(entry);
        }
        of_window.push_back(sum_window(table, first, second, counts));
    }
    Sum total = Sum::infinity();
    for (std::size_t w = windows; w-- > 0;) {
        for (unsigned i = 0; i < window_bits; ++i) total = total.doubled();
        total = add(total, of_window[w]);
    }
    return total.is_infinity() ? Point::infinity() : total.affine();
}

Point from_vector(const VectorPoint& point) { return {BlsFp::from_canonical(point.x), BlsFp::from_canonical(point.y)}; }

void check_constants() {
    const Point g = Bls12381::generator();
    CHECK(g.is_on_curve() && multiply(g, BlsScalarParams::modulus).is_infinity());
    CHECK(beta * beta * beta == BlsFp::one() && !(beta == BlsFp::one()));
    const Limbs<2> words = {static_cast<u64>(lambda), static_cast<u64>(lambda >> 64)};
    CHECK(multiply(g, words).affine() == Point(beta * g.x, g.y));
}

void check_vectors(Counts& counts) {
    std::vector<Point> points;
    for (const VectorPoint& point : vector_points) points.push_back(from_vector(point));
    for (std::size_t i = 0; i < std::size(vector_sizes); ++i) {
        const std::size_t n = vector_sizes[i];
        const std::span<const Limbs<4>> scalars(vector_scalars, n);
        CHECK(sum_of(std::span(points).first(n), scalars, counts) == from_vector(vector_sums[i]));
    }
}

// Points that are few and repeat, so that buckets meet equal and opposite ones; any 256 bits as scalars.
void check_against_double_and_add(std::size_t n, unsigned kinds, Counts& counts) {
    std::mt19937_64 random_bits(n);
    std::vector<Point> points;
    std::vector<Limbs<4>> scalars(n);
    Sum at = Sum::from(Bls12381::generator()), want = Sum::infinity();
    for (std::size_t i = 0; i < n; ++i) {
        if (i < kinds) at = add(at.doubled(), Bls12381::generator());
        points.push_back(i < kinds ? at.affine() : random_bits() % 2 ? points[i % kinds] : -points[i % kinds]);
        for (u64& word : scalars[i]) word = random_bits();
        if (i % 7 == 3) scalars[i] = {random_bits() % 4, 0, 0, 0};
        want = add(want, multiply(points[i], scalars[i]));
    }
    CHECK(sum_of(points, scalars, counts) == want.affine());
}

}  // namespace

int main() {
    Counts counts;
    check_constants();
    check_vectors(counts);
    for (const std::size_t n : {1, 40, 300}) check_against_double_and_add(n, 40, counts);
    check_against_double_and_add(60, 2, counts);
    CHECK(counts.additions > 0 && counts.doublings > 0 && counts.cancellations > 0);
    return whet::test::finish("the scalar kernel on BLS12-381");
}
