// Fork-join: the graph cut into levels, one OpenMP parallel loop per level and a barrier behind each. No task waits for
// a producer by itself; everybody waits for the slowest of a level.
#include <omp.h>

#include "levels.hpp"

#ifndef PEER
#define PEER "fork-join"
#endif

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    omp_set_num_threads(o.threads);
    peers::Levels levels;
    const auto& begins = levels.begins;
    const auto& order = levels.order;
    const auto run = [&] {
#pragma omp parallel
        for (std::size_t level = 0; level + 1 < begins.size(); ++level) {
#pragma omp for schedule(static)
            for (std::size_t at = begins[level]; at < begins[level + 1]; ++at) peers::body(order[at]);
        }
    };
    peers::measure(PEER, "fresh", "built", e, o, [&] {
        levels.cut(e);
        run();
    });
    peers::measure(PEER, "replay", "built", e, o, run);
}
