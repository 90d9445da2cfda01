// A few points: Straus' method over a scalar field. All halves of the split scalars share 127 doublings; each half adds
// an odd multiple of its point about every sixth bit, and oftener where its scalar is too short to pay for multiples.
// Against the buckets: no sort, no rows and columns, no vectors; 600 multiplications per point and 900 for all
// together, 20 per point for scalars of four bits. What that buys: the buckets cost as much as 60 points before they
// have added the first one. Limit: the latency of a chain of multiplications.
#pragma once

#include <bit>
#include <cstring>

#include "curve/glv.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/affine/jacobian.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

// `points`: n of 64 bytes in Montgomery form (R = 2^256), infinity as zeros. `scalars`: n of 32 bytes, little-endian,
// any; each is read once. `scratch`: straus_bytes(n), aligned to 64. The sum has the form of the points.
using StrausSum = G1Affine (*)(const std::byte* points, const std::byte* scalars, std::size_t n, void* scratch,
                               Counts& counts, u64& entries);

constexpr std::size_t straus_odd_multiples = 8;  // at most, P, 3P .. 15P: windows of five bits
constexpr std::size_t straus_positions = 128;    // of digits: halves have 126 bits, and their recoding may carry
// Digits of a half that are not zero are at least a window apart: five positions, or less where the scalar is short.
constexpr std::size_t straus_entries_per_half = (straus_positions + 4) / 5;
// The window of a point whose halves have so many bits together: multiples up to (2^(window - 1) - 1) P against an
// addition for every window + 1 bits. Crossovers by instructions at 32 points, decision 0305.
constexpr unsigned straus_window(unsigned bits) { return bits <= 35 ? 2 : bits <= 58 ? 3 : bits <= 180 ? 4 : 5; }
static_assert(35 / 2 + 1 <= straus_entries_per_half && 58 / 3 + 1 <= straus_entries_per_half &&
              (180 + 2 * 4) / 4 <= 2 * straus_entries_per_half);

struct StrausEntry {
    u16 half;  // 2 i for the first half of point i, 2 i + 1 for the second
    std::int8_t digit;
    u16 next;  // of the same position, or no_straus_entry
};
constexpr u16 no_straus_entry = 0xffff;
constexpr std::size_t straus_most = no_straus_entry / (2 * straus_entries_per_half);

constexpr std::size_t straus_bytes(std::size_t n) {
    const std::size_t fields = straus_odd_multiples * 5;  // x, beta x, y, z and a product of each multiple
    const std::size_t bytes = n * (fields * field_bytes + 2 * straus_entries_per_half * sizeof(StrausEntry) + 2);
    return (bytes + 63) / 64 * 64;
}

template <class Field>
class Straus : ScalarJacobian<Field> {
  public:
    static G1Affine sum(const std::byte* points, const std::byte* scalars, std::size_t n, void* scratch, Counts& counts,
                        u64& entries) {
        Straus all(n, scratch);
        for (std::size_t i = 0; i < n; ++i) all.take(points + point_bytes * i, scalars + field_bytes * i);
        all.make_multiples(counts);
        entries += all.entry_count_;
        return all.add_up(counts);
    }

  private:
    static constexpr std::size_t odd = straus_odd_multiples;
    using Formulas = ScalarJacobian<Field>;
    using Formulas::add, Formulas::added, Formulas::doubled, Formulas::slope_to, Formulas::squared;
    using typename Formulas::Jacobian;

    Straus(std::size_t n, void* scratch) {
        Field* at = static_cast<Field*>(scratch);
        for (Field** const array : {&x_, &beta_x_, &y_, &z_, &product_}) {
            *array = at;
            at += odd * n;
        }
        entries_ = reinterpret_cast<StrausEntry*>(at);
        multiples_ = reinterpret_cast<u8*>(entries_ + 2 * straus_entries_per_half * n);
        mapped_ = multiples_ + n;
        for (u16& head : heads_) head = no_straus_entry;
    }

    // A point that counts: its digits go to the lists of their positions.
    void take(const std::byte* point, const std::byte* scalar) {
        Limbs<4> k;
        std::memcpy(&k, scalar, field_bytes);
        k = Fr::reduce(k);
        u64 words[8], any = 0;
        std::memcpy(words, point, sizeof words);
        for (const u64 word : words) any |= word;
        if (is_zero(k) || (any == 0 && !WHET_PLANT(straus_infinity_counted))) return;
        std::memcpy(&x_[odd * taken_], point, field_bytes);
        std::memcpy(&y_[odd * taken_], point + field_bytes, field_bytes);
        // Its first half is all of it.
        const bool is_short = ((WHET_PLANT(straus_limb_lost) ? 0 : k[1]) | k[2] | k[3]) == 0;
        const glv::Split split = is_short ? glv::Split{{{k[0], 0}, false}, {}} : glv::split(k);
        const unsigned window = straus_window(bits_of(split.k1) + bits_of(split.k2));
        const unsigned first = recode(split.k1, 2 * taken_, window);
        const unsigned second = WHET_PLANT(straus_half_lost) ? 0 : recode(split.k2, 2 * taken_ + 1, window);
        const unsigned largest = first > second ? first : second;
        mapped_[taken_] = static_cast<u8>((second + 1) / 2);
        multiples_[taken_++] = static_cast<u8>((largest + 1) / 2);
    }
    static unsigned bits_of(const glv::Half& half) { return static_cast<unsigned>(bit_length(half.magnitude)); }

    // Odd digits below 2^(window - 1) in magnitude, at least window - 1 zeros after each. Returns the largest
    // magnitude.
    unsigned recode(const glv::Half& half, std::size_t number, unsigned window) {
        u128 rest = static_cast<u128>(half.magnitude[1]) << 64 | half.magnitude[0];
        const int range = 1 << window;
        unsigned position = 0, largest = 0;
        while (rest != 0) {
            const unsigned zeros = low(rest) != 0 ? static_cast<unsigned>(std::countr_zero(low(rest)))
                                                  : 64 + static_cast<unsigned>(std::countr_zero(high(rest)));
            rest >>= zeros;
            position += zeros;
            int digit = static_cast<int>(low(rest)) & (range - 1);
            rest -= static_cast<u128>(digit);
            if (digit > range / 2) {
                digit -= range;
                if (!WHET_PLANT(straus_carry_dropped)) rest += static_cast<u128>(range);
            }
            const unsigned magnitude = static_cast<unsigned>(digit < 0 ? -digit : digit);
            largest = magnitude > largest ? magnitude : largest;
            const bool minus = half.negative != WHET_PLANT(straus_sign_wrong);
            entries_[entry_count_] = {static_cast<u16>(number), static_cast<std::int8_t>(minus ? -digit : digit),
                                      heads_[position]};
            heads_[position] = static_cast<u16>(entry_count_++);
        }
        return largest;
    }

    // 3P, 5P .. as far as digits ask for them. Adding 2P again and again is cheap on the curve on which 2P has Z = 1:
    // there P is (x Z^2, y Z^3), and what comes out with some z stands for a point of our curve with z Z.
    void make_multiples(Counts& counts) {
        Field run = Field::one();
        bool any = false;
        for (std::size_t i = 0; i < taken_; ++i) {
            if (multiples_[i] < 2) continue;
            any = true;
            const std::size_t first = odd * i;
            const Jacobian twice = doubled({x_[first], y_[first], Field::one()});
            const Field zz = squared(twice.z);
            Jacobian at = {x_[first] * zz, y_[first] * zz * twice.z, Field::one()};
            for (std::size_t j = 1; j < multiples_[i]; ++j) {
                at = added(at, slope_to(at, twice.x, twice.y));
                x_[first + j] = at.x;
                y_[first + j] = at.y;
                z_[first + j] = at.z * twice.z;
                product_[first + j] = run;
                run = run * z_[first + j];
                ++counts.additions;
            }
        }
        Field inverse = run;
        if (any) {
            inverse = run.inverse();
            ++counts.inversions;
        }
        for (std::size_t i = taken_; i-- > 0;) {
            for (std::size_t j = multiples_[i]; j-- > 1;) {
                const std::size_t at = odd * i + j;
                const Field own = inverse * product_[at], square = squared(own);
                inverse = inverse * z_[at];
                x_[at] = x_[at] * square;
                y_[at] = y_[at] * square * own;
            }
            for (std::size_t j = 0; j < mapped_[i]; ++j) beta_x_[odd * i + j] = x_[odd * i + j] * beta();
        }
    }
    static Field beta() {
        Field value;
        std::memcpy(&value, &glv::beta, field_bytes);
        return value;
    }

    G1Affine add_up(Counts& counts) const {
        Jacobian sum{};
        bool infinite = true;
        for (std::size_t position = straus_positions; position-- > 0;) {
            if (!infinite) sum = doubled(sum);
            for (u16 at = heads_[position]; at != no_straus_entry; at = entries_[at].next) {
                const StrausEntry& entry = entries_[at];
                const bool minus = entry.digit < 0;
                const std::size_t from =
                    odd * (entry.half / 2) + static_cast<std::size_t>(minus ? -entry.digit : entry.digit) / 2;
                const Field* const xs = entry.half % 2 != 0 && !WHET_PLANT(straus_beta_lost) ? beta_x_ : x_;
                add(sum, infinite, xs[from], minus ? -y_[from] : y_[from], counts);
            }
        }
        if (infinite) return G1Affine::infinity();
        ++counts.inversions;
        return Formulas::affine(sum);
    }

    Field *x_, *beta_x_, *y_, *z_, *product_;  // `odd` for each point: P, 3P ..
    StrausEntry* entries_;
    u8* multiples_;  // of each point: how many of `odd` are needed
    u8* mapped_;     // and how many of their images under the endomorphism
    std::size_t taken_ = 0, entry_count_ = 0;
    u16 heads_[straus_positions];
};

}  // namespace whet::msm
