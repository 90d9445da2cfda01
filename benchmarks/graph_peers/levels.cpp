// Fork-join: the graph cut into levels, one OpenMP parallel loop per level and a barrier behind each. No task waits for
// a producer by itself; everybody waits for the slowest of a level.
#include <omp.h>

#include "edges.hpp"

#ifndef PEER
#define PEER "fork-join"
#endif

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    omp_set_num_threads(o.threads);
    std::vector<std::int64_t> order;
    std::vector<std::size_t> begins;
    const auto build = [&] {
        std::vector<std::size_t> level(static_cast<std::size_t>(e.tasks));
        std::size_t deepest = 0;
        for (std::size_t t = 0; t < level.size(); ++t) {
            for (std::int64_t i = e.start[t]; i < e.start[t + 1]; ++i) {
                level[t] = std::max(level[t], level[static_cast<std::size_t>(e.preds[static_cast<std::size_t>(i)])] + 1);
            }
            deepest = std::max(deepest, level[t] + 1);
        }
        begins.assign(deepest + 1, 0);
        for (const std::size_t of : level) ++begins[of + 1];
        for (std::size_t at = 1; at < begins.size(); ++at) begins[at] += begins[at - 1];
        order.resize(level.size());
        std::vector<std::size_t> fill(begins.begin(), begins.end());
        for (std::size_t t = 0; t < level.size(); ++t) order[fill[level[t]]++] = static_cast<std::int64_t>(t);
    };
    const auto run = [&] {
#pragma omp parallel
        for (std::size_t level = 0; level + 1 < begins.size(); ++level) {
#pragma omp for schedule(static)
            for (std::size_t at = begins[level]; at < begins[level + 1]; ++at) peers::body(order[at]);
        }
    };
    peers::measure(PEER, "fresh", "built", e, o, [&] {
        build();
        run();
    });
    peers::measure(PEER, "replay", "built", e, o, run);
}
