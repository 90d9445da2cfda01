// Join counters written by hand on oneTBB's task_group: what a good programmer does with the library in an afternoon.
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <memory>

#include "edges.hpp"

namespace tbb = oneapi::tbb;

namespace {

struct Counters {
    const peers::Edges& e;
    std::unique_ptr<std::atomic<std::int32_t>[]> left;
    tbb::task_group group;

    explicit Counters(const peers::Edges& edges)
        : e(edges), left(new std::atomic<std::int32_t>[static_cast<std::size_t>(edges.tasks)]) {
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            left[static_cast<std::size_t>(t)].store(static_cast<std::int32_t>(e.start[t + 1] - e.start[t]),
                                                    std::memory_order_relaxed);
        }
    }
    void run(std::int64_t t) {
        while (t >= 0) {
            peers::body(t);
            std::int64_t next = -1;
            for (std::int64_t i = e.out_start[t]; i < e.out_start[t + 1]; ++i) {
                const std::int32_t s = e.successors[static_cast<std::size_t>(i)];
                if (left[static_cast<std::size_t>(s)].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
                if (next < 0) {
                    next = s;
                } else {
                    group.run([this, s] { run(s); });
                }
            }
            t = next;
        }
    }
};

}  // namespace

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(o.threads));
    peers::measure("oneTBB tasks, join counters by hand", "fresh", "built", e, o, [&] {
        Counters c(e);
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            if (e.start[t] == e.start[t + 1]) c.group.run([&c, t] { c.run(t); });
        }
        c.group.wait();
    });
}
