// whet._native.curve: batches of BN254 G1 points. An array of points is (n, 8) uint64: x then y, four little-endian
// limbs each, in Montgomery form, with all zeros for infinity. Where a check can fail the result ends with
// (index, reason): the first bad element, and 0 none, 1 coordinate not below p, 2 not on the curve, 3 no square root.
#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/interpreter_lock.hpp"
#include "curve/batch.hpp"
#include "curve/fixed_base.hpp"
#include "curve/glv.hpp"
#include "curve/normalise.hpp"
#include "graph/pool/pool.hpp"
#include "msm/affine/points_in.hpp"
#include "msm/affine/roots.hpp"

namespace nb = nanobind;
using namespace whet;
using namespace whet::bind;

namespace {

using Points = Rows<8>;
using Scalars = Rows<4>;
using Flags = nb::ndarray<const unsigned char, nb::shape<-1>, nb::c_contig, nb::device::cpu>;

// As read_points, by threads of its own, one per core and per 4,096 points: of a quarter of a microsecond each, so that
// starting a thread is a small part. The first defect is that of the first piece that has one.
FirstDefect read_in_pieces(std::span<const Limbs<8>> in, bool montgomery, bool check_curve, std::span<G1Affine> out) {
    constexpr std::size_t least = 4096;
    const std::size_t pieces = std::clamp<std::size_t>(in.size() / least, 1, graph::Pool::hardware_workers());
    std::vector<FirstDefect> found(pieces);
    const auto read = [&](std::size_t piece) {
        const std::size_t first = in.size() * piece / pieces, size = in.size() * (piece + 1) / pieces - first;
        found[piece] =
            msm::read_points_fast(in.subspan(first, size), montgomery, check_curve, out.subspan(first, size));
        found[piece].index += first;
    };
    std::vector<std::thread> threads;
    std::size_t started = 1;
    try {
        for (; started < pieces; ++started) threads.emplace_back(read, started);
    } catch (const std::system_error&) {  // no thread to be had: the rest is read here
    }
    read(0);
    for (std::size_t piece = started; piece < pieces; ++piece) read(piece);
    for (std::thread& thread : threads) thread.join();
    for (const FirstDefect& defect : found) {
        if (defect.reason != PointDefect::none) return defect;
    }
    return {};
}

nb::tuple read_rows(const Points& raw, bool montgomery, bool check_curve) {
    const auto in = elements<Limbs<8>>(raw);
    Output<G1Affine> out(in.size());
    FirstDefect defect;
    {
        const Unlocked unlocked;
        defect = read_in_pieces(in, montgomery, check_curve, out.span());
    }
    return nb::make_tuple(out.release(), defect.index, static_cast<int>(defect.reason));
}

auto write_rows(const Points& points) {
    const auto in = elements<G1Affine>(points);
    Output<Limbs<8>> out(in.size());
    {
        const Unlocked unlocked;
        write_points(in, out.span());
    }
    return out.release();
}

nb::tuple check_rows(const Points& points) {
    const auto in = elements<G1Affine>(points);
    FirstDefect defect;
    {
        const Unlocked unlocked;
        defect = check_on_curve(in);
    }
    return nb::make_tuple(defect.index, static_cast<int>(defect.reason));
}

nb::tuple recover(const Scalars& x, const Flags& second, bool by_size) {
    const auto in = elements<Fp>(x);
    const std::span<const unsigned char> wanted{second.data(), second.shape(0)};
    require_same_length(in, wanted);
    Output<G1Affine> out(in.size());
    FirstDefect defect;
    {
        const Unlocked unlocked;
        defect = decompress(in, wanted, by_size ? RootRule::larger : RootRule::odd, out.span(), msm::fastest_roots());
    }
    return nb::make_tuple(out.release(), defect.index, static_cast<int>(defect.reason));
}

auto normalised(const Rows<12>& points) {
    const auto in = elements<G1Jacobian>(points);
    Output<G1Affine> out(in.size());
    {
        const Unlocked unlocked;
        normalise<Bn254>(in, out.span());
    }
    return out.release();
}

auto generator_multiples(const Scalars& scalars) {
    const auto in = elements<Scalar256>(scalars);
    Output<G1Affine> out(in.size());
    {
        const Unlocked unlocked;
        multiply_generator(in, out.span());
    }
    return out.release();
}

// One Jacobian result per row, normalised together.
template <class Function>
auto jacobian_rows(std::size_t n, Function&& function) {
    Output<G1Affine> out(n);
    {
        const Unlocked unlocked;
        std::vector<G1Jacobian> results(n);
        for (std::size_t i = 0; i < n; ++i) results[i] = function(i);
        normalise<Bn254>(std::span<const G1Jacobian>(results), out.span());
    }
    return out.release();
}

// The left operand gets a Z other than one, so that the general formulas are the ones at work.
G1Jacobian scaled(const G1Affine& point, std::size_t salt) {
    const Fp z = Fp::from_u64(salt + 2);
    if (point.is_infinity()) return {z, z, Fp::zero()};
    return {point.x * z.squared(), point.y * z.squared() * z, z};
}

auto add_full(const Points& a, const Points& b) {
    const auto p = elements<G1Affine>(a), q = elements<G1Affine>(b);
    require_same_length(p, q);
    return jacobian_rows(p.size(), [&](std::size_t i) { return add(scaled(p[i], i), scaled(q[i], 2 * i + 1)); });
}

auto add_mixed(const Points& a, const Points& b) {
    const auto p = elements<G1Affine>(a), q = elements<G1Affine>(b);
    require_same_length(p, q);
    return jacobian_rows(p.size(), [&](std::size_t i) { return add(scaled(p[i], i), q[i]); });
}

auto double_points(const Points& a) {
    const auto p = elements<G1Affine>(a);
    return jacobian_rows(p.size(), [&](std::size_t i) { return scaled(p[i], i).doubled(); });
}

auto negate(const Points& a) {
    const auto p = elements<G1Affine>(a);
    return jacobian_rows(p.size(), [&](std::size_t i) { return G1Jacobian::from(-p[i]); });
}

auto multiply_points(const Points& a, const Scalars& scalars) {
    const auto p = elements<G1Affine>(a);
    const auto k = elements<Scalar256>(scalars);
    require_same_length(p, k);
    return jacobian_rows(p.size(), [&](std::size_t i) { return multiply(p[i], k[i]); });
}

auto in_subgroup(const Points& a) {
    const auto p = elements<G1Affine>(a);
    Output<unsigned char, unsigned char> out(p.size());
    {
        const Unlocked unlocked;
        for (std::size_t i = 0; i < p.size(); ++i) out.span()[i] = is_in_subgroup(p[i]);
    }
    return out.release();
}

auto apply_endomorphism(const Points& a) {
    const auto p = elements<G1Affine>(a);
    return jacobian_rows(p.size(), [&](std::size_t i) { return G1Jacobian::from(glv::endomorphism(p[i])); });
}

// (n, 6): |k1| in two limbs, its sign (1 is negative), |k2| in two limbs, its sign.
auto split_scalars(const Scalars& scalars) {
    const auto k = elements<Scalar256>(scalars);
    Output<Limbs<6>> out(k.size());
    {
        const Unlocked unlocked;
        for (std::size_t i = 0; i < k.size(); ++i) {
            const glv::Split s = glv::split(Fr::reduce(k[i]));
            out.span()[i] = {s.k1.magnitude[0], s.k1.magnitude[1], s.k1.negative,
                             s.k2.magnitude[0], s.k2.magnitude[1], s.k2.negative};
        }
    }
    return out.release();
}

}  // namespace

void bind_curve(nb::module_& m) {
    m.def("read_points", read_rows, nb::arg("raw"), nb::arg("montgomery"), nb::arg("check_curve"),
          "Points from plain or Montgomery limbs: (points, index, reason).");
    m.def("write_points", write_rows, "Canonical limbs of points.");
    m.def("check_on_curve", check_rows, "(index, reason) of the first point off the curve.");
    m.def("decompress", recover, nb::arg("x"), nb::arg("second"), nb::arg("by_size") = false,
          "Points from x in Montgomery form (n, 4) and uint8 (n,), 1 for the odd y (by_size: the larger): "
          "(points, index, reason).");
    m.def("normalise", normalised, "Affine points from Jacobian (n, 12), with shared inversions.");
    m.def("generator_multiples", generator_multiples, "k G for plain integers k below 2^256.");
    m.def("add", add_full, "p[i] + q[i] by the Jacobian formulas.");
    m.def("add_mixed", add_mixed, "p[i] + q[i] by the mixed formulas.");
    m.def("double", double_points);
    m.def("negate", negate);
    m.def("multiply", multiply_points, "k[i] p[i] by double and add, for plain integers k below 2^256.");
    m.def("in_subgroup", in_subgroup, "1 where r P = O.");
    m.def("endomorphism", apply_endomorphism, "(beta x, y).");
    m.def("glv_split", split_scalars, "(n, 6): |k1| in two limbs, 1 if negative, |k2| in two limbs, 1 if negative.");
}
