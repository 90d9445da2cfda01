// The batch-affine sums over a scalar field: what the IFMA kernel computes, two lanes at a time. An addition is a chain
// of four products that depend on each other; with two lanes in step, the next product in the program never waits for
// the one before it. Field: is_zero() and == ask for the element, whatever limbs stand for it; settled(), where a field
// has it, makes them canonical. Curve: what it takes to sum on another one is in SumsOnBn254, and nothing else;
// tests/test_second_curve.cpp has the same code on BLS12-381.
#pragma once

#include <bit>
#include <cstring>

#include "curve/glv.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

struct SumsOnBn254 {
    static constexpr std::size_t field_bytes = msm::field_bytes;
    static constexpr std::size_t point_bytes = msm::point_bytes;  // from one point of a table to the next
    // The cube root of one that the endomorphism multiplies x by, as fields lie in memory.
    static const std::byte* beta() { return reinterpret_cast<const std::byte*>(&glv::beta); }
};

template <class Field, class Curve = SumsOnBn254>
struct ScalarSums {
    static constexpr std::size_t field_bytes = Curve::field_bytes, point_bytes = Curve::point_bytes;
    static_assert(sizeof(Field) == field_bytes && point_bytes >= 2 * field_bytes && std::has_single_bit(point_bytes));
    static constexpr std::size_t x_offset(u32 entry) { return entry & ~static_cast<u32>(point_bytes - 1); }
    static constexpr std::size_t y_offset(u32 entry) { return x_offset(entry) + field_bytes; }

    enum class Case : u8 { plain, hold, copy, twice, vanish };

    static constexpr std::size_t width = lanes * chunk_groups;
    struct Scratch {
        Field x[width], y[width];
        Field denominator[width];
        Field prefix[width];
        Case kind[width];
        bool infinite[width];
    };

    static Field load(const std::byte* from) {
        Field value;
        std::memcpy(&value, from, field_bytes);
        return value;
    }
    static Field load_signed_y(const Chunk& chunk, u32 entry) {
        const Field y = load(chunk.table + y_offset(entry));
        const Field either[2] = {y, -y};  // the sign is as good as random: no branch on it
        static_assert(entry_sign == 1);
        return either[WHET_PLANT(sign_lane_wrong) ? 0 : entry & entry_sign];
    }

    static void prefetch(const Chunk& chunk, u32 entry) {
        if (entry == padding_entry) return;
        __builtin_prefetch(chunk.table + entry, 0, 2);
    }

    // The first points of all lists, while those of the round after are fetched.
    static void load_first_points(const Chunk& chunk, Scratch& s) {
        constexpr std::size_t ahead = 4;
        for (std::size_t g = 0; g < chunk.group_count; ++g) {
            const u32* const entries = chunk.entries + chunk.groups[g].first;
            const bool later = g + ahead < chunk.group_count;
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                if (later) prefetch(chunk, chunk.entries[chunk.groups[g + ahead].first + lane]);
                if (chunk.groups[g].rounds > 1) prefetch(chunk, entries[lanes + lane]);
                const u32 entry = entries[lane];
                const std::size_t i = lanes * g + lane;
                s.infinite[i] = entry == padding_entry;
                if (s.infinite[i]) continue;
                s.x[i] = load(chunk.table + x_offset(entry));
                s.y[i] = load_signed_y(chunk, entry);
            }
        }
    }

    static const u32* entries_at(const Chunk& chunk, std::size_t i, u32 round) {
        return chunk.entries + chunk.groups[i / lanes].first + lanes * round + i % lanes;
    }

    static void multiply_pair(Field (&out)[2], const Field* a, const Field* b) {
        if constexpr (requires { Field::multiply_pair(out, a, b); })
            Field::multiply_pair(out, a, b);
        else
            for (std::size_t k = 0; k < 2; ++k) out[k] = a[k] * b[k];
    }

    // Lists begin with the entries of the second halves of the scalars. A sum that has added the last of them goes to
    // its image under the endomorphism: x becomes beta x.
    static Field beta() { return load(Curve::beta()); }
    static void map_before(const Chunk& chunk, Scratch& s, std::size_t groups, u32 round) {
        if (chunk.endo_rounds == nullptr) return;
        for (std::size_t i = 0; i < lanes * groups; ++i) {
            if (chunk.endo_rounds[i] == round) s.x[i] = s.x[i] * beta();
        }
    }
    static bool ends_unmapped(const Chunk& chunk, std::size_t i) {
        if (WHET_PLANT(last_mapping_lost)) return false;
        return chunk.endo_rounds != nullptr && chunk.endo_rounds[i] >= chunk.groups[i / lanes].rounds;
    }

    // dx = 0 is settled on the spot: a comparison costs a scalar kernel nothing, so it needs no second pass.
    static Field denominator_of(const Chunk& chunk, Scratch& s, std::size_t i, u32 entry, Counts& counts) {
        s.kind[i] = Case::plain;
        if (entry == padding_entry && !WHET_PLANT(padding_added)) {
            s.kind[i] = Case::hold;
            return Field::one();
        }
        if (s.infinite[i] && !WHET_PLANT(infinite_sum_kept)) {
            s.kind[i] = Case::copy;
            return Field::one();
        }
        const u32 safe = entry == padding_entry ? 0 : entry;
        const Field difference = load(chunk.table + x_offset(safe)) - s.x[i];
        if (!difference.is_zero() || WHET_PLANT(slow_pass_skipped)) return difference;
        const bool same = s.y[i] == load_signed_y(chunk, safe);
        s.kind[i] = same && !WHET_PLANT(doubling_missed) ? Case::twice : Case::vanish;
        if (s.kind[i] == Case::vanish && WHET_PLANT(cancellation_missed)) s.kind[i] = Case::hold;
        ++(s.kind[i] == Case::twice ? counts.doublings : counts.cancellations);
        return s.kind[i] == Case::twice ? s.y[i].doubled() : Field::one();
    }

    // Denominators of the round and their running products, one chain over the even lanes and one over the odd.
    static void multiply_up(const Chunk& chunk, Scratch& s, std::size_t groups, u32 round, Field (&run)[2],
                            Counts& counts) {
        run[0] = run[1] = Field::one();
        for (std::size_t i = 0; i < lanes * groups; i += 2) {
            const u32* const entries = entries_at(chunk, i, round);
            for (std::size_t k = 0; k < 2; ++k) {
                s.denominator[i + k] = denominator_of(chunk, s, i + k, entries[k], counts);
                s.prefix[i + k] = run[k];
            }
            multiply_pair(run, s.prefix + i, s.denominator + i);
        }
    }

    // Two additions by the plain formulas: 3 products each, and the two of the caller.
    static void add_plain_pair(const Chunk& chunk, Scratch& s, std::size_t i, const u32 (&entry)[2],
                               const Field (&own)[2]) {
        Field x2[2], top[2], slope[2], x3[2], run[2];
        for (std::size_t k = 0; k < 2; ++k) {
            x2[k] = load(chunk.table + x_offset(entry[k]));
            top[k] = load_signed_y(chunk, entry[k]) - s.y[i + k];
        }
        multiply_pair(slope, top, own);
        multiply_pair(x3, slope, slope);
        for (std::size_t k = 0; k < 2; ++k) {
            x3[k] = x3[k] - s.x[i + k] - x2[k];
            run[k] = s.x[i + k] - x3[k];
            s.x[i + k] = x3[k];
        }
        multiply_pair(run, slope, run);
        for (std::size_t k = 0; k < 2; ++k) s.y[i + k] = run[k] - s.y[i + k];
    }

    static void add_exceptional(const Chunk& chunk, Scratch& s, std::size_t i, u32 entry, const Field& own) {
        if (s.kind[i] == Case::hold) return;
        const u32 safe = entry == padding_entry ? 0 : entry;
        const Field x2 = load(chunk.table + x_offset(safe)), y2 = load_signed_y(chunk, safe);
        if (s.kind[i] == Case::copy) {
            s.x[i] = x2, s.y[i] = y2, s.infinite[i] = false;
            return;
        }
        if (s.kind[i] == Case::vanish) {
            s.infinite[i] = true;
            return;
        }
        Field top = y2 - s.y[i];
        if (s.kind[i] == Case::twice) {
            const Field square = s.x[i] * s.x[i];
            top = square.doubled() + square;
        }
        const Field slope = top * own;
        const Field x3 = slope * slope - s.x[i] - x2;
        s.y[i] = slope * (s.x[i] - x3) - s.y[i];
        s.x[i] = x3;
    }

    // The points of the next round are fetched on the way, a few at a time: see the IFMA kernel.
    static void add_down(const Chunk& chunk, Scratch& s, std::size_t groups, std::size_t next_groups, u32 round,
                         Field (&inverse)[2]) {
        for (std::size_t i = lanes * groups; i > 0;) {
            i -= 2;
            const u32* const entries = entries_at(chunk, i, round);
            const u32 entry[2] = {entries[0], entries[1]};
            Field own[2];
            multiply_pair(own, inverse, s.prefix + i);
            if (i < lanes * next_groups) {
                prefetch(chunk, entries[lanes]);
                prefetch(chunk, entries[lanes + 1]);
            }
            multiply_pair(inverse, inverse, s.denominator + i);
            const bool plain = s.kind[i] == Case::plain && s.kind[i + 1] == Case::plain;
            if (plain && !WHET_PLANT(padding_added)) {  // that plant needs the path that takes padding
                add_plain_pair(chunk, s, i, entry, own);
            } else {
                for (std::size_t k = 0; k < 2; ++k) add_exceptional(chunk, s, i + k, entry[k], own[k]);
            }
        }
    }

    static Field settled(const Field& value) {
        if constexpr (requires { value.settled(); })
            return value.settled();
        else
            return value;
    }

    static void store_sums(const Chunk& chunk, const Scratch& s) {
        for (std::size_t i = 0; i < lanes * chunk.group_count; ++i) {
            const u32 target = chunk.targets[i];
            if (target == no_target) continue;
            chunk.present[target] = !s.infinite[i];
            if (s.infinite[i]) continue;
            std::byte* to = chunk.sums + point_bytes * target;
            const Field x = settled(ends_unmapped(chunk, i) ? s.x[i] * beta() : s.x[i]), y = settled(s.y[i]);
            std::memcpy(to, &x, field_bytes);
            std::memcpy(to + field_bytes, &y, field_bytes);
        }
    }

    static void sum_lists(const Chunk& chunk, Counts& counts) {
        if (chunk.group_count == 0) return;
        Scratch& s = *static_cast<Scratch*>(chunk.scratch);
        load_first_points(chunk, s);
        std::size_t active = chunk.group_count;
        const auto active_in = [&](u32 round, std::size_t from) {
            while (from > 0 && chunk.groups[from - 1].rounds <= round) --from;
            return from;
        };
        active = active_in(1, active);
        for (u32 round = 1; active > 0; ++round) {
            const std::size_t following = active_in(round + 1, active);
            if (WHET_PLANT(last_round_lost) && following == 0) break;
            map_before(chunk, s, active, round);
            Field run[2];
            multiply_up(chunk, s, active, round, run, counts);
            const Field both = (run[0] * run[1]).inverse();
            Field inverse[2] = {both * run[1], both * run[0]};
            add_down(chunk, s, active, following, round, inverse);
            ++counts.inversions;
            counts.additions += lanes * active;
            active = following;
        }
        store_sums(chunk, s);
    }
};

}  // namespace whet::msm
