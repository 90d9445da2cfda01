// Sums lists of points eight at a time with AVX-512 IFMA: 6 products of 100 vpmadd52 per 8 additions and inversion
// shared. Against the scalar kernel it changes the arithmetic (lazy 5 x 52-bit limbs, R = 2^260) and works on two
// groups at once. At 2^16 points that takes a quarter of the time of the scalar kernel. It presses on the IFMA ports:
// every vector operation counts.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "msm/affine/batch52.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/affine/ifma_input.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

// Bounds: table coordinates are canonical. Of a running sum x < 3.5 p and y < 2.25 p, tidy.
struct alignas(64) Sum {
    Lanes x, y;
};

// Lanes that do not take the plain path in a round, as four masks in one word.
struct Exceptions {
    LaneMask hold = 0;    // no entry left: the sum stays
    LaneMask copy = 0;    // the sum was infinity: it becomes the entry
    LaneMask twice = 0;   // the entry equals the sum
    LaneMask vanish = 0;  // the entry is the negative of the sum
};

// One spare group at the end evens out odd counts: it only ever holds.
constexpr std::size_t scratch_groups = chunk_groups + 1;
constexpr std::size_t mapping_groups = (scratch_groups + 31) / 32 * 32;  // whole vectors of 16-bit numbers
constexpr u16 never = 0xffff;

constexpr u8 guard_ragged = 1, guard_infinite = 2;

struct alignas(64) Scratch {
    Sum sum[scratch_groups];
    Lanes denominator[scratch_groups];  // x2 - x1, carried
    Lanes numerator[scratch_groups];    // y2 - y1, carried; of pairs without exceptions
    Lanes prefix[scratch_groups];       // product of the earlier denominators of the chain, carried
    const u32* next[scratch_groups];    // the group's entries of this round
    u16 mapping_round[mapping_groups];  // before which round lanes of the group are mapped next, or never
    LaneMask infinite[scratch_groups];
    u8 guard[scratch_groups];                              // where the group may have padding or infinite sums
    alignas(8) Exceptions exceptions[scratch_groups + 1];  // clear but between the passes of a round
};

// Two neighbours at once: plain pairs are the rule, and each test takes its share of the ports.
template <class T>
WHET_INLINE bool any_of_pair(const T* first) {
    std::conditional_t<sizeof(T) == 1, u16, u64> both;
    static_assert(2 * sizeof(T) == sizeof both);
    std::memcpy(&both, first, sizeof both);
    return both != 0;
}

constexpr u32 idle_entries[lanes] = {padding_entry, padding_entry, padding_entry, padding_entry,
                                     padding_entry, padding_entry, padding_entry, padding_entry};

constexpr u32 nothing_to_fetch[3 * lanes] = {};  // the first point over and over, for three rounds

struct Addresses {
    const std::byte* at[lanes];
};
WHET_INLINE Addresses x_addresses(const std::byte* table, const u32* entries) {
    Addresses a;
    WHET_UNROLL for (std::size_t i = 0; i < lanes; ++i) a.at[i] = table + x_offset(entries[i]);
    return a;
}
WHET_INLINE Addresses y_addresses(const std::byte* table, const u32* entries) {
    Addresses a;
    WHET_UNROLL for (std::size_t i = 0; i < lanes; ++i) a.at[i] = table + y_offset(entries[i]);
    return a;
}
WHET_INLINE LaneMask negative_lanes(const u32* entries) {
    const __m256i e = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(entries));
    return _mm256_test_epi32_mask(e, _mm256_set1_epi32(static_cast<int>(entry_sign)));
}
WHET_INLINE LaneMask active_lanes(const u32* entries) {
    const __m256i e = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(entries));
    return _mm256_cmpneq_epi32_mask(e, _mm256_set1_epi32(-1));
}

// Padding reads the first point of the table instead; what it gives is thrown away.
struct SafeEntries {
    alignas(32) u32 entry[lanes];
    explicit SafeEntries(const u32* from) {
        for (std::size_t i = 0; i < lanes; ++i) entry[i] = from[i] == padding_entry ? 0 : from[i];
    }
};

WHET_INLINE Lanes gather_x(const std::byte* table, const u32* entries) {
    return gather(x_addresses(table, entries).at);
}
// y or p - y: tidy only where positive.
WHET_INLINE Lanes gather_signed_y(const std::byte* table, const u32* entries) {
    Lanes y = gather(y_addresses(table, entries).at);
    const LaneMask negative =
        WHET_PLANT(sign_lane_wrong) ? static_cast<LaneMask>(negative_lanes(entries) & 0x7f) : negative_lanes(entries);
    const Lanes p = all_lanes(constants52.p[1]);
    WHET_UNROLL for (int i = 0; i < 5; ++i) y.limb[i] =
        _mm512_mask_sub_epi64(y.limb[i], negative, p.limb[i], y.limb[i]);
    return y;
}

// 4 p - x1 + x2: in (0.5 p, 5 p), carried.
WHET_INLINE Lanes x_difference(const Lanes& x2, const Lanes& x1) {
    if (WHET_FIELD_PLANT(carry_dropped)) return plus(x2, minus(all_lanes(constants52.p[4]), x1));
    return carried(plus(x2, minus(all_lanes(constants52.p[4]), x1)));
}

// 3 p - y1: in (0.75 p, 3 p), not carried.
WHET_INLINE Lanes less_y(const Sum& sum) { return minus(all_lanes(constants52.p[3]), sum.y); }

void prefetch_points(const Chunk& chunk, const u32* entries) {
    WHET_UNROLL for (std::size_t i = 0; i < lanes; ++i) __builtin_prefetch(chunk.table + entries[i], 0, 2);
}

// The first points of all lists, while those of the round after are fetched.
void load_first_points(const Chunk& chunk, Scratch& s) {
    constexpr std::size_t ahead = 4;
    for (std::size_t g = 0; g < chunk.group_count; ++g) {
        const u32* entries = chunk.entries + chunk.groups[g].first;
        if (g + 2 * ahead < chunk.group_count) __builtin_prefetch(chunk.entries + chunk.groups[g + 2 * ahead].first);
        if (g + ahead < chunk.group_count) prefetch_points(chunk, chunk.entries + chunk.groups[g + ahead].first);
        if (chunk.groups[g].rounds > 1) prefetch_points(chunk, entries + lanes);
        s.infinite[g] = static_cast<LaneMask>(~active_lanes(entries));
        s.guard[g] = chunk.groups[g].ragged ? guard_ragged : u8{0};
        const SafeEntries safe(entries);
        const u32* const from = s.infinite[g] == 0 ? entries : safe.entry;
        s.sum[g].x = gather_x(chunk.table, from);
        s.sum[g].y = tidy(gather_signed_y(chunk.table, from));
        s.next[g] = entries + lanes;
    }
    std::fill_n(s.exceptions, scratch_groups + 1, Exceptions{});
}

// The first round after `round` before which a lane of the group is mapped.
WHET_INLINE u16 next_mapping(__m128i endo_rounds, u32 round) {
    const __mmask8 later = _mm_cmpgt_epu16_mask(endo_rounds, _mm_set1_epi16(static_cast<short>(round)));
    const __m128i candidates = _mm_mask_blend_epi16(later, _mm_set1_epi16(-1), endo_rounds);
    return static_cast<u16>(_mm_extract_epi16(_mm_minpos_epu16(candidates), 0));
}
WHET_INLINE __m128i endo_rounds_of(const Chunk& chunk, std::size_t g) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(chunk.endo_rounds + lanes * g));
}

void plan_mappings(const Chunk& chunk, Scratch& s) {
    std::fill_n(s.mapping_round, mapping_groups, never);
    if (chunk.endo_rounds == nullptr) return;
    for (std::size_t g = 0; g < chunk.group_count; ++g) s.mapping_round[g] = next_mapping(endo_rounds_of(chunk, g), 0);
}

// The sums of some lanes to their images under the endomorphism: x becomes beta x.
WHET_INLINE Lanes mapped(LaneMask mask, const Lanes& x) {
    return choose(mask, masked(product(x, all_lanes(constants52.beta))), x);
}

// Lists begin with the entries of the second halves of the scalars. Lanes that have added the last of them are mapped.
void map_before(const Chunk& chunk, Scratch& s, std::size_t groups, u32 round) {
    const __m512i wanted = _mm512_set1_epi16(static_cast<short>(round));
    for (std::size_t first = 0; first < groups; first += 32) {
        __mmask32 due = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(s.mapping_round + first), wanted);
        for (; due != 0; due &= due - 1) {
            const std::size_t g = first + static_cast<std::size_t>(__builtin_ctz(due));
            const __m128i endo_rounds = endo_rounds_of(chunk, g);
            const LaneMask lane = _mm_cmpeq_epi16_mask(endo_rounds, _mm512_castsi512_si128(wanted));
            s.sum[g].x = mapped(lane, s.sum[g].x);
            s.mapping_round[g] = next_mapping(endo_rounds, round);
        }
    }
}

// The denominator of a group with padding or infinite sums: one where nothing is to be added.
__attribute__((noinline)) Lanes guarded_denominator(const Chunk& chunk, Scratch& s, std::size_t g) {
    const LaneMask active = active_lanes(s.next[g]);
    const SafeEntries safe(s.next[g]);
    const Lanes plain = x_difference(gather_x(chunk.table, safe.entry), s.sum[g].x);
    const LaneMask infinite = s.infinite[g];
    s.exceptions[g].hold = static_cast<LaneMask>(~active);
    s.exceptions[g].copy = active & infinite;
    if (WHET_PLANT(infinite_sum_kept)) s.exceptions[g].copy = 0, s.exceptions[g].hold |= infinite;
    if (WHET_PLANT(padding_added)) s.exceptions[g].copy |= s.exceptions[g].hold, s.exceptions[g].hold = 0;
    return choose(active & static_cast<LaneMask>(~infinite), plain, all_lanes(constants52.one));
}

// (3 p - y1) + (y2 or p - y2): in (0.75 p, 4 p).
WHET_INLINE void put_numerator(const Chunk& chunk, Scratch& s, std::size_t g) {
    s.numerator[g] = carried(plus(less_y(s.sum[g]), gather_signed_y(chunk.table, s.next[g])));
}

// The differences of both coordinates at once: y lies beside x, so a point's line is touched in this pass alone.
WHET_INLINE void put_differences(const Chunk& chunk, Scratch& s, std::size_t g) {
    if (any_of_pair(s.guard + g)) [[unlikely]] {
        s.denominator[g] = guarded_denominator(chunk, s, g);
        s.denominator[g + 1] = guarded_denominator(chunk, s, g + 1);
        if (any_of_pair(s.exceptions + g)) return;
    } else {
        s.denominator[g] = x_difference(gather_x(chunk.table, s.next[g]), s.sum[g].x);
        s.denominator[g + 1] = x_difference(gather_x(chunk.table, s.next[g + 1]), s.sum[g + 1].x);
    }
    put_numerator(chunk, s, g);
    put_numerator(chunk, s, g + 1);
}

// Products of all denominators, and the prefixes on the way. 1 product per addition. The differences are made one pair
// ahead: a product that waits for loads fills the scheduler, and nothing behind it can start.
Products multiply_up(const Chunk& chunk, Scratch& s, std::size_t groups) {
    Products run = Products::ones();
    put_differences(chunk, s, 0);
    for (std::size_t g = 0; g < groups; g += 2) {
        if (g + 2 < groups) put_differences(chunk, s, g + 2);
        Lanes* const own = run.pair_of(g);
        s.prefix[g] = own[0];
        s.prefix[g + 1] = own[1];
        product_pair(own[0], own[0], s.denominator[g], own[1], own[1], s.denominator[g + 1]);
    }
    return run;
}

// A product is zero: some sum met its own x. Puts a usable denominator there and multiplies up again.
__attribute__((noinline)) Products resolve_zeros(const Chunk& chunk, Scratch& s, std::size_t groups, Counts& counts) {
    ++counts.slow_passes;
    Products run = Products::ones();
    for (std::size_t g = 0; g < groups; ++g) {
        Exceptions& e = s.exceptions[g];
        const LaneMask zero = is_multiple_of_p(masked(s.denominator[g])) & static_cast<LaneMask>(~(e.hold | e.copy));
        if (zero) {
            const SafeEntries safe(s.next[g]);
            const Lanes y2 = gather_signed_y(chunk.table, safe.entry);
            const Lanes y_difference = tidy(plus(minus(all_lanes(constants52.p[3]), s.sum[g].y), y2));
            e.twice = zero & is_multiple_of_p(y_difference);
            e.vanish = zero & static_cast<LaneMask>(~e.twice);
            if (WHET_PLANT(doubling_missed)) e.vanish = zero, e.twice = 0;
            if (WHET_PLANT(cancellation_missed)) e.hold |= e.vanish, e.vanish = 0;
            const Lanes double_y = carried(plus(s.sum[g].y, s.sum[g].y));  // below 4.5 p
            s.denominator[g] = choose(e.twice, double_y, s.denominator[g]);
            s.denominator[g] = choose(e.vanish, all_lanes(constants52.one), s.denominator[g]);
            counts.doublings += static_cast<u64>(__builtin_popcount(e.twice));
            counts.cancellations += static_cast<u64>(__builtin_popcount(e.vanish));
        }
        Lanes& chain = run.chain[g % 4];
        s.prefix[g] = chain;
        chain = product(chain, s.denominator[g]);
    }
    return run;
}

// One group with exceptional lanes, from the inverse of its denominator.
__attribute__((noinline)) void add_exceptional(const Chunk& chunk, Scratch& s, std::size_t g, const Lanes& inverse) {
    const Exceptions e = s.exceptions[g];
    const SafeEntries safe(s.next[g]);
    const Lanes x1 = s.sum[g].x, y1 = s.sum[g].y;
    const Lanes x2 = gather_x(chunk.table, safe.entry);
    const Lanes y2 = gather_signed_y(chunk.table, safe.entry);
    const Lanes three_minus_y1 = less_y(s.sum[g]);
    const Lanes square = product_columns(x1, x1);  // below 1.2 p
    const Lanes slope_top = choose(e.twice, plus(square, plus(square, square)), plus(three_minus_y1, y2));
    const Lanes slope = product(carried(slope_top), inverse);
    // x2 is canonical and equals x1 modulo p in a doubling, so x1 + x2 keeps its bound.
    const Lanes x_offset_lanes = minus(minus(all_lanes(constants52.p[5]), x1), x2);
    const Lanes x3 = below_limit(product_columns(slope, slope, &x_offset_lanes), constants52.x_limit, constants52.p[3]);
    const Lanes x1_minus_x3 = carried(plus(minus(x1, x3), all_lanes(constants52.p[4])));
    const Lanes y3 =
        below_limit(product_columns(slope, x1_minus_x3, &three_minus_y1), constants52.y_limit, constants52.p[2]);
    s.sum[g].x = choose(e.hold, x1, choose(e.copy, x2, x3));
    s.sum[g].y = choose(e.hold, y1, choose(e.copy, tidy(y2), y3));
    s.infinite[g] = static_cast<LaneMask>((s.infinite[g] & ~e.copy) | e.vanish);
    s.guard[g] = static_cast<u8>((s.guard[g] & guard_ragged) | (s.infinite[g] ? guard_infinite : 0));
    s.exceptions[g] = {};
}

// The points that both groups of a pair add in the next round, fetched into L2 a few at a time: there are a dozen fill
// buffers, and a burst of requests would hold up the loads of this round.
class NextPoints {
  public:
    NextPoints(const Chunk& chunk, const u32* a, const u32* b) : table_(chunk.table), entries_{a, b} {}
    template <std::size_t first, std::size_t last>
    WHET_INLINE void prefetch() const {
        WHET_UNROLL for (std::size_t i = first; i < last; ++i) {
            __builtin_prefetch(table_ + entries_[i / lanes][i % lanes], 0, 2);
        }
    }
    WHET_INLINE void prefetch_entries_after() const {
        __builtin_prefetch(entries_[0] + 2 * lanes, 0, 2);
        __builtin_prefetch(entries_[1] + 2 * lanes, 0, 2);
    }

  private:
    const std::byte* table_;
    const u32* entries_[2];
};

// The inverses of the denominators of a pair of groups.
struct Inverses {
    Lanes a, b;
};
WHET_INLINE void put_inverses(Inverses& own, const Scratch& s, Products& inverse, std::size_t g) {
    const Lanes* const chain = inverse.pair_of(g);
    multiply_pair(own.a, chain[0], s.prefix[g], own.b, chain[1], s.prefix[g + 1]);
}
WHET_INLINE void step_down(const Scratch& s, Products& inverse, std::size_t g) {
    Lanes* const chain = inverse.pair_of(g);
    multiply_pair(chain[0], chain[0], s.denominator[g], chain[1], chain[1], s.denominator[g + 1]);
}

// Both groups of a pair by the plain formulas. 5 products per addition. Products that need each other's results are
// kept two apart: between them stand the step of the chains and the inverses of the pair that comes next, which
// replace its own.
WHET_INLINE void add_plain_pair(Scratch& s, std::size_t g, Inverses& own, Products& inverse,
                                const NextPoints& upcoming) {
    Sum &a = s.sum[g], &b = s.sum[g + 1];
    Lanes a_slope, b_slope;
    multiply_pair(a_slope, s.numerator[g], own.a, b_slope, s.numerator[g + 1], own.b);
    upcoming.prefetch<0, 3>();
    step_down(s, inverse, g);
    upcoming.prefetch<3, 6>();
    // x3 = slope^2 + 5 p - x1 - x2 in (0.5 p, 6.1 p), with x2 = dx + x1 - 4 p; then below 3.5 p.
    const auto x_offset_of = [&](const Sum& sum, const Lanes& dx) {
        return minus(minus(all_lanes(constants52.nine_p), plus(sum.x, sum.x)), masked(dx));
    };
    const Lanes a_offset = x_offset_of(a, s.denominator[g]), b_offset = x_offset_of(b, s.denominator[g + 1]);
    Lanes a_x, b_x;
    product_columns_pair(a_x, a_slope, a_slope, &a_offset, b_x, b_slope, b_slope, &b_offset);
    upcoming.prefetch<6, 9>();
    put_inverses(own, s, inverse, g < 2 ? 0 : g - 2);
    upcoming.prefetch<9, 12>();
    a_x = below_limit(a_x, constants52.x_limit, constants52.p[3]);
    b_x = below_limit(b_x, constants52.x_limit, constants52.p[3]);
    // y3 = slope (x1 - x3) + 3 p - y1 in (0.75 p, 4.2 p); then below 2.25 p.
    const Lanes a_run = carried(plus(minus(a.x, a_x), all_lanes(constants52.p[4])));
    const Lanes b_run = carried(plus(minus(b.x, b_x), all_lanes(constants52.p[4])));
    a.x = a_x;
    b.x = b_x;
    const Lanes a_less_y = less_y(a), b_less_y = less_y(b);
    Lanes a_y, b_y;
    product_columns_pair(a_y, a_slope, a_run, &a_less_y, b_y, b_slope, b_run, &b_less_y);
    upcoming.prefetch<12, 16>();
    a.y = below_limit(a_y, constants52.y_limit, constants52.p[2]);
    b.y = below_limit(b_y, constants52.y_limit, constants52.p[2]);
}

void add_down(const Chunk& chunk, Scratch& s, std::size_t groups, std::size_t next_groups, Products inverse) {
    Inverses own;
    put_inverses(own, s, inverse, groups - 2);
    for (std::size_t g = groups; g > 0;) {
        g -= 2;
        if (any_of_pair(s.exceptions + g)) [[unlikely]] {
            add_exceptional(chunk, s, g, own.a);
            add_exceptional(chunk, s, g + 1, own.b);
            step_down(s, inverse, g);
            put_inverses(own, s, inverse, g < 2 ? 0 : g - 2);
        } else {
            const bool more = g + 1 < next_groups;
            const NextPoints upcoming(chunk, more ? s.next[g] + lanes : nothing_to_fetch,
                                      more ? s.next[g + 1] + lanes : nothing_to_fetch);
            upcoming.prefetch_entries_after();
            add_plain_pair(s, g, own, inverse, upcoming);
        }
        s.next[g] += lanes;
        if (g + 1 < chunk.group_count) s.next[g + 1] += lanes;
    }
}

// Of a running sum x < 3.5 p and y < 2.25 p: both below the 4 p that canonical() takes.
void store_sums(const Chunk& chunk, const Scratch& s) {
    constexpr std::size_t ahead = 4;
    for (std::size_t g = 0; g < chunk.group_count; ++g) {
        const u32* targets = chunk.targets + lanes * g;
        if (g + ahead < chunk.group_count) {
            for (std::size_t i = 0; i < lanes; ++i) {
                const u32 later = targets[lanes * ahead + i];
                __builtin_prefetch(chunk.sums + point_bytes * (later == no_target ? 0 : later), 1);
            }
        }
        std::byte* at[lanes];
        LaneMask wanted = 0;
        for (std::size_t i = 0; i < lanes; ++i) {
            if (targets[i] == no_target) continue;
            const bool finite = !(s.infinite[g] >> i & 1);
            chunk.present[targets[i]] = finite;
            at[i] = chunk.sums + point_bytes * targets[i];
            wanted |= static_cast<LaneMask>(finite << i);
        }
        Lanes x = s.sum[g].x;
        if (s.mapping_round[g] != never &&
            !WHET_PLANT(last_mapping_lost)) {  // lists that end with an entry of a second half
            const __m128i due = _mm_set1_epi16(static_cast<short>(s.mapping_round[g]));
            x = mapped(_mm_cmpge_epu16_mask(endo_rounds_of(chunk, g), due), x);
        }
        scatter_points(canonical(x), canonical(s.sum[g].y), at, wanted);
    }
}

void sum_lists(const Chunk& chunk, Counts& counts) {
    if (chunk.group_count == 0) return;
    Scratch& s = *static_cast<Scratch*>(chunk.scratch);
    load_first_points(chunk, s);
    plan_mappings(chunk, s);
    std::size_t active = chunk.group_count;
    const auto active_in = [&](u32 round, std::size_t from) {
        while (from > 0 && chunk.groups[from - 1].rounds <= round) --from;
        return from;
    };
    active = active_in(1, active);
    for (u32 round = 1; active > 0; ++round) {
        const std::size_t even = active + active % 2;
        if (even > active) {  // the spare group, or a finished one that must not move on
            s.next[active] = idle_entries;
            s.guard[active] = guard_ragged;
            if (active == chunk.group_count) s.infinite[active] = 0xff;
        }
        const std::size_t following = active_in(round + 1, active);
        if (WHET_PLANT(last_round_lost) && following == 0) break;
        map_before(chunk, s, active, round);
        Products run = multiply_up(chunk, s, even);
        if (has_zero(run) && !WHET_PLANT(slow_pass_skipped)) run = resolve_zeros(chunk, s, even, counts);
        add_down(chunk, s, even, following, invert(run));
        ++counts.inversions;
        counts.additions += lanes * active;
        active = following;
    }
    store_sums(chunk, s);
}

bool usable() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512ifma") && __builtin_cpu_supports("avx512vbmi2");
}

}  // namespace

const Kernel ifma_kernel = {"ifma", 260, sizeof(Scratch), usable, sum_lists, prepare_ifma, decompose_ifma};

}  // namespace whet::msm
