// A few points, eight to a vector: multiples 1 .. 16 of each, then for every window the sum of the multiples that its
// digits name, then one chain of doublings.
// Against the scalar method for few points: affine additions that share inversions (6 products and 1/8 of a vector
// each, not 11 and a whole one), windows side by side instead of one after the other. What that buys: from 4 points on
// it is faster, and up to some hundreds it costs less than buckets, whose sort and reduction do not shrink with n.
// Limit: about eight inversions, 3 us each, and the 127 doublings, which nothing runs beside.
#include "msm/affine/few_ifma.hpp"

#include <algorithm>
#include <cstring>

#include "curve/glv.hpp"
#include "msm/affine/batch52.hpp"
#include "msm/affine/ifma_input.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

constexpr unsigned window_bits = 5;
constexpr std::size_t multiples = std::size_t{1} << (window_bits - 1);  // signed digits: magnitudes 0 .. 16
constexpr unsigned full_bits = 127;                                     // a GLV half with its sign and the bias's room
constexpr unsigned most_windows = (full_bits + window_bits - 1) / window_bits;
constexpr std::size_t most_strands = 4;        // sums of one window and half that grow side by side
constexpr std::size_t groups_of_a_block = 16;  // whose multiples are made together

// Eight points. x < 3.25 p, y < 2.25 p, tidy; what an infinite lane holds is of no account but within these bounds.
struct alignas(64) Eight {
    Lanes x, y;
    LaneMask infinite;
};
struct Addition {
    const Eight *a, *b;  // the same one: a doubling
    Eight* out;
};
struct alignas(64) Step {
    Lanes denominator, prefix;
    LaneMask plain;  // lanes that are added; in the others one side is infinity, or the sum is
    LaneMask twice, vanish;
};

std::size_t groups_of(std::size_t n) { return (n + lanes - 1) / lanes; }
std::size_t strands_of(std::size_t groups) { return std::min(groups, most_strands); }

// Room for n points.
struct Sizes {
    explicit Sizes(std::size_t n)
        : groups(groups_of(n)),
          digits(2 * most_windows * lanes * groups),
          multiples_of_block(multiples * std::min(groups, groups_of_a_block)),
          sums(2 * most_windows * strands_of(groups)),
          eights(std::max(multiples_of_block, 2 * sums) + 1),
          additions(std::max(multiples_of_block / 2, sums) + 2) {}
    std::size_t groups, digits, multiples_of_block, sums, eights, additions;
    static std::size_t lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
    std::size_t bytes() const {
        return lines(digits * sizeof(std::int16_t)) + lanes * groups * multiples * point_bytes +
               eights * sizeof(Eight) + additions * sizeof(Step) + lines(additions * sizeof(Addition));
    }
};

// Whether a value below 9 p is zero.
LaneMask is_zero_lane(const Lanes& carried_value) {
    const Lanes value = masked(product(carried_value, all_lanes(constants52.one)));  // below 2 p
    return equals(value, constants52.p[0]) |
           (WHET_FIELD_PLANT(lazy_zero_missed) ? LaneMask{0} : equals(value, constants52.p[1]));
}

WHET_INLINE Lanes y_difference(const Addition& one) {  // (3 p - y1) + y2: in (0.75 p, 5.25 p)
    return carried(plus(minus(all_lanes(constants52.p[3]), one.a->y), one.b->y));
}

// (4 p - x1) + x2, in (0.75 p, 7.25 p), or 2 y1, below 4.5 p; one where nothing is added.
WHET_INLINE void put_denominator(const Addition& one, Step& step) {
    step.plain = static_cast<LaneMask>(~(one.a->infinite | one.b->infinite));
    step.vanish = 0;
    step.twice = one.a == one.b ? step.plain : LaneMask{0};
    const Lanes bottom =
        one.a == one.b ? plus(one.a->y, one.a->y) : plus(one.b->x, minus(all_lanes(constants52.p[4]), one.a->x));
    step.denominator = choose(step.plain, carried(bottom), all_lanes(constants52.one));
}

Products multiply_up(Step* steps, std::size_t count) {
    Products run = Products::ones();
    for (std::size_t i = 0; i < count; i += 2) {
        Lanes* const own = run.pair_of(i);
        steps[i].prefix = own[0];
        steps[i + 1].prefix = own[1];
        multiply_pair(own[0], own[0], steps[i].denominator, own[1], own[1], steps[i + 1].denominator);
    }
    return run;
}

// Some lane adds a point to itself or to its negative: puts a denominator there that can be inverted.
void resolve_zeros(const Addition* additions, Step* steps, std::size_t count, Counts& counts) {
    ++counts.slow_passes;
    for (std::size_t i = 0; i < count; ++i) {
        Step& step = steps[i];
        const LaneMask zero = is_zero_lane(step.denominator) & step.plain;
        if (zero == 0) continue;
        const LaneMask equal = zero & is_zero_lane(y_difference(additions[i]));
        step.twice = WHET_PLANT(few_doubling_missed) ? step.twice : static_cast<LaneMask>(step.twice | equal);
        step.vanish = zero & static_cast<LaneMask>(~step.twice);
        step.plain &= static_cast<LaneMask>(~step.vanish);
        const Lanes double_y = carried(plus(additions[i].a->y, additions[i].a->y));
        step.denominator = choose(step.twice & zero, double_y, step.denominator);
        step.denominator = choose(step.vanish, all_lanes(constants52.one), step.denominator);
        counts.doublings += static_cast<u64>(__builtin_popcount(equal));
        counts.cancellations += static_cast<u64>(__builtin_popcount(step.vanish));
        if (WHET_PLANT(few_cancellation_missed)) step.vanish = 0;
    }
}

WHET_INLINE Lanes numerator(const Addition& one, const Step& step) {
    if (step.twice == 0) return y_difference(one);
    const Lanes square = product_columns(one.a->x, one.a->x);  // below 1.2 p
    return choose(step.twice, carried(plus(square, plus(square, square))), y_difference(one));
}

// 9 p - x1 - x2, in (2.5 p, 9 p).
WHET_INLINE Lanes x_offset_of(const Addition& one) {
    return minus(minus(all_lanes(constants52.nine_p), one.a->x), one.b->x);
}
// From (2.5 p, 10.1 p) to below 3.25 p: five off where it is above 5.25 p, then three where it is above 3.25 p.
WHET_INLINE Lanes reduced_x(const Lanes& x) {
    return below_limit(below_limit(x, constants52.far_limit, constants52.p[5]), constants52.x_limit, constants52.p[3]);
}

WHET_INLINE void store(const Addition& one, const Step& step, const Lanes& x, const Lanes& y) {
    const LaneMask take_b = one.a->infinite;
    const LaneMask infinite = static_cast<LaneMask>((one.a->infinite & one.b->infinite) | step.vanish);
    if (step.plain != 0xff) {
        one.out->x = choose(step.plain, x, choose(take_b, one.b->x, one.a->x));
        one.out->y = choose(step.plain, y, choose(take_b, one.b->y, one.a->y));
    } else {
        one.out->x = x;
        one.out->y = y;
    }
    one.out->infinite = infinite;
}

void add_pair(const Addition* one, const Step* step, Products& inverse, std::size_t i) {
    Lanes* const chain = inverse.pair_of(i);
    Lanes a_slope, b_slope;
    multiply_pair(a_slope, chain[0], step[0].prefix, b_slope, chain[1], step[1].prefix);
    multiply_pair(a_slope, a_slope, numerator(one[0], step[0]), b_slope, b_slope, numerator(one[1], step[1]));
    multiply_pair(chain[0], chain[0], step[0].denominator, chain[1], chain[1], step[1].denominator);
    const Lanes a_x_offset = x_offset_of(one[0]), b_x_offset = x_offset_of(one[1]);
    Lanes a_x, b_x, a_y, b_y;
    product_columns_pair(a_x, a_slope, a_slope, &a_x_offset, b_x, b_slope, b_slope, &b_x_offset);
    a_x = reduced_x(a_x);
    b_x = reduced_x(b_x);
    // slope (x1 - x3 + 4 p) + 3 p - y1, in (0.75 p, 4.2 p).
    const Lanes a_run = carried(plus(minus(one[0].a->x, a_x), all_lanes(constants52.p[4])));
    const Lanes b_run = carried(plus(minus(one[1].a->x, b_x), all_lanes(constants52.p[4])));
    const Lanes a_y_offset = minus(all_lanes(constants52.p[3]), one[0].a->y);
    const Lanes b_y_offset = minus(all_lanes(constants52.p[3]), one[1].a->y);
    product_columns_pair(a_y, a_slope, a_run, &a_y_offset, b_y, b_slope, b_run, &b_y_offset);
    store(one[0], step[0], a_x, below_limit(a_y, constants52.y_limit, constants52.p[2]));
    store(one[1], step[1], b_x, below_limit(b_y, constants52.y_limit, constants52.p[2]));
}

class Few {
  public:
    Few(std::size_t n, void* scratch) : size_(n), room_(n) {
        auto* at = static_cast<std::byte*>(scratch);
        const auto take = [&](std::size_t bytes) {
            std::byte* const from = at;
            at += Sizes::lines(bytes);
            return from;
        };
        eights_ = reinterpret_cast<Eight*>(take(room_.eights * sizeof(Eight)));
        steps_ = reinterpret_cast<Step*>(take(room_.additions * sizeof(Step)));
        table_ = take(lanes * room_.groups * multiples * point_bytes);
        digits_ = reinterpret_cast<std::int16_t*>(take(room_.digits * sizeof(std::int16_t)));
        additions_ = reinterpret_cast<Addition*>(take(room_.additions * sizeof(Addition)));
        idle_ = eights_ + room_.eights - 1;
        *idle_ = {all_lanes(constants52.p[0]), all_lanes(constants52.p[0]), 0xff};
    }

    void run(const std::byte* points, bool converted, const std::byte* scalars, std::byte* by_bit, Counts& counts,
             u64& entries) {
        cut_digits(scalars);
        for (std::size_t first = 0; first < room_.groups; first += groups_of_a_block)
            make_multiples(points, converted, first, std::min(first + groups_of_a_block, room_.groups), counts);
        for (std::size_t i = 0; i < halves_ * windows_ * padded(); ++i) entries += digits_[i] != 0;
        sum_windows(counts);
        fold_lanes(counts);
        give_out(by_bit);
    }

  private:
    std::size_t padded() const { return lanes * room_.groups; }
    // Digit of a window of the first (0) or second (1) half of all scalars.
    std::int16_t* digits_of(unsigned window, std::size_t half) const {
        return digits_ + (window * halves_ + half) * padded();
    }

    void cut_digits(const std::byte* scalars) {
        Limbs<4> any{};
        for (std::size_t i = 0; i < size_; ++i) {
            u64 word[4];
            std::memcpy(word, scalars + field_bytes * i, field_bytes);
            for (std::size_t k = 0; k < 4; ++k) any[k] |= word[k];
        }
        // As in plan.cpp: two bits more than a short scalar has, or 127 for the halves of a long one.
        unsigned bits = 2;
        for (std::size_t k = 0; k < 4; ++k) {
            if (any[k] != 0)
                bits = static_cast<unsigned>(64 * k + 66 - static_cast<std::size_t>(__builtin_clzll(any[k])));
        }
        halves_ = bits > full_bits ? 2 : 1;
        bits = std::min(bits, full_bits);
        windows_ = (bits + window_bits - 1) / window_bits;
        for (unsigned w = 0; w < windows_; ++w)
            width_[w] = static_cast<u8>(bits / windows_ + (w < bits % windows_ ? 1 : 0));
        std::memset(digits_, 0, halves_ * windows_ * padded() * sizeof(std::int16_t));
        const Digits to = {digits_, halves_ * padded(), halves_ == 2 ? padded() : 0, width_, windows_, 0, windows_};
        decompose_ifma(scalars, WHET_PLANT(few_last_lost) ? size_ - 1 : size_, to);
    }

    // One inversion for all of them.
    void add_all(std::size_t count, Counts& counts) {
        if (count == 0) return;
        additions_[count] = {idle_, idle_, idle_};  // evens out an odd number
        const std::size_t even = count + count % 2;
        u64 lanes_added = 0;
        for (std::size_t i = 0; i < even; ++i) {
            put_denominator(additions_[i], steps_[i]);
            lanes_added += static_cast<u64>(__builtin_popcount(steps_[i].plain));
        }
        counts.additions += lanes_added;
        Products run = multiply_up(steps_, even);
        if (has_zero(run) && !WHET_PLANT(slow_pass_skipped)) {
            resolve_zeros(additions_, steps_, even, counts);
            run = multiply_up(steps_, even);
        }
        if (lanes_added != 0) {
            run = invert(run);
            ++counts.inversions;
        }
        for (std::size_t i = even; i > 0;) {
            i -= 2;
            add_pair(additions_ + i, steps_ + i, run, i);
        }
    }

    // Lanes without a point, or whose point is infinity, get the generator, and no digit.
    void load(const std::byte* points, bool converted, std::size_t group, Eight& to) {
        const std::byte *x_from[lanes], *y_from[lanes];
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            x_from[lane] = points + point_bytes * std::min(lanes * group + lane, size_ - 1);
            y_from[lane] = x_from[lane] + field_bytes;
        }
        Lanes x = gather(x_from), y = gather(y_from);
        LaneMask none = equals(x, constants52.p[0]) & equals(y, constants52.p[0]);
        if (WHET_PLANT(few_infinity_counted)) none = 0;
        if (!converted) {
            const Lanes enter = all_lanes(constants52.two_to_264);
            multiply_pair(x, x, enter, y, y, enter);
            x = masked(x);
            y = masked(y);
        }
        const Lanes one = all_lanes(constants52.one);
        to = {choose(none, one, x), choose(none, tidy(plus(one, one)), y), 0};
        if (none == 0) return;
        for (unsigned w = 0; w < windows_; ++w) {
            for (std::size_t half = 0; half < halves_; ++half) {
                for (std::size_t lane = 0; lane < lanes; ++lane) {
                    if (none >> lane & 1) digits_of(w, half)[lanes * group + lane] = 0;
                }
            }
        }
    }

    // P to 16 P in four steps: sums of what is there with the largest of them, and its double.
    void make_multiples(const std::byte* points, bool converted, std::size_t first, std::size_t last, Counts& counts) {
        const std::size_t groups = last - first;
        const auto multiple = [&](std::size_t group, std::size_t k) { return eights_ + group * multiples + k - 1; };
        for (std::size_t g = 0; g < groups; ++g) load(points, converted, first + g, *multiple(g, 1));
        for (std::size_t have = 1; have < multiples; have *= 2) {
            std::size_t count = 0;
            for (std::size_t g = 0; g < groups; ++g) {
                for (std::size_t k = 1; k <= have; ++k)
                    additions_[count++] = {multiple(g, have), multiple(g, k), multiple(g, have + k)};
            }
            add_all(count, counts);
        }
        for (std::size_t g = 0; g < groups; ++g) {
            for (std::size_t k = 1; k <= multiples; ++k) {
                std::byte* at[lanes];
                for (std::size_t lane = 0; lane < lanes; ++lane)
                    at[lane] = table_ + ((lanes * (first + g) + lane) * multiples + k - 1) * point_bytes;
                scatter_points(canonical(multiple(g, k)->x), canonical(multiple(g, k)->y), at, 0xff);
            }
        }
    }

    // What the digits of eight points name.
    void look_up(unsigned window, std::size_t half, std::size_t group, Eight& to) const {
        const std::int16_t* const digits = digits_of(window, half) + lanes * group;
        const std::byte *x_from[lanes], *y_from[lanes];
        LaneMask negative = 0, zero = 0;
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const int digit = digits[lane], minus_one = digit >> 31;
            const auto magnitude = static_cast<std::size_t>((digit ^ minus_one) - minus_one);
            negative |= static_cast<LaneMask>((minus_one & 1) << lane);
            zero |= static_cast<LaneMask>((magnitude == 0) << lane);
            x_from[lane] = table_ + ((lanes * group + lane) * multiples + magnitude - (magnitude != 0)) * point_bytes;
            y_from[lane] = x_from[lane] + field_bytes;
        }
        to.x = gather(x_from);
        const Lanes y = gather(y_from);
        to.y = tidy(choose(negative, minus(all_lanes(constants52.p[1]), y), y));
        to.infinite = WHET_PLANT(few_zero_counted) ? LaneMask{0} : zero;
    }

    Eight* sum_of(unsigned window, std::size_t half, std::size_t strand) const {
        return eights_ + (half * strands() + strand) * windows_ + window;
    }
    std::size_t strands() const { return strands_of(room_.groups); }

    // For each window and half of a scalar some sums side by side, then one of each window.
    void sum_windows(Counts& counts) {
        Eight* const entries = eights_ + room_.sums;
        for (std::size_t first = 0; first < room_.groups; first += strands()) {
            std::size_t count = 0;
            for (std::size_t half = 0; half < halves_; ++half) {
                for (std::size_t s = 0; s < strands() && first + s < room_.groups; ++s) {
                    for (unsigned w = 0; w < windows_; ++w) {
                        Eight* const sum = sum_of(w, half, s);
                        look_up(w, half, first + s, first == 0 ? *sum : entries[count]);
                        additions_[count] = {sum, entries + count, sum};
                        ++count;
                    }
                }
            }
            if (first != 0) add_all(count, counts);
        }
        for (std::size_t left = strands(); left > 1;) {
            const std::size_t keep = (left + 1) / 2;
            std::size_t count = 0;
            for (std::size_t half = 0; half < halves_; ++half) {
                for (std::size_t s = 0; s + keep < left; ++s) {
                    for (unsigned w = 0; w < windows_; ++w)
                        additions_[count++] = {sum_of(w, half, s), sum_of(w, half, s + keep), sum_of(w, half, s)};
                }
            }
            add_all(count, counts);
            left = keep;
        }
        if (halves_ == 1) return;
        const Lanes beta = all_lanes(constants52.beta);
        for (unsigned w = 0; w < windows_; ++w) {
            Eight* const second = sum_of(w, 1, 0);
            if (!WHET_PLANT(few_beta_lost)) second->x = masked(product(second->x, beta));
            additions_[w] = {sum_of(w, 0, 0), second, sum_of(w, 0, 0)};
        }
        add_all(windows_, counts);
    }

    // Eight lanes of a window to one: two vectors become one three times over, until lane l of vector v is window
    // 8 v + l.
    void fold_lanes(Counts& counts) {
        Eight* const side = eights_ + room_.sums;
        std::size_t vectors = windows_;
        for (int step = 0; step < (WHET_PLANT(few_fold_lost) ? 2 : 3); ++step) {
            const std::size_t pairs = (vectors + 1) / 2;
            for (std::size_t i = 0; i < pairs; ++i) {
                const Eight& even = eights_[2 * i];
                const Eight& odd = 2 * i + 1 < vectors ? eights_[2 * i + 1] : *idle_;
                Eight &a = side[2 * i], &b = side[2 * i + 1];
                if (step == 0)
                    interleave<true>(even, odd, a, b);
                else
                    interleave<false>(even, odd, a, b);
            }
            for (std::size_t i = 0; i < pairs; ++i) additions_[i] = {side + 2 * i, side + 2 * i + 1, eights_ + i};
            add_all(pairs, counts);
            vectors = pairs;
        }
    }

    // Even and odd lanes (or pairs of lanes) of two vectors apart: what is to be added then stands one below the other.
    template <bool single>
    static void interleave(const Eight& v, const Eight& w, Eight& a, Eight& b) {
        const auto low_of = [](Word p, Word q) {
            return single ? _mm512_unpacklo_epi64(p, q) : _mm512_shuffle_i64x2(p, q, 0x88);
        };
        const auto high_of = [](Word p, Word q) {
            return single ? _mm512_unpackhi_epi64(p, q) : _mm512_shuffle_i64x2(p, q, 0xdd);
        };
        WHET_UNROLL for (int i = 0; i < 5; ++i) {
            a.x.limb[i] = low_of(v.x.limb[i], w.x.limb[i]);
            b.x.limb[i] = high_of(v.x.limb[i], w.x.limb[i]);
            a.y.limb[i] = low_of(v.y.limb[i], w.y.limb[i]);
            b.y.limb[i] = high_of(v.y.limb[i], w.y.limb[i]);
        }
        const Word p = _mm512_movm_epi64(v.infinite), q = _mm512_movm_epi64(w.infinite);
        a.infinite = _mm512_movepi64_mask(low_of(p, q));
        b.infinite = _mm512_movepi64_mask(high_of(p, q));
    }

    // The sum of each window to the place of its lowest bit, in the form R = 2^256.
    void give_out(std::byte* by_bit) const {
        unsigned position = 0;
        const Lanes leave = all_lanes(constants52.two_to_256);
        for (unsigned w = 0; w < windows_; ++w) {
            const Eight& sum = eights_[w / lanes];
            if (w % lanes == 0) {
                const Lanes x = masked(product(sum.x, leave)), y = masked(product(sum.y, leave));
                std::byte *x_to[lanes], *y_to[lanes];
                LaneMask wanted = 0;
                for (unsigned lane = 0, at = position; lane < lanes && w + lane < windows_; ++lane) {
                    x_to[lane] = by_bit + point_bytes * at;
                    y_to[lane] = x_to[lane] + field_bytes;
                    wanted |= static_cast<LaneMask>(1u << lane);
                    at += width_[w + lane];
                }
                wanted &= static_cast<LaneMask>(~sum.infinite);
                scatter(canonical(x), x_to, wanted);
                scatter(canonical(y), y_to, wanted);
            }
            position += width_[w];
        }
    }

    std::size_t size_;
    Sizes room_;
    Eight *eights_, *idle_;
    Step* steps_;
    std::byte* table_;  // 16 multiples of each point, canonical
    std::int16_t* digits_;
    Addition* additions_;
    std::size_t halves_ = 0;
    unsigned windows_ = 0;
    u8 width_[most_windows] = {};
};

}  // namespace

std::size_t few_ifma_bytes(std::size_t n) { return Sizes(n).bytes(); }

void few_ifma(const std::byte* points, bool converted, const std::byte* scalars, std::size_t n, void* scratch,
              std::byte* by_bit, Counts& counts, u64& entries) {
    if (n != 0) Few(n, scratch).run(points, converted, scalars, by_bit, counts, entries);
}

}  // namespace whet::msm
