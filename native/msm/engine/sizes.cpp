#include "msm/engine/sizes.hpp"

#include "msm/affine/small.hpp"

namespace whet::msm {

std::array<std::vector<RegionShape>, 3> levels_of(const Plan& plan, unsigned first, unsigned last) {
    std::array<std::vector<RegionShape>, 3> levels;
    for (unsigned w = first; w < last; ++w) {
        const Grid grid = grid_of(plan, w);
        levels[0].push_back({plan.buckets(w) + 1, plan.digits()});
        levels[1].push_back({grid.lists(), 2 * plan.buckets(w)});
        levels[2].push_back({grid.width, grid.rows() * (grid.width - grid.low_bits) + grid.columns() * grid.low_bits});
    }
    return levels;
}

std::size_t sums_of(const std::vector<RegionShape>& level) {
    std::size_t lists = 0, entries = 0;
    for (const RegionShape& region : level) {
        lists += region.lists;
        entries += region.entries;
    }
    return lists + parts_of(entries) + 8 * lanes * level.size();
}

Plan plan_for(const Kernel& kernel, std::size_t n, std::size_t busy, unsigned scalar_bits, unsigned windows,
              unsigned factor) {
    if (windows != 0 || n > small_most(kernel)) return make_plan(n, busy, scalar_bits, windows, factor);
    Plan plan;
    plan.n = n;
    plan.small = true;
    return plan;
}

void fit_batch(Plan& plan, const Kernel& kernel, unsigned threads, std::size_t prepared_bytes,
               std::size_t budget_bytes) {
    while (plan.batch > 1 && total_bytes(memory_map(kernel, threads, prepared_bytes, plan)) > budget_bytes)
        limit_batch(plan, plan.batch - 1);
}

std::size_t total_bytes(const std::vector<MapRow>& map) {
    std::size_t sum = 0;
    for (const MapRow& row : map) sum += row.bytes;
    return sum;
}

std::vector<MapRow> memory_map(const Kernel& kernel, unsigned threads, std::size_t prepared_bytes, const Plan& plan) {
    if (plan.small) return {{"prepared points", prepared_bytes}, {"small sums", small_bytes(kernel, plan.n)}};
    const auto levels = levels_of(plan, 0, plan.batch);
    const ListsBytes lists = lists_bytes({levels[0], levels[1], levels[2]}, plan.glv);
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
