// What callers ask of whole arrays of points: is the input legal, and the conversions in and out.
// Nothing throws; a defect is the index of the first bad element and why it is bad.
#pragma once

#include <cstddef>
#include <span>

#include "curve/bn254.hpp"

namespace whet {

enum class PointDefect : int { none = 0, coordinate_not_below_p = 1, not_on_curve = 2, no_square_root = 3 };

struct FirstDefect {
    std::size_t index = 0;  // meaningful unless reason is none
    PointDefect reason = PointDefect::none;
};

// Reads points given as 2 x 4 little-endian limbs, canonical or in Montgomery form. (0, 0) is infinity. Checks that
// each coordinate is below p and, if asked, that each point is on the curve; stops at the first defect.
FirstDefect read_points(std::span<const Limbs<8>> raw, bool montgomery, bool check_curve, std::span<G1Affine> out);

// The reverse: canonical limbs.
void write_points(std::span<const G1Affine> points, std::span<Limbs<8>> out);

FirstDefect check_on_curve(std::span<const G1Affine> points);

// What tells the two roots apart: the canonical value of one is odd, and one of them is above (p - 1) / 2.
enum class RootRule : int { odd, larger };

// v^((p + 1) / 4) for each v: a square root where there is one. 360 multiplications each.
void root_candidates(const Fp* values, Fp* roots, std::size_t n);
using RootBatch = void (*)(const Fp* values, Fp* roots, std::size_t n);

// Recovers y from x for each element: the odd (or the larger) root where second[i], else the other one. An x with no
// point above it is a defect. Beside the roots, which an engine may have a faster batch for, 5 multiplications a point.
FirstDefect decompress(std::span<const Fp> x, std::span<const unsigned char> second, RootRule rule,
                       std::span<G1Affine> out, RootBatch find_roots = root_candidates);

}  // namespace whet
