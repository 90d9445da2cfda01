// The built graph: every task exactly once and after its predecessors, whatever the shape, worker count or path.
#include <cstdlib>
#include <thread>

#include "check.hpp"
#include "replay_shapes.hpp"

using namespace whet::graph;
using namespace whet::test;

namespace {

// Each body checks that its predecessors have run in this round, and that it has not.
struct Watch {
    const Shape& shape;
    std::vector<std::atomic<std::uint32_t>> rounds;
    std::uint32_t round = 0;
    std::atomic<long> early{0};
    std::atomic<long> again{0};
    std::int32_t fails = -1;
    explicit Watch(const Shape& s) : shape(s), rounds(static_cast<std::size_t>(s.tasks())) {}
    static int call(void* const*, const std::uint64_t* scalars, void* self) {
        Watch& w = *static_cast<Watch*>(self);
        const auto task = static_cast<std::int32_t>(scalars[0]);
        for (std::int64_t e = w.shape.start[task]; e < w.shape.start[task + 1]; ++e) {
            const auto p = static_cast<std::size_t>(w.shape.preds[static_cast<std::size_t>(e)]);
            if (w.rounds[p].load(std::memory_order_relaxed) != w.round) ++w.early;
        }
        auto& own = w.rounds[static_cast<std::size_t>(task)];
        if (own.load(std::memory_order_relaxed) == w.round) ++w.again;
        own.store(w.round, std::memory_order_relaxed);
        return task == w.fails ? 7 : 0;
    }
};

void run_everywhere(const Shape& shape, int rounds) {
    Watch watch(shape);
    ReplayGraph graph;
    CHECK(graph.build(shape.input(), {{Watch::call, &watch}}).ok);
    CHECK(graph.tasks() == shape.tasks());
    // The same graph object under changing worker counts and paths: the counters must survive every change.
    for (const unsigned workers : {2U, 1U, 5U, 2U}) {
        Pool pool(workers);
        for (int r = 0; r < rounds; ++r) {
            ++watch.round;
            ReplayOptions options;
            options.coarsen = r % 3 != 1;
            const ReplayReport report = graph.replay(pool, options);
            CHECK(report.executed == shape.tasks() && report.cancelled == 0 && report.failure.task == -1);
            CHECK(watch.early == 0 && watch.again == 0);
        }
    }
}

void shapes() {
    std::mt19937 rng(20240611);
    run_everywhere(Shape{}, 3);
    run_everywhere(fans(1, 1000), 12);
    run_everywhere(fans(200, 40), 12);
    run_everywhere(fans(3, 17), 20);
    for (int i = 0; i < 30; ++i) {
        run_everywhere(random_shape(rng, 1 + static_cast<int>(rng() % 2000), 1 + static_cast<int>(rng() % 16),
                                    1 + static_cast<int>(rng() % 500)),
                       6);
    }
    Shape loose;  // no edges at all
    for (int t = 0; t < 3000; ++t) loose.task({});
    run_everywhere(loose, 6);
}

void numbers_that_do_not_ascend() {
    // The same random graph with its tasks renamed: a real topological sort is needed.
    std::mt19937 rng(5);
    const Shape from = random_shape(rng, 500, 4, 60);
    std::vector<std::int64_t> name(500);
    for (std::size_t i = 0; i < 500; ++i) name[i] = static_cast<std::int64_t>(i);
    std::shuffle(name.begin(), name.end(), rng);
    std::vector<std::vector<std::int64_t>> lists(500);
    for (std::size_t t = 0; t < 500; ++t) {
        for (std::int64_t e = from.start[t]; e < from.start[t + 1]; ++e) {
            lists[static_cast<std::size_t>(name[t])].push_back(name[static_cast<std::size_t>(from.preds[e])]);
        }
    }
    Shape renamed;
    for (const auto& list : lists) renamed.task(list);
    run_everywhere(renamed, 6);
}

void cycles() {
    Shape s;
    s.task({});
    s.task({0, 3});
    s.task({1});
    s.task({2});
    s.task({3});
    ReplayGraph graph;
    const BuildReport report = graph.build(s.input(), {{nullptr, nullptr}});
    CHECK(!report.ok && report.cycle.size() == 4 && report.cycle.front() == report.cycle.back());
    // Each member is a predecessor of the next.
    for (std::size_t i = 0; i + 1 < report.cycle.size(); ++i) {
        const auto next = static_cast<std::size_t>(report.cycle[i + 1]);
        bool found = false;
        for (std::int64_t e = s.start[next]; e < s.start[next + 1]; ++e) found |= s.preds[e] == report.cycle[i];
        CHECK(found);
    }
    Shape own;
    own.task({0});
    CHECK(graph.build(own.input(), {{nullptr, nullptr}}).cycle.size() == 2);
    CHECK(graph.tasks() == 0);
}

void malformed() {
    ReplayGraph graph;
    Shape s;
    s.task({});
    s.task({0});
    std::vector<ReplayBody> one{{nullptr, nullptr}};
    s.preds[0] = 2;
    CHECK(!graph.build(s.input(), one).ok);
    s.preds[0] = -1;
    CHECK(graph.build(s.input(), one).index == 0);
    s.preds[0] = 0;
    s.start = {0, 1, 0};
    CHECK(!graph.build(s.input(), one).ok);
    s.start = {1, 1, 1};
    CHECK(!graph.build(s.input(), one).ok);
    s.start = {0, 0, 1};
    CHECK(!graph.build(s.input(), {}).ok);
    const std::uint16_t kind[2] = {0, 1};
    ReplayInput input = s.input();
    input.kind = kind;
    CHECK(graph.build(input, one).index == 1);
    CHECK(graph.build(s.input(), one).ok);
}

// The successors of a failed task, and nobody else, are cancelled; the next replay is whole again.
void failure() {
    for (const unsigned workers : {1U, 2U, 4U}) {
        for (const bool coarsen : {true, false}) {
            const Shape shape = fans(100, 30);
            Watch watch(shape);
            watch.fails = 32 * 50;  // the source of one fan
            ReplayGraph graph;
            CHECK(graph.build(shape.input(), {{Watch::call, &watch}}).ok);
            Pool pool(workers);
            ReplayOptions options;
            options.coarsen = coarsen;
            ++watch.round;
            const ReplayReport report = graph.replay(pool, options);
            CHECK(report.failure.task == 32 * 50 && report.failure.status == 7);
            CHECK(report.cancelled == 31 && report.executed == shape.tasks() - 31);
            watch.fails = -1;
            ++watch.round;
            CHECK(graph.replay(pool, options).executed == shape.tasks());
        }
    }
}

void stopping() {
    const Shape shape = fans(2000, 10);
    Watch watch(shape);
    ReplayGraph graph;
    CHECK(graph.build(shape.input(), {{Watch::call, &watch}}).ok);
    for (const unsigned workers : {1U, 3U}) {
        Pool pool(workers);
        ReplayOptions options;
        options.poll = [] { return true; };
        ++watch.round;
        const ReplayReport report = graph.replay(pool, options);
        CHECK(report.executed + report.cancelled == shape.tasks());
        CHECK(report.stopped || workers > 1);
        ++watch.round;
        CHECK(graph.replay(pool).executed == shape.tasks());
    }
}

void spans() {
    const Shape shape = fans(4, 20);
    Watch watch(shape);
    ReplayGraph graph;
    CHECK(graph.build(shape.input(), {{Watch::call, &watch}}).ok);
    std::vector<ReplaySpan> seen(static_cast<std::size_t>(shape.tasks()));
    ReplayOptions options;
    options.spans = seen.data();
    Pool pool(2);
    ++watch.round;
    graph.replay(pool, options);
    for (std::size_t t = 0; t < seen.size(); ++t) {
        CHECK(seen[t].worker >= 0 && seen[t].worker < 2 && seen[t].start_ns <= seen[t].end_ns);
        for (std::int64_t e = shape.start[t]; e < shape.start[t + 1]; ++e) {
            CHECK(seen[static_cast<std::size_t>(shape.preds[e])].end_ns <= seen[t].start_ns);
        }
    }
}

}  // namespace

int main() {
    shapes();
    numbers_that_do_not_ascend();
    cycles();
    malformed();
    failure();
    stopping();
    spans();
    return whet::test::finish("graph replay");
}
