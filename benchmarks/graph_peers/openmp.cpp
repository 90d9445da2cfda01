// OpenMP tasks with `depend`, libgomp or libomp by the compiler it is built with. Dependencies by address, inferred while
// running: each task writes its own byte and reads those of its predecessors. An iterator spells a list of any length.
#include <omp.h>

#include "edges.hpp"

#ifndef PEER
#define PEER "openmp"
#endif

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    std::vector<char> cell(static_cast<std::size_t>(e.tasks));
    char* const cells = cell.data();
    const std::int64_t* const preds = e.preds.data();
    omp_set_num_threads(o.threads);
    peers::measure(PEER, "fresh", "inferred", e, o, [&] {
#pragma omp parallel
#pragma omp single
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            const std::int64_t from = e.start[static_cast<std::size_t>(t)];
            const std::int64_t to = e.start[static_cast<std::size_t>(t) + 1];
            if (from == to) {
#pragma omp task depend(out : cells[t]) firstprivate(t)
                peers::body(t);
            } else {
#pragma omp task depend(iterator(i = from : to), in : cells[preds[i]]) depend(out : cells[t]) firstprivate(t)
                peers::body(t);
            }
        }
    });
}
