// How one multi-scalar multiplication is cut: windows, batches of windows, and the sizes that follow. Closed forms
// only.
#pragma once

#include <array>
#include <cstddef>

#include "curve/glv.hpp"
#include "msm/affine/chunk.hpp"

namespace whet::msm {

constexpr unsigned max_windows = 64;
constexpr unsigned max_width = 16;   // digits are 16 bits
constexpr unsigned full_bits = 127;  // a GLV half with its sign
// No half of a split scalar is larger: each is a remainder after two rounded quotients times long_a and small (or
// long_b, which is less), and a kernel's rounding may be off by 2^-5 beyond the exact 1/2.
constexpr u128 glv_half_bound = (glv::long_a + glv::small) / 32 * 17 + 17;
// A table may keep several multiples of every point: block b of `factor` blocks has 2^(b block_bits) P. A half is then
// cut into as many parts, each a number of its own over its block, and one set of windows serves all of them.
constexpr unsigned max_factor = 16;  // with max_points: the offset of an entry has 32 bits
constexpr unsigned block_bits(unsigned factor) { return factor == 1 ? full_bits : (half_bits + factor - 1) / factor; }
constexpr std::size_t max_points = std::size_t{1} << 22;
constexpr unsigned windows_at_once = 4;  // batches of large inputs: about 16 bytes per point and window
constexpr std::size_t small_batch_bytes = std::size_t{8} << 20;  // all windows at once while they fit this

struct Plan {
    std::size_t n = 0;    // scalars
    bool small = false;   // so few points that they are summed without buckets: what follows does not count
    bool glv = true;      // false when every scalar is short enough to be its own half
    unsigned blocks = 1;  // parts of a half, and blocks of the table that are used
    unsigned bits = 0;    // the digits of a part cover this many; those of all parts have room for the sign
    unsigned windows = 0;
    unsigned batch = 0;                   // windows worked on together
    unsigned slices = 1, row_slices = 1;  // of a window, sorted into buckets and into rows by a task each
    std::array<u8, max_windows> width{};

    std::size_t halves() const { return glv ? 2 * n : n; }
    std::size_t digits() const { return blocks * halves(); }  // of a window
    std::size_t buckets(unsigned window) const { return std::size_t{1} << (width[window] - 1); }
    unsigned position(unsigned window) const;
};

// At most that many windows at once, in even batches: 9 windows as 5 and 4, not as 8 and 1.
void limit_batch(Plan& plan, unsigned most);

// How many scalars have so many bits; 0 stands for zeros, the last for all that are longer.
struct Lengths {
    static constexpr unsigned most = 128;
    std::array<std::size_t, most + 1> of{};

    Lengths& operator+=(const Lengths& other) {
        for (std::size_t i = 0; i < of.size(); ++i) of[i] += other.of[i];
        return *this;
    }
};

// scalar_bits: highest bit any scalar uses (0 .. 256). busy: how many scalars are not zero. windows, of a part: 0
// chooses. factor: of the table.
Plan make_plan(std::size_t n, std::size_t busy, unsigned scalar_bits, unsigned windows, unsigned factor = 1);
// The same by what was seen: where short scalars are among long ones, windows that they fill are wide and few, and the
// others narrow. Widths fall from the first window to the last, so that the first batch needs the most room.
Plan make_plan(std::size_t n, const Lengths& lengths, unsigned scalar_bits, unsigned windows, unsigned factor = 1);
// How many blocks, `most` or fewer, make sums over n points cheapest. More are not always better: windows have whole
// bits, and a part has a whole number of windows.
unsigned choose_factor(std::size_t n, unsigned most);
// Additions that the plan is expected to cost, as far as the choice of windows depends on them.
double expected_cost(const Plan& plan, const Lengths& lengths);

}  // namespace whet::msm
