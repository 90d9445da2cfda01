// Sums lists of points eight at a time with AVX2 and FMA: what the IFMA kernel does, on machines without AVX-512.
// Against the scalar kernel it changes the arithmetic: products of 51-bit limbs by double-precision fma (lanes51.hpp),
// values with a sign, R = 2^255. An addition takes about 0.6 of the time of mulx and adx on Zen 3. It presses on the
// four vector ports and on 16 registers: half of its moves are spills.
#include <algorithm>
#include <cstring>

#include "field/lanes51.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/affine/scalar_input.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

// Bounds, in p: of a running sum |x|, |y| <= 0.5 (and 2^-40), limbs balanced; table coordinates are canonical. So
// |dx|, |dy| <= 1.5 with limbs up to 3 2^50; products of denominators and their inverses <= 1.16, slopes <= 1.07,
// x3 <= 2.5 and y3 <= 1.5 before nearest_zero.
struct Sum {
    Lanes x, y;
};

// Lanes that do not take the plain path in a round.
struct Exceptions {
    LaneMask hold = 0;    // no entry left: the sum stays
    LaneMask copy = 0;    // the sum was infinity: it becomes the entry
    LaneMask twice = 0;   // the entry equals the sum
    LaneMask vanish = 0;  // the entry is the negative of the sum
    bool any() const { return (hold | copy | twice | vanish) != 0; }
};

constexpr u16 never = 0xffff;
constexpr u8 guard_ragged = 1, guard_infinite = 2;

struct alignas(64) Scratch {
    Sum sum[chunk_groups];
    Lanes denominator[chunk_groups];  // x2 - x1
    Lanes numerator[chunk_groups];    // y2 - y1, of groups without exceptions
    Lanes prefix[chunk_groups];       // product of the earlier denominators of the chain
    const u32* next[chunk_groups];    // the group's entries of this round
    u16 mapping_round[chunk_groups];  // before which round lanes of the group are mapped next, or never
    LaneMask infinite[chunk_groups];
    u8 guard[chunk_groups];  // where the group may have padding or infinite sums
    Exceptions exceptions[chunk_groups];
};

WHET_INLINE Lanes gather_x(const std::byte* table, const u32* e) {
    const auto at = [&](std::size_t i) { return table + x_offset(e[i]); };
    return {{gather(at(0), at(1), at(2), at(3)), gather(at(4), at(5), at(6), at(7))}};
}
// y or -y: the sign of an entry is the sign of every limb.
WHET_INLINE Lanes gather_signed_y(const std::byte* table, const u32* e) {
    const auto at = [&](std::size_t i) { return table + y_offset(e[i]); };
    Lanes y = {{gather(at(0), at(1), at(2), at(3)), gather(at(4), at(5), at(6), at(7))}};
    static_assert(entry_sign == 1);
    WHET_UNROLL for (std::size_t h = 0; h < 2; ++h) {
        const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(e + 4 * h));
        Real sign = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_cvtepu32_epi64(entries), 63));
        if (WHET_PLANT(sign_lane_wrong) && h == 1) sign = _mm256_setzero_pd();
        WHET_UNROLL for (int i = 0; i < 5; ++i) y.half[h].limb[i] = _mm256_xor_pd(y.half[h].limb[i], sign);
    }
    return y;
}

LaneMask active_lanes(const u32* entries) {
    LaneMask active = 0;
    for (std::size_t i = 0; i < lanes; ++i) active = static_cast<LaneMask>(active | (entries[i] != padding_entry) << i);
    return active;
}

// Padding reads the first point of the table instead; what it gives is thrown away.
struct SafeEntries {
    alignas(32) u32 entry[lanes];
    explicit SafeEntries(const u32* from) {
        for (std::size_t i = 0; i < lanes; ++i) entry[i] = from[i] == padding_entry ? 0 : from[i];
    }
};

void prefetch_points(const Chunk& chunk, const u32* entries) {
    WHET_UNROLL for (std::size_t i = 0; i < lanes; ++i) __builtin_prefetch(chunk.table + entries[i], 0, 2);
}

u16 next_mapping(const Chunk& chunk, std::size_t g, u32 round) {
    u16 next = never;
    for (std::size_t i = 0; i < lanes; ++i) {
        const u16 own = chunk.endo_rounds[lanes * g + i];
        if (own > round) next = std::min(next, own);
    }
    return next;
}

// The first points of all lists, while those of the round after are fetched.
void load_first_points(const Chunk& chunk, Scratch& s) {
    constexpr std::size_t ahead = 4;
    for (std::size_t g = 0; g < chunk.group_count; ++g) {
        const u32* const entries = chunk.entries + chunk.groups[g].first;
        if (g + 2 * ahead < chunk.group_count) __builtin_prefetch(chunk.entries + chunk.groups[g + 2 * ahead].first);
        if (g + ahead < chunk.group_count) prefetch_points(chunk, chunk.entries + chunk.groups[g + ahead].first);
        if (chunk.groups[g].rounds > 1) prefetch_points(chunk, entries + lanes);
        s.infinite[g] = static_cast<LaneMask>(~active_lanes(entries));
        s.guard[g] =
            static_cast<u8>((chunk.groups[g].ragged ? guard_ragged : 0) | (s.infinite[g] ? guard_infinite : 0));
        const SafeEntries safe(entries);
        s.sum[g].x = nearest_zero(gather_x(chunk.table, safe.entry));
        s.sum[g].y = nearest_zero(gather_signed_y(chunk.table, safe.entry));
        s.next[g] = entries + lanes;
        s.exceptions[g] = {};
        s.mapping_round[g] = chunk.endo_rounds == nullptr ? never : next_mapping(chunk, g, 0);
    }
}

// The sums of some lanes to their images under the endomorphism: x becomes beta x.
Lanes mapped(LaneMask mask, const Lanes& x) {
    return choose(mask, nearest_zero(product(x, both_halves(constants51.beta))), x);
}

// Lists begin with the entries of the second halves of the scalars. Lanes that have added the last of them are mapped.
void map_before(const Chunk& chunk, Scratch& s, std::size_t groups, u32 round) {
    for (std::size_t g = 0; g < groups; ++g) {
        if (s.mapping_round[g] != round) continue;
        LaneMask due = 0;
        for (std::size_t i = 0; i < lanes; ++i)
            due = static_cast<LaneMask>(due | (chunk.endo_rounds[lanes * g + i] == round) << i);
        s.sum[g].x = mapped(due, s.sum[g].x);
        s.mapping_round[g] = next_mapping(chunk, g, round);
    }
}

// The denominator of a group with padding or infinite sums: one where nothing is to be added.
__attribute__((noinline)) void put_guarded_denominator(const Chunk& chunk, Scratch& s, std::size_t g) {
    const LaneMask active = active_lanes(s.next[g]), infinite = s.infinite[g];
    const SafeEntries safe(s.next[g]);
    Exceptions& e = s.exceptions[g];
    e.hold = static_cast<LaneMask>(~active);
    e.copy = active & infinite;
    if (WHET_PLANT(infinite_sum_kept)) e.copy = 0, e.hold |= infinite;
    if (WHET_PLANT(padding_added)) e.copy |= e.hold, e.hold = 0;
    s.denominator[g] = choose(active & static_cast<LaneMask>(~infinite),
                              minus(gather_x(chunk.table, safe.entry), s.sum[g].x), both_halves(constants51.one));
}

// The differences of both coordinates at once: y lies beside x, so a point's line is touched in this pass alone.
WHET_INLINE void put_differences(const Chunk& chunk, Scratch& s, std::size_t g) {
    if (s.guard[g] != 0) [[unlikely]] {
        put_guarded_denominator(chunk, s, g);
        if (s.exceptions[g].any()) return;
    } else {
        s.denominator[g] = minus(gather_x(chunk.table, s.next[g]), s.sum[g].x);
    }
    s.numerator[g] = minus(gather_signed_y(chunk.table, s.next[g]), s.sum[g].y);
}

// Two chains of products: group g belongs to chain g % 2, so that one does not wait for the other.
struct Products {
    Lanes chain[2];
    static Products ones() { return {{both_halves(constants51.one), both_halves(constants51.one)}}; }
};

// Products of all denominators, and the prefixes on the way. 1 product per addition.
void multiply_up(const Chunk& chunk, Scratch& s, std::size_t groups, Products& run) {
    run = Products::ones();
    put_differences(chunk, s, 0);
    for (std::size_t g = 0; g < groups; ++g) {
        if (g + 1 < groups) put_differences(chunk, s, g + 1);
        Lanes& chain = run.chain[g % 2];
        s.prefix[g] = chain;
        multiply(chain, chain, s.denominator[g]);
    }
}

LaneMask is_multiple_of_p(const Lanes& a) {  // of a value below 2 p, limbs balanced
    constexpr RealLimbs zero = real_limbs({});
    const LaneMask plain = equals(a, zero);
    if (WHET_FIELD_PLANT(lazy_zero_missed)) return plain;
    return plain | equals(a, constants51.balanced_p) | equals(a, constants51.balanced_less);
}
Lanes balanced(const Lanes& a) { return {{balanced(a.half[0]), balanced(a.half[1])}}; }

bool has_zero(const Products& run) { return (is_multiple_of_p(run.chain[0]) | is_multiple_of_p(run.chain[1])) != 0; }

// A product is zero: some sum met its own x. Puts a usable denominator there and multiplies up again.
__attribute__((noinline)) void resolve_zeros(const Chunk& chunk, Scratch& s, std::size_t groups, Products& run,
                                             Counts& counts) {
    ++counts.slow_passes;
    run = Products::ones();
    for (std::size_t g = 0; g < groups; ++g) {
        Exceptions& e = s.exceptions[g];
        const LaneMask zero = is_multiple_of_p(balanced(s.denominator[g])) & static_cast<LaneMask>(~(e.hold | e.copy));
        if (zero) {
            const SafeEntries safe(s.next[g]);
            const Lanes y_difference = balanced(minus(gather_signed_y(chunk.table, safe.entry), s.sum[g].y));
            e.twice = zero & is_multiple_of_p(y_difference);
            e.vanish = zero & static_cast<LaneMask>(~e.twice);
            if (WHET_PLANT(doubling_missed)) e.vanish = zero, e.twice = 0;
            if (WHET_PLANT(cancellation_missed)) e.hold |= e.vanish, e.vanish = 0;
            s.denominator[g] = choose(e.twice, plus(s.sum[g].y, s.sum[g].y), s.denominator[g]);
            s.denominator[g] =
                choose(zero & static_cast<LaneMask>(~e.twice), both_halves(constants51.one), s.denominator[g]);
            counts.doublings += static_cast<u64>(__builtin_popcount(e.twice));
            counts.cancellations += static_cast<u64>(__builtin_popcount(e.vanish));
        }
        Lanes& chain = run.chain[g % 2];
        s.prefix[g] = chain;
        multiply(chain, chain, s.denominator[g]);
    }
}

template <int by>  // lane i gets that of i ^ by
Lanes exchanged(const Lanes& a) {
    Lanes r;
    for (int h = 0; h < 2; ++h) {
        for (int i = 0; i < 5; ++i) {
            if constexpr (by == 4)
                r.half[h].limb[i] = a.half[1 - h].limb[i];
            else
                r.half[h].limb[i] = _mm256_permute4x64_pd(a.half[h].limb[i], by == 2 ? 0x4e : 0xb1);
        }
    }
    return r;
}

// The inverses of both chains' products with one modular inversion.
Products invert(const Products& run) {
    const Lanes both = product(run.chain[0], run.chain[1]);
    const Lanes pairs = product(both, exchanged<4>(both));
    const Lanes quads = product(pairs, exchanged<2>(pairs));
    const Lanes all = product(quads, exchanged<1>(quads));
    const Limbs<4> inverse = inverse_or_zero51(lane_value(all, 0));
    // (a R)^-1 times R^3 over R is a^-1 R.
    const Lanes one_over_all = product(both_halves(real_limbs(split51(inverse))), both_halves(constants51.r_cubed));
    const Lanes over_quads = product(one_over_all, exchanged<1>(quads));
    const Lanes over_pairs = product(over_quads, exchanged<2>(pairs));
    const Lanes over_both = product(over_pairs, exchanged<4>(both));
    return {{product(over_both, run.chain[1]), product(over_both, run.chain[0])}};
}

// One group with exceptional lanes, from the inverse of its denominator.
__attribute__((noinline)) void add_exceptional(const Chunk& chunk, Scratch& s, std::size_t g, const Lanes& inverse) {
    const Exceptions e = s.exceptions[g];
    const SafeEntries safe(s.next[g]);
    const Lanes x1 = s.sum[g].x, y1 = s.sum[g].y;
    const Lanes x2 = gather_x(chunk.table, safe.entry), y2 = gather_signed_y(chunk.table, safe.entry);
    const Lanes squared = product(x1, x1);  // at most 0.6 p
    const Lanes slope = product(choose(e.twice, plus(squared, plus(squared, squared)), minus(y2, y1)), inverse);
    const Lanes x3 = nearest_zero(minus(minus(product(slope, slope), x1), x2));
    const Lanes y3 = nearest_zero(minus(product(slope, minus(x1, x3)), y1));
    s.sum[g].x = choose(e.hold, x1, choose(e.copy, nearest_zero(x2), x3));
    s.sum[g].y = choose(e.hold, y1, choose(e.copy, nearest_zero(y2), y3));
    s.infinite[g] = static_cast<LaneMask>((s.infinite[g] & ~e.copy) | e.vanish);
    s.guard[g] = static_cast<u8>((s.guard[g] & guard_ragged) | (s.infinite[g] ? guard_infinite : 0));
    s.exceptions[g] = {};
}

// Five products per addition. Those that need each other's results are kept apart: between them stand the step of the
// chain and the inverse of the group that comes next, which replaces its own. The points of the next round are fetched
// on the way, a few at a time (decision 0094).
WHET_INLINE void add_plain(Scratch& s, std::size_t g, Lanes& own, Products& inverse, const std::byte* table,
                           const u32* upcoming) {
    const auto fetch = [&](std::size_t first) {
        __builtin_prefetch(table + upcoming[first], 0, 2);
        __builtin_prefetch(table + upcoming[first + 1], 0, 2);
    };
    Sum& sum = s.sum[g];
    Lanes slope, squared, run;
    multiply(slope, s.numerator[g], own);
    fetch(0);
    multiply(inverse.chain[g % 2], inverse.chain[g % 2], s.denominator[g]);
    fetch(2);
    square(squared, slope);
    fetch(4);
    const std::size_t before = g == 0 ? 0 : g - 1;
    multiply(own, inverse.chain[before % 2], s.prefix[before]);
    fetch(6);
    WHET_UNROLL for (int h = 0; h < 2; ++h) {  // x3 = slope^2 - x1 - x2, with x2 = dx + x1
        const Four x1 = sum.x.half[h];
        const Four x3 = nearest_zero(minus(minus(squared.half[h], s.denominator[g].half[h]), plus(x1, x1)));
        run.half[h] = minus(x1, x3);
        sum.x.half[h] = x3;
    }
    multiply(run, slope, run);
    WHET_UNROLL for (int h = 0; h < 2; ++h) sum.y.half[h] = nearest_zero(minus(run.half[h], sum.y.half[h]));
}

constexpr u32 nothing_to_fetch[3 * lanes] = {};

void add_down(const Chunk& chunk, Scratch& s, std::size_t groups, std::size_t next_groups, Products& inverse) {
    Lanes own = product(inverse.chain[(groups - 1) % 2], s.prefix[groups - 1]);
    for (std::size_t g = groups; g > 0;) {
        --g;
        if (s.exceptions[g].any()) [[unlikely]] {
            add_exceptional(chunk, s, g, own);
            multiply(inverse.chain[g % 2], inverse.chain[g % 2], s.denominator[g]);
            if (g > 0) multiply(own, inverse.chain[(g - 1) % 2], s.prefix[g - 1]);
        } else {
            const u32* const upcoming = g < next_groups ? s.next[g] + lanes : nothing_to_fetch;
            __builtin_prefetch(upcoming + 2 * lanes, 0, 2);
            add_plain(s, g, own, inverse, chunk.table, upcoming);
        }
        s.next[g] += lanes;
    }
}

void store_sums(const Chunk& chunk, const Scratch& s) {
    for (std::size_t g = 0; g < chunk.group_count; ++g) {
        const u32* const targets = chunk.targets + lanes * g;
        Lanes x = s.sum[g].x;
        if (s.mapping_round[g] != never && !WHET_PLANT(last_mapping_lost)) {
            LaneMask due = 0;  // lists that end with an entry of a second half
            for (std::size_t i = 0; i < lanes; ++i)
                due = static_cast<LaneMask>(due | (chunk.endo_rounds[lanes * g + i] >= s.mapping_round[g]) << i);
            x = mapped(due, x);
        }
        Word coordinate[2][2][4];  // x and y, half, lane of the half
        WHET_UNROLL for (int h = 0; h < 2; ++h) {
            canonical(x.half[h], coordinate[0][h]);
            canonical(s.sum[g].y.half[h], coordinate[1][h]);
        }
        for (std::size_t i = 0; i < lanes; ++i) {
            if (targets[i] == no_target) continue;
            const bool finite = !(s.infinite[g] >> i & 1);
            chunk.present[targets[i]] = finite;
            if (!finite) continue;
            std::byte* const to = chunk.sums + point_bytes * targets[i];
            std::memcpy(to, &coordinate[0][i / 4][i % 4], field_bytes);
            std::memcpy(to + field_bytes, &coordinate[1][i / 4][i % 4], field_bytes);
        }
    }
}

__attribute__((noinline)) void sum_lists_rounded(const Chunk& chunk, Counts& counts) {
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
        Products run;
        multiply_up(chunk, s, active, run);
        if (has_zero(run) && !WHET_PLANT(slow_pass_skipped)) resolve_zeros(chunk, s, active, run, counts);
        Products inverse = invert(run);
        add_down(chunk, s, active, following, inverse);
        ++counts.inversions;
        counts.additions += lanes * active;
        active = following;
    }
    store_sums(chunk, s);
}

void sum_lists(const Chunk& chunk, Counts& counts) {
    if (chunk.group_count == 0) return;
    const NearestRounding rounding;
    sum_lists_rounded(chunk, counts);
}

// Asked once: see adx.cpp. The compiler's question also asks whether the system keeps the wide registers.
bool usable() {
    static const bool has_both = [] {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }();
    return has_both;
}

}  // namespace

const Kernel avx2_kernel = {"avx2", 255, sizeof(Scratch), usable, sum_lists, prepare_scalar_255, decompose_scalar};

}  // namespace whet::msm
