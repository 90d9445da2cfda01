#include "msm/engine/run.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "msm/affine/small.hpp"
#include "msm/engine/digit_sort.hpp"
#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

// Ranges of scalars, a task each: two for a worker, if that is worth it.
struct Ranges {
    std::size_t n, size;

    Ranges(std::size_t scalars, unsigned workers) : n(scalars), size(4096) {
        if (workers > 1) size = std::clamp<std::size_t>((n / (2 * workers) + 63) / 64 * 64, 512, size);
    }
    std::size_t count() const { return (n + size - 1) / size; }
    std::size_t begin(std::size_t task) const { return task * size; }
    std::size_t end(std::size_t task) const { return std::min(n, (task + 1) * size); }
};

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
    const Ranges ranges(n, tasks_.cut_for());
    std::vector<Seen> seen(ranges.count());
    tasks_.enter(Stage::scan);
    step("scan", 0, seen.size(), [&](std::size_t task, unsigned) {
        Seen local;
        for (std::size_t i = ranges.begin(task); i < ranges.end(task); ++i) {
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
    const Ranges ranges(plan.n, tasks_.cut_for());
    step("cut", 0, ranges.count(), [&](std::size_t task, unsigned) {
        const std::size_t begin = ranges.begin(task);
        const Digits to = {digits + begin, plan.digits(), plan.glv ? plan.n : 0, plan.width.data(), plan.windows,
                           first,          last,          plan.blocks,           plan.halves()};
        kernel_.decompose(scalars + field_bytes * begin, ranges.end(task) - begin, to);
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

// Counts the entries of a level, lays its lists out and places the entries. count(region, slice) returns how many there
// are; what it counted, place(region, slice) has to place in the same order.
template <class Count, class Place>
u64 Run::fill(Lists& lists, const Level& level, bool endomorphic, Count&& count, Place&& place) {
    lists.begin(level, endomorphic);
    const std::size_t regions = level.regions.size();
    const unsigned slices = level.slices;
    std::vector<u64> counted(regions * slices, 0);
    // What was scanned was the caller's memory, and so were the digits cut from it: in between he may have changed it.
    // All room is for no more entries than were expected, so a window that has more is refused before it is laid out.
    const auto lay_out = [&](std::size_t region) {
        u64 entries = 0;
        for (unsigned slice = 0; slice < slices; ++slice) entries += counted[region * slices + slice];
        if (entries > level.regions[region].entries)
            throw EngineError(Trouble::bad_input, "the scalars changed while they were summed",
                              "leave the array alone until the call returns");
        lists.lay_out(region);
    };
    const auto by_slice = [&](const char* what, auto&& body) {
        step(what, slices, regions * slices,
             [&](std::size_t task, unsigned) { body(task / slices, static_cast<unsigned>(task % slices)); });
    };
    if (slices == 1) {
        by_slice("sort", [&](std::size_t region, unsigned) {
            counted[region] = count(region, 0u);
            lay_out(region);
            place(region, 0u);
        });
    } else {
        by_slice("count",
                 [&](std::size_t region, unsigned slice) { counted[region * slices + slice] = count(region, slice); });
        by_slice("merge", [&](std::size_t region, unsigned part) { lists.merge(region, part); });
        step("lay out", 1, regions, [&](std::size_t region, unsigned) { lay_out(region); });
        by_slice("place", place);
    }
    return std::accumulate(counted.begin(), counted.end(), u64{0});
}

// The same where both passes meet the same entries: each(region, slice, visit(list, index of a sum)).
template <class Each>
void Run::fill_from_sums(Lists& lists, const Level& level, Each&& each) {
    const auto count = [&](std::size_t region, unsigned slice) {
        u32* const counts = lists.zeroed_counts(region, slice);
        u64 entries = 0;
        each(region, slice, [&](std::size_t list, std::size_t) {
            ++counts[list];
            ++entries;
        });
        return entries;
    };
    const auto place = [&](std::size_t region, unsigned slice) {
        const Lists::Cursor to = lists.cursor(region, slice);
        each(region, slice, [&](std::size_t list, std::size_t sum) { to.place(list, entry_of(sum)); });
    };
    fill(lists, level, false, count, place);
}

// Counting sort of the digits of windows into the slots of their buckets. The cost is two passes with random access to
// the counters, which fit L2, and one random store per entry.
//
// A window's digits are taken in the order of lists, which begin with the entries that the endomorphism maps: second
// halves of all blocks, then first halves. A slice is a stretch of that, and so are the digits of a half and block.
void Run::fill_buckets(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    Lists& lists = workspace.lists;
    Level level = levels_of(plan, first, last)[0];
    for (RegionShape& region : level.regions) region.entries = plan.blocks * (plan.glv ? 2 : 1) * busy_;
    // By window, and in it by slice and by half and block: both grow along the digits, and one at a time.
    const std::size_t parts = plan.digits() / plan.n, stretches = level.slices + parts;
    std::vector<std::size_t> others(stretches * level.regions.size(), 0);
    const auto each_stretch = [&](std::size_t region, unsigned slice, std::size_t from, std::size_t to, auto&& visit) {
        while (from < to) {
            const std::size_t part = from / plan.n, point = from % plan.n, count = std::min(plan.n - point, to - from);
            const std::size_t block = part % plan.blocks, second = plan.glv && part < plan.blocks ? plan.n : 0;
            visit(workspace.digits.as<std::int16_t>() + region * plan.digits() + block * plan.halves() + second + point,
                  count,
                  (WHET_PLANT(block_wrong) ? 0 : block * table_.size()) + (WHET_PLANT(slice_point_wrong) ? 0 : point),
                  others[region * stretches + slice + part]);
            from += count;
        }
    };
    const auto slice_begin = [&](unsigned slice) { return plan.digits() * slice / level.slices; };
    const auto slice_end = [&](unsigned slice) {
        return slice_begin(slice + (WHET_PLANT(slice_lost) && slice == 1 ? 0 : 1));
    };
    const auto count = [&](std::size_t region, unsigned slice) {
        u32* const counts = lists.zeroed_counts(region, slice);
        u64 entries = 0;
        const auto count_from = [&](std::size_t from, std::size_t to) {
            each_stretch(region, slice, from, to,
                         [&](const std::int16_t* digits, std::size_t n, std::size_t, std::size_t& found) {
                             entries += found = count_digits(digits, n, counts);
                         });
        };
        if (plan.glv && level.slices == 1) {
            count_from(0, plan.digits() / 2);
            lists.keep_endo_counts(region);
            count_from(plan.digits() / 2, plan.digits());
        } else {
            count_from(slice_begin(slice), slice_end(slice));
        }
        return entries;
    };
    const auto place = [&](std::size_t region, unsigned slice) {
        const Lists::Cursor to = lists.cursor(region, slice);
        each_stretch(region, slice, slice_begin(slice), slice_end(slice),
                     [&](const std::int16_t* digits, std::size_t n, std::size_t first_point, std::size_t found) {
                         place_digits(digits, n, found, first_point, to);
                     });
    };
    report_.entries += fill(lists, level, plan.glv, count, place);
    clock_.end(Stage::sort);
}

void Run::fill_rows(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    const Levels levels = levels_of(plan, first, last);
    const Level& level = levels[1];
    const std::vector<std::size_t> base = levels[0].first_lists();  // index of each window's bucket 0
    const u8* const present = workspace.level(0).present;
    fill_from_sums(workspace.lists, level, [&](std::size_t region, unsigned slice, auto&& visit) {
        const unsigned w = first + static_cast<unsigned>(region);
        const Grid grid = grid_of(plan, w);
        const std::size_t column_mask = grid.columns();
        const std::size_t lost = WHET_PLANT(row_slice_lost) && slice == 1 ? 1 : 0;
        const std::size_t end = plan.buckets(w) * (slice + 1 - lost) / level.slices;
        for (std::size_t m = plan.buckets(w) * slice / level.slices + 1; m <= end; ++m) {
            if (!present[base[region] + m] || (WHET_PLANT(top_bucket_lost) && m == plan.buckets(w))) continue;
            const std::size_t row = m >> grid.low_bits, column = m & column_mask;
            if (row != 0 && !(WHET_PLANT(row_lost) && row == 1)) visit(row - 1, base[region] + m);
            if (column != 0) visit(grid.rows() + column - 1, base[region] + m);
        }
    });
}

// Sum of weight times sum over a row or column = sum over bits b of 2^b times (sums whose weight has bit b).
void Run::fill_bits(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    const Levels levels = levels_of(plan, first, last);
    const std::vector<std::size_t> base = levels[1].first_lists();
    const u8* const present = workspace.level(1).present;
    fill_from_sums(workspace.lists, levels[2], [&](std::size_t region, unsigned, auto&& visit) {
        const Grid grid = grid_of(plan, first + static_cast<unsigned>(region));
        for (std::size_t i = 0; i < grid.lists(); ++i) {
            if (!present[base[region] + i]) continue;
            const bool row = i < grid.rows();
            const std::size_t weight = row ? (i + 1) << grid.low_bits : i - grid.rows() + 1;
            for (unsigned b = 0; b < grid.width; ++b) {
                if (weight >> b & 1) visit(b, base[region] + i);
            }
        }
    });
}

void Run::keep_bits(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    const Sums sums = workspace.level(2);
    const std::vector<std::size_t> base = levels_of(plan, first, last)[2].first_lists();
    const Fp to_plain_form = form_factor(kernel_.montgomery_bits, 256);
    const auto coordinate = [&](const std::byte* from) {
        Limbs<4> limbs;
        std::memcpy(&limbs, from, field_bytes);
        const Fp value = Fp::from_montgomery_limbs(limbs);
        return kernel_.montgomery_bits == 256 ? value : value * to_plain_form;
    };
    for (unsigned w = first; w < last; ++w) {
        for (unsigned b = 0; b < plan.width[w]; ++b) {
            const std::size_t at = base[w - first] + b;
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
        Control& control = tasks_.control;
        control.base = static_cast<double>(first) / plan.windows;
        control.span = buckets_share * (last - first) / plan.windows;
        tasks_.enter(Stage::digits, first);
        cut_digits(scalars, workspace, first, last);
        tasks_.enter(Stage::sort, first);
        fill_buckets(workspace, first, last);
        tasks_.enter(Stage::buckets, first);
        workspace.lists.sum(points, workspace.level(0), report_.counts, tasks_);
        clock_.end(Stage::buckets);
        Counts reduction;
        control.base += control.span;
        control.span *= (1 - buckets_share) / buckets_share;
        tasks_.enter(Stage::rows, first);
        fill_rows(workspace, first, last);
        workspace.lists.sum(workspace.level(0).points, workspace.level(1), reduction, tasks_);
        control.base += control.span;
        control.span = 0;
        clock_.end(Stage::rows);
        tasks_.enter(Stage::bits, first);
        fill_bits(workspace, first, last);
        workspace.lists.sum(workspace.level(1).points, workspace.level(2), reduction, tasks_);
        keep_bits(workspace, first, last);
        report_.reduction_additions += reduction.additions;
        report_.counts += reduction;
        clock_.end(Stage::bits);
    }
    tasks_.enter(Stage::finish);
    const G1Affine result = (&kernel_ == &portable_kernel ? horner_portable : fastest_horner())(bit_);
    tasks_.close_gap();
    clock_.end(Stage::finish);
    return result;
}

}  // namespace whet::msm
