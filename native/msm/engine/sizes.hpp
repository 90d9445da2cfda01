// What a run of a plan allocates, in closed form: the shapes of its three levels of lists, and bytes by name.
#pragma once

#include <vector>

#include "msm/engine/lists.hpp"
#include "msm/engine/plan.hpp"

namespace whet::msm {

// A bucket's magnitude m = hi 2^k + lo lies in row hi and column lo. Rows and columns of weight zero are left out.
struct Grid {
    unsigned width, low_bits;
    std::size_t rows() const { return std::size_t{1} << (width - 1 - low_bits); }
    std::size_t columns() const { return (std::size_t{1} << low_bits) - 1; }
    std::size_t lists() const { return rows() + columns(); }
};
inline Grid grid_of(const Plan& plan, unsigned window) { return {plan.width[window], plan.width[window] / 2u}; }

// The three levels of a batch of windows: buckets (list 0 is the zero digit and stays empty), rows and columns, bits.
Levels levels_of(const Plan& plan, unsigned first, unsigned last);
// Sums that a level makes, those of parts included.
std::size_t sums_of(const Level& level);

struct MapRow {
    const char* name;
    std::size_t bytes;
};

// The plan of that kernel: make_plan, unless the points are few and no number of windows is asked for.
Plan plan_for(const Kernel& kernel, std::size_t n, std::size_t busy, unsigned scalar_bits, unsigned windows,
              unsigned factor);

// Slices of windows, so that as many workers have something to sort; `forced` are taken as they are, 0 chooses.
void choose_slices(Plan& plan, unsigned workers, unsigned forced = 0);

// What an engine allocates for a run of this plan, prepared points included.
std::vector<MapRow> memory_map(const Kernel& kernel, unsigned threads, std::size_t prepared_bytes, const Plan& plan);
std::size_t total_bytes(const std::vector<MapRow>& map);
// As many windows at once as the budget allows, in slices where that leaves room for their counters; one window at
// least, whether that fits or not.
void fit_batch(Plan& plan, const Kernel& kernel, unsigned threads, std::size_t prepared_bytes,
               std::size_t budget_bytes);

}  // namespace whet::msm
