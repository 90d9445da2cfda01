#include "msm/engine/sizes.hpp"

#include <algorithm>

#include "msm/affine/small.hpp"

namespace whet::msm {

namespace {

// A slice is worth a task of its own from so many entries on, and its counters cost a pass over the lists.
constexpr std::size_t least_entries = 4096, entries_per_list = 1;

// Tasks are of one size: they leave nobody idle if they are as many as workers, or a multiple, or many more.
unsigned slices_for(const RegionShape& region, std::size_t regions, unsigned workers) {
    if (regions % workers == 0 || regions >= 4 * workers) return 1;
    const std::size_t wanted = (2 * workers + regions - 1) / regions;
    const std::size_t worth = region.entries / std::max(least_entries, entries_per_list * region.lists);
    return static_cast<unsigned>(std::clamp<std::size_t>(worth, 1, wanted));
}

}  // namespace

Levels levels_of(const Plan& plan, unsigned first, unsigned last) {
    Levels levels;
    levels[0].slices = plan.slices;
    levels[1].slices = plan.row_slices;
    for (unsigned w = first; w < last; ++w) {
        const Grid grid = grid_of(plan, w);
        levels[0].regions.push_back({plan.buckets(w) + 1, plan.digits()});
        levels[1].regions.push_back({grid.lists(), 2 * plan.buckets(w)});
        levels[2].regions.push_back(
            {grid.width, grid.rows() * (grid.width - grid.low_bits) + grid.columns() * grid.low_bits});
    }
    return levels;
}

std::size_t sums_of(const Level& level) {
    return level.lists() + parts_of(level.entries()) + 8 * lanes * level.regions.size();
}

Plan plan_for(const Kernel& kernel, std::size_t n, std::size_t busy, unsigned scalar_bits, unsigned windows,
              unsigned factor) {
    if (windows != 0 || n > small_most(kernel)) return make_plan(n, busy, scalar_bits, windows, factor);
    Plan plan;
    plan.n = n;
    plan.small = true;
    return plan;
}

void choose_slices(Plan& plan, unsigned workers, unsigned forced) {
    if (plan.small || plan.n == 0) return;
    plan.slices = plan.row_slices = 1;
    const Levels levels = levels_of(plan, 0, plan.batch);
    plan.slices = forced ? forced : slices_for(levels[0].regions[0], plan.batch, workers);
    plan.row_slices = forced ? forced : slices_for(levels[1].regions[0], plan.batch, workers);
    if (plan.glv && plan.slices > 1) plan.slices += plan.slices % 2;
}

void fit_batch(Plan& plan, const Kernel& kernel, unsigned threads, std::size_t prepared_bytes,
               std::size_t budget_bytes) {
    while (total_bytes(memory_map(kernel, threads, prepared_bytes, plan)) > budget_bytes) {
        if (plan.slices > 1 || plan.row_slices > 1) {
            plan.slices = plan.row_slices = 1;
        } else if (plan.batch > 1) {
            limit_batch(plan, plan.batch - 1);
            choose_slices(plan, threads);
        } else {
            return;
        }
    }
}

std::size_t total_bytes(const std::vector<MapRow>& map) {
    std::size_t sum = 0;
    for (const MapRow& row : map) sum += row.bytes;
    return sum;
}

std::vector<MapRow> memory_map(const Kernel& kernel, unsigned threads, std::size_t prepared_bytes, const Plan& plan) {
    if (plan.small) return {{"prepared points", prepared_bytes}, {"small sums", small_bytes(kernel, plan.n)}};
    const auto levels = levels_of(plan, 0, plan.batch);
    const ListsBytes lists = lists_bytes(levels, plan.glv);
    std::vector<MapRow> map = {{"prepared points", prepared_bytes},
                               {"digits", plan.batch * plan.digits() * sizeof(std::int16_t)},
                               {"list counters", lists.counters},
                               {"list entries", lists.entries},
                               {"list order", lists.order},
                               {"groups as made", lists.groups},
                               {"groups in order", lists.groups},
                               {"group targets", lists.targets},
                               {"kernel scratch", kernel.scratch_bytes * threads},
                               {"bucket sums", sums_of(levels[0]) * point_bytes},
                               {"buckets present", sums_of(levels[0])},
                               {"row sums", sums_of(levels[1]) * point_bytes},
                               {"rows present", sums_of(levels[1])},
                               {"bit sums", sums_of(levels[2]) * point_bytes},
                               {"bits present", sums_of(levels[2])}};
    if (plan.glv) {
        map.push_back({"endomorphic counts", lists.endo_counts});
        map.push_back({"endomorphic rounds", lists.endo_rounds});
    }
    return map;
}

}  // namespace whet::msm
