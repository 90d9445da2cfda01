#include "msm/engine/plan.hpp"

#include <algorithm>
#include <functional>
#include <vector>

namespace whet::msm {

namespace {

// Additions that a window costs, as far as the choice depends on them: one per entry with its sorting, a pass over the
// digits that are zero as well, and per bucket the two of its row and column, the list's set-up less the addition its
// first point saves. The weights were checked against a sweep over window counts (benchmarks/msm_windows.py).
constexpr double per_entry = 1.08, per_digit = 0.04, per_window = 150, per_bucket = 2.2;

double cost(double entries_per_window, unsigned bits, unsigned windows) {
    const unsigned width = (bits + windows - 1) / windows;
    if (width > max_width) return 1e300;
    const unsigned wide = bits - (width - 1) * windows;  // windows of full width; the others have one bit less
    const double buckets = wide * static_cast<double>(1u << (width - 1)) +
                           (windows - wide) * static_cast<double>(width > 1 ? 1u << (width - 2) : 0);
    return windows * ((per_entry + per_digit) * entries_per_window + per_window) + per_bucket * buckets;
}

// The bias that makes all digits non-negative takes from the positive range: with B = sum 2^(position + width - 1) the
// digits reach from -B to 2^bits - 1 - B. The top window alone puts 2^(bits - 1) into B, so the negative end is never
// the one that is short. B is largest where windows are narrowest; if all have at least w bits, then the tops of
// windows are at least w apart and B < 2^(bits - 1) (1 + 2^-w + 2^-2w + ...) = 2^(bits - 1) / (1 - 2^-w).
//
// GLV, 127 bits, up to 31 windows: w = 4, so B < 16/15 2^126 and 14/15 2^126 = 2^125.9005 is left. The halves are below
// 17/32 (long_a + small) = 0.9239 2^126 = 2^125.8858 (glv_half_bound). From 32 windows on w is 3, 6/7 2^126 = 0.857
// 2^126 is left, and that is too little. The margin at 28 to 31 windows is 1 %, so a test compares the exact numbers.
//
// Several parts: all their windows together are the windows of one number of 128 bits, so a part borrows its sign from
// the next and only the last has one. The last window may be cut short, to one bit at worst: with w = 4 for the others
// B < 2^127 + 2^126 (1 + 1/15), again 14/15 2^126 is left.
//
// Short scalars have 2 bits more than they need and w = 2: B < 4/3 2^(bits - 1), and 2/3 2^(bits - 1) is more than a
// scalar of bits - 2 bits can be. (One bit: a single window of 3, in which 3 is left.)
unsigned most_windows(const Plan& plan) { return plan.glv ? plan.bits / 4 : std::max(plan.bits / 2, 1u); }

unsigned choose_windows(double entries_per_window, unsigned bits, unsigned most) {
    unsigned best = (bits + max_width - 1) / max_width;
    for (unsigned windows = best; windows <= most; ++windows) {
        if (cost(entries_per_window, bits, windows) < cost(entries_per_window, bits, best)) best = windows;
    }
    return best;
}

// Entries of a window that starts at a position: halves that reach it, which a carry makes those that end there. A
// scalar that is short enough is its own first half, and its second is zero.
constexpr unsigned short_bits = full_bits - 2;
using Reaching = std::array<double, full_bits + 1>;
Reaching entries_from(const Lengths& lengths) {
    double longer = 0;
    for (unsigned bits = short_bits + 1; bits <= Lengths::most; ++bits)
        longer += 2 * static_cast<double>(lengths.of[bits]);
    Reaching entries;
    for (unsigned position = full_bits + 1; position-- > 0;) {
        if (position > 0 && position <= short_bits) longer += static_cast<double>(lengths.of[position]);
        entries[position] = longer;
    }
    return entries;
}

// The same for the windows of all parts that start at a position of theirs.
double entries_at(const Reaching& entries, const Plan& plan, unsigned position) {
    double sum = 0;
    for (unsigned b = 0; b < plan.blocks && b * plan.bits + position < entries.size(); ++b)
        sum += entries[b * plan.bits + position];
    return sum;
}

double window_cost(double entries, double digits, unsigned width) {
    return per_entry * entries + per_digit * digits + per_window + per_bucket * static_cast<double>(1u << (width - 1));
}

// The widths of least cost for GLV halves, by the best cut of all that lies below each position: 1,500 steps.
std::vector<u8> cheapest_widths(const Reaching& entries, const Plan& plan) {
    constexpr unsigned least = 4;  // see most_windows
    std::array<double, full_bits + 1> best;
    std::array<u8, full_bits + 1> last{};
    best.fill(1e300);
    best[0] = 0;
    for (unsigned from = 0; from < plan.bits; ++from) {
        if (best[from] >= 1e300) continue;
        const double reaching = entries_at(entries, plan, from), digits = static_cast<double>(plan.digits());
        for (unsigned width = least; width <= max_width && from + width <= plan.bits; ++width) {
            const double sum = best[from] + window_cost(reaching, digits, width);
            if (sum >= best[from + width]) continue;
            best[from + width] = sum;
            last[from + width] = static_cast<u8>(width);
        }
    }
    std::vector<u8> widths;
    for (unsigned end = plan.bits; end > 0; end -= last[end]) widths.push_back(last[end]);
    // Never worse: a wider window first lets the next one start higher, where no more halves reach.
    std::sort(widths.begin(), widths.end(), std::greater<>());
    return widths;
}

void choose_batch(Plan& plan) {
    const std::size_t bytes_per_window = plan.digits() * (sizeof(u32) + sizeof(std::int16_t));
    const std::size_t fitting = bytes_per_window ? small_batch_bytes / bytes_per_window : max_windows;
    limit_batch(plan, static_cast<unsigned>(std::clamp<std::size_t>(fitting, windows_at_once, max_windows)));
}

}  // namespace

unsigned Plan::position(unsigned window) const {
    unsigned sum = 0;
    for (unsigned w = 0; w < window; ++w) sum += width[w];
    return sum;
}

Plan make_plan(std::size_t n, std::size_t busy, unsigned scalar_bits, unsigned windows, unsigned factor) {
    Plan plan;
    plan.n = n;
    plan.glv = scalar_bits + 2 > full_bits;
    const unsigned needed = plan.glv ? full_bits : scalar_bits + 2, part = block_bits(factor);
    plan.blocks = (needed + part - 1) / part;
    plan.bits = plan.blocks == 1 ? needed : part;
    const double entries = static_cast<double>(plan.blocks * (plan.glv ? 2 * busy : busy));
    const unsigned least = (plan.bits + max_width - 1) / max_width;
    plan.windows = windows ? std::clamp(windows, least, most_windows(plan))
                           : choose_windows(entries, plan.bits, most_windows(plan));
    // Widths differ by one at most. The wide ones come first: the top window then has the fewest buckets to sum.
    for (unsigned w = 0; w < plan.windows; ++w)
        plan.width[w] = static_cast<u8>(plan.bits / plan.windows + (w < plan.bits % plan.windows ? 1 : 0));
    choose_batch(plan);
    return plan;
}

double expected_cost(const Plan& plan, const Lengths& lengths) {
    const Reaching entries = entries_from(lengths);
    double sum = 0;
    for (unsigned w = 0; w < plan.windows; ++w)
        sum +=
            window_cost(entries_at(entries, plan, plan.position(w)), static_cast<double>(plan.digits()), plan.width[w]);
    return sum;
}

Plan make_plan(std::size_t n, const Lengths& lengths, unsigned scalar_bits, unsigned windows, unsigned factor) {
    Plan plan = make_plan(n, n - lengths.of[0], scalar_bits, windows, factor);
    const Reaching entries = entries_from(lengths);
    const bool mixed = entries[0] != entries[full_bits - 1];
    if (windows != 0 || !plan.glv || !mixed) return plan;
    const std::vector<u8> widths = cheapest_widths(entries, plan);
    Plan other = plan;
    other.windows = static_cast<unsigned>(widths.size());
    other.width.fill(0);
    std::copy(widths.begin(), widths.end(), other.width.begin());
    choose_batch(other);
    // A few short scalars are no reason to leave the plan that memory maps are made from.
    constexpr double worth_it = 0.97;
    return expected_cost(other, lengths) < worth_it * expected_cost(plan, lengths) ? other : plan;
}

unsigned choose_factor(std::size_t n, unsigned most) {
    Lengths all_long;
    all_long.of[Lengths::most] = n;
    const auto cost_of = [&](unsigned factor) { return expected_cost(make_plan(n, n, 256, 0, factor), all_long); };
    constexpr double worth_a_block = 0.99;
    unsigned best = 1;
    double least = cost_of(1);
    for (unsigned factor = 2; factor <= most; ++factor) {
        const double cost = cost_of(factor);
        if (cost >= worth_a_block * least) continue;
        best = factor;
        least = cost;
    }
    return best;
}

void limit_batch(Plan& plan, unsigned most) {
    most = std::min(most, plan.windows);
    const unsigned batches = (plan.windows + most - 1) / most;
    plan.batch = (plan.windows + batches - 1) / batches;
}

}  // namespace whet::msm
