#include "msm/engine/run.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "msm/affine/small.hpp"
#include "msm/engine/digit_sort.hpp"
#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

constexpr std::size_t scalars_per_task = 4096;

std::size_t tasks_of(std::size_t n) { return (n + scalars_per_task - 1) / scalars_per_task; }

}  // namespace

const char* stage_name(Stage stage) {
    constexpr const char* names[] = {"scan", "digits", "sort", "buckets", "rows", "bits", "finish"};
    return names[static_cast<std::size_t>(stage)];
}

// How long scalars are, and the longest.
void Run::scan(const std::byte* scalars, std::size_t n) {
    struct Seen {
        Limbs<4> any{};
        Lengths lengths;
    };
    std::vector<Seen> seen(tasks_of(n));
    parallel(seen.size(), [&](std::size_t task, unsigned) {
        Seen local;
        const std::size_t last = std::min(n, (task + 1) * scalars_per_task);
        for (std::size_t i = task * scalars_per_task; i < last; ++i) {
            u64 word[4];
            std::memcpy(word, scalars + field_bytes * i, field_bytes);
            for (std::size_t k = 0; k < 4; ++k) local.any[k] |= word[k];
            const int high = 128 - std::countl_zero(word[1]), low = 64 - std::countl_zero(word[0]);
            const int bits = word[1] != 0 ? high : low;
            ++local.lengths.of[(word[2] | word[3]) != 0 ? Lengths::most : static_cast<unsigned>(bits)];
        }
        seen[task] = local;
    });
    Limbs<4> any{};
    Lengths lengths;
    for (const Seen& one : seen) {
        for (std::size_t k = 0; k < 4; ++k) any[k] |= one.any[k];
        lengths += one.lengths;
    }
    busy_ = n - lengths.of[0];
    scalar_bits_ = static_cast<unsigned>(bit_length(any));
    report_.plan = make_plan(n, lengths, scalar_bits_, options_.windows, table_.factor());
    clock_.end(Stage::scan);
}

void Run::cut_digits(const std::byte* scalars, Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    std::int16_t* const digits = workspace.digits.as<std::int16_t>();
    parallel(tasks_of(plan.n), [&](std::size_t task, unsigned) {
        const std::size_t begin = task * scalars_per_task;
        const Digits to = {digits + begin, plan.digits(), plan.glv ? plan.n : 0, plan.width.data(), plan.windows,
                           first,          last,          plan.blocks,           plan.halves()};
        kernel_.decompose(scalars + field_bytes * begin, std::min(scalars_per_task, plan.n - begin), to);
    });
    if (WHET_PLANT(window_lost)) std::fill_n(digits + (last - first - 1) * plan.digits(), plan.digits(), 0);
    const auto& infinite = table_.infinite();
    const auto from = std::lower_bound(infinite.begin(), infinite.end(), options_.offset);
    for (auto at = from; at != infinite.end() && *at < options_.offset + plan.n; ++at) {
        if (WHET_PLANT(infinite_point_counted)) break;
        const std::size_t cleared = WHET_PLANT(block_infinity_counted) ? plan.halves() : plan.digits();
        for (unsigned w = 0; w < last - first; ++w) {
            for (std::size_t i = *at - options_.offset; i < cleared; i += plan.n) digits[w * plan.digits() + i] = 0;
        }
    }
    clock_.end(Stage::digits);
}

// Counting sort of one window's digits into the slots of its buckets. The cost is two passes with random access to the
// counters, which fit L2, and one random store per entry.
void Run::fill_buckets(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    Lists& lists = workspace.lists;
    // What was scanned was the caller's memory, and so were the digits cut from it: in between he may have changed it.
    // All room is for no more entries than were expected, so a window that has more is refused before it is laid out.
    const std::size_t most = plan.blocks * (plan.glv ? 2 : 1) * busy_;
    lists.begin(levels_of(plan, first, last)[0], most * (last - first), plan.glv);
    std::vector<u64> entries(last - first, 0);
    parallel(last - first, [&](std::size_t region, unsigned) {
        const std::int16_t* const digits = workspace.digits.as<std::int16_t>() + region * plan.digits();
        u32* const counts = lists.counts(region);
        // The digits of second halves first: lists begin with the entries that the endomorphism maps.
        std::array<std::size_t, max_factor> of_second{}, of_first{};
        for (unsigned b = 0; b < plan.blocks && plan.glv; ++b)
            entries[region] += of_second[b] = count_digits(digits + b * plan.halves() + plan.n, plan.n, counts);
        if (plan.glv) lists.keep_endo_counts(region);
        for (unsigned b = 0; b < plan.blocks; ++b)
            entries[region] += of_first[b] = count_digits(digits + b * plan.halves(), plan.n, counts);
        if (entries[region] > most)
            throw EngineError(Trouble::bad_input, "the scalars changed while they were summed",
                              "leave the array alone until the call returns");
        lists.lay_out(region);
        const Lists::Cursor to = lists.cursor(region);
        const auto first_point = [&](unsigned b) { return WHET_PLANT(block_wrong) ? 0 : b * table_.size(); };
        for (unsigned b = 0; b < plan.blocks && plan.glv; ++b)
            place_digits(digits + b * plan.halves() + plan.n, plan.n, of_second[b], first_point(b), to);
        for (unsigned b = 0; b < plan.blocks; ++b)
            place_digits(digits + b * plan.halves(), plan.n, of_first[b], first_point(b), to);
    });
    for (const u64 count : entries) report_.entries += count;
    clock_.end(Stage::sort);
}

void Run::fill_rows(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    Lists& lists = workspace.lists;
    std::vector<std::size_t> base;  // index of each window's bucket 0
    for (unsigned w = first; w < last; ++w) base.push_back(lists.first_list(w - first));
    const auto levels = levels_of(plan, first, last);
    std::size_t expected = 0;
    for (const RegionShape& region : levels[1]) expected += region.entries;
    lists.begin(levels[1], expected);
    const u8* const present = workspace.level(0).present;
    parallel(last - first, [&](std::size_t region, unsigned) {
        const unsigned w = first + static_cast<unsigned>(region);
        const Grid grid = grid_of(plan, w);
        const std::size_t column_mask = grid.columns();
        const auto each = [&](auto&& visit) {
            for (std::size_t m = 1; m <= plan.buckets(w) - (WHET_PLANT(top_bucket_lost) ? 1 : 0); ++m) {
                if (!present[base[region] + m]) continue;
                const std::size_t row = m >> grid.low_bits, column = m & column_mask;
                if (row != 0 && !(WHET_PLANT(row_lost) && row == 1)) visit(row - 1, m);
                if (column != 0) visit(grid.rows() + column - 1, m);
            }
        };
        u32* const counts = lists.counts(region);
        each([&](std::size_t list, std::size_t) { ++counts[list]; });
        lists.lay_out(region);
        const Lists::Cursor to = lists.cursor(region);
        each([&](std::size_t list, std::size_t m) { to.place(list, entry_of(base[region] + m)); });
    });
}

// Sum of weight times sum over a row or column = sum over bits b of 2^b times (sums whose weight has bit b).
void Run::fill_bits(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    Lists& lists = workspace.lists;
    std::vector<std::size_t> base;
    for (unsigned w = first; w < last; ++w) base.push_back(lists.first_list(w - first));
    const auto levels = levels_of(plan, first, last);
    std::size_t expected = 0;
    for (const RegionShape& region : levels[2]) expected += region.entries;
    lists.begin(levels[2], expected);
    const u8* const present = workspace.level(1).present;
    parallel(last - first, [&](std::size_t region, unsigned) {
        const Grid grid = grid_of(plan, first + static_cast<unsigned>(region));
        const auto each = [&](auto&& visit) {
            for (std::size_t i = 0; i < grid.lists(); ++i) {
                if (!present[base[region] + i]) continue;
                const bool row = i < grid.rows();
                const std::size_t weight = row ? (i + 1) << grid.low_bits : i - grid.rows() + 1;
                for (unsigned b = 0; b < grid.width; ++b) {
                    if (weight >> b & 1) visit(b, i);
                }
            }
        };
        u32* const counts = lists.counts(region);
        each([&](std::size_t list, std::size_t) { ++counts[list]; });
        lists.lay_out(region);
        const Lists::Cursor to = lists.cursor(region);
        each([&](std::size_t list, std::size_t i) { to.place(list, entry_of(base[region] + i)); });
    });
}

void Run::keep_bits(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    const Sums sums = workspace.level(2);
    const Fp to_plain_form = form_factor(kernel_.montgomery_bits, 256);
    const auto coordinate = [&](const std::byte* from) {
        Limbs<4> limbs;
        std::memcpy(&limbs, from, field_bytes);
        const Fp value = Fp::from_montgomery_limbs(limbs);
        return kernel_.montgomery_bits == 256 ? value : value * to_plain_form;
    };
    for (unsigned w = first; w < last; ++w) {
        for (unsigned b = 0; b < plan.width[w]; ++b) {
            const std::size_t at = workspace.lists.first_list(w - first) + b;
            if (!sums.present[at]) continue;
            const std::byte* point = sums.points + point_bytes * at;
            bit_[plan.position(w) + b] = {coordinate(point), coordinate(point + field_bytes)};
        }
    }
}

G1Affine Run::compute(const std::byte* scalars, Workspace& workspace) {
    const Plan& plan = report_.plan;
    const std::byte* const points = table_.data() + point_bytes * options_.offset;
    for (unsigned first = 0; first < plan.windows; first += plan.batch) {
        const unsigned last = std::min(first + plan.batch, plan.windows);
        constexpr double buckets_share = 0.85;  // of a batch's time
        control_.base = static_cast<double>(first) / plan.windows;
        control_.span = buckets_share * (last - first) / plan.windows;
        cut_digits(scalars, workspace, first, last);
        fill_buckets(workspace, first, last);
        workspace.lists.sum(points, workspace.level(0), report_.counts, control_);
        clock_.end(Stage::buckets);
        Counts reduction;
        control_.base += control_.span;
        control_.span *= (1 - buckets_share) / buckets_share;
        fill_rows(workspace, first, last);
        workspace.lists.sum(workspace.level(0).points, workspace.level(1), reduction, control_);
        control_.base += control_.span;
        control_.span = 0;
        clock_.end(Stage::rows);
        fill_bits(workspace, first, last);
        workspace.lists.sum(workspace.level(1).points, workspace.level(2), reduction, control_);
        keep_bits(workspace, first, last);
        report_.reduction_additions += reduction.additions;
        report_.counts += reduction;
        clock_.end(Stage::bits);
    }
    const G1Affine result = (&kernel_ == &portable_kernel ? horner_portable : fastest_horner())(bit_);
    clock_.end(Stage::finish);
    return result;
}

}  // namespace whet::msm
