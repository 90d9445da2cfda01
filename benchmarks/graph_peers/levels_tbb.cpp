// Fork-join by oneTBB: the graph cut into levels, each level forked in halves by parallel_invoke down to a
// grain, and a join behind each.
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>

#include "levels.hpp"

namespace {

constexpr std::size_t kGrain = 64;

void fork(const std::int64_t* order, std::size_t begin, std::size_t end) {
    if (end - begin <= kGrain) {
        for (std::size_t at = begin; at < end; ++at) peers::body(order[at]);
        return;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    tbb::parallel_invoke([=] { fork(order, begin, middle); }, [=] { fork(order, middle, end); });
}

}  // namespace

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(o.threads));
    tbb::task_arena arena(o.threads);
    peers::Levels levels;
    const auto run = [&] {
        arena.execute([&] {
            for (std::size_t level = 0; level + 1 < levels.begins.size(); ++level) {
                fork(levels.order.data(), levels.begins[level], levels.begins[level + 1]);
            }
        });
    };
    peers::measure("fork-join by level (oneTBB)", "fresh", "built", e, o, [&] {
        levels.cut(e);
        run();
    });
    peers::measure("fork-join by level (oneTBB)", "replay", "built", e, o, run);
}
