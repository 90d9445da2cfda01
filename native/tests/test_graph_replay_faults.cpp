// Replays whose bodies throw, end their thread, block, or never return: a typed report, and a graph that works again.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "check.hpp"
#include "replay_shapes.hpp"
#include "sanitizer.hpp"

using namespace whet::graph;
using namespace whet::test;

namespace {

enum class Fault { none, throws, throws_oddly, ends_thread };
constexpr std::uint64_t kLong_ns = 60'000'000'000;

// Which tasks run, how often, and which of them go wrong.
struct Bodies {
    const Shape& shape;
    std::vector<Fault> faults;
    std::vector<std::atomic<int>> runs;
    std::atomic<long> early{0};
    explicit Bodies(const Shape& from)
        : shape(from), faults(static_cast<std::size_t>(from.tasks())), runs(static_cast<std::size_t>(from.tasks())) {}

    static int call(void* const*, const std::uint64_t* scalars, void* self) {
        auto& bodies = *static_cast<Bodies*>(self);
        const auto task = static_cast<std::size_t>(scalars[0]);
        for (std::int64_t e = bodies.shape.start[task]; e < bodies.shape.start[task + 1]; ++e) {
            const auto before = static_cast<std::size_t>(bodies.shape.preds[static_cast<std::size_t>(e)]);
            if (bodies.runs[before].load(std::memory_order_relaxed) == 0) ++bodies.early;
        }
        bodies.runs[task].fetch_add(1, std::memory_order_relaxed);
        if (bodies.faults[task] == Fault::throws) throw std::runtime_error("thrown by " + std::to_string(task));
        if (bodies.faults[task] == Fault::throws_oddly) throw 7;
        if (bodies.faults[task] == Fault::ends_thread) pthread_exit(nullptr);
        return 0;
    }

    // By plain recursion over the edges: what may run at all. Numbers ascend in these shapes.
    std::vector<bool> wanted() const {
        std::vector<bool> runs_at_all(runs.size(), true);
        for (std::size_t task = 0; task < runs.size(); ++task) {
            for (std::int64_t e = shape.start[task]; e < shape.start[task + 1]; ++e) {
                const auto before = static_cast<std::size_t>(shape.preds[static_cast<std::size_t>(e)]);
                if (!runs_at_all[before] || faults[before] != Fault::none) runs_at_all[task] = false;
            }
        }
        return runs_at_all;
    }
};

void check_replay(const Shape& shape, const std::vector<Fault>& faults, unsigned workers, bool coarsen, bool watched) {
    Bodies bodies(shape);
    bodies.faults = faults;
    ReplayGraph graph;
    CHECK(graph.build(shape.input(), {{Bodies::call, &bodies}}).ok);
    Pool pool(watched ? workers + 1 : workers);
    ReplayOptions options;
    options.coarsen = coarsen;
    options.timeout_ns = watched ? kLong_ns : 0;
    const std::vector<bool> wanted = bodies.wanted();
    for (int round = 0; round < 3; ++round) {
        for (auto& count : bodies.runs) count = 0;
        // The second round has no faults: what the first left behind must not show.
        if (round == 1) bodies.faults.assign(faults.size(), Fault::none);
        if (round == 2) bodies.faults = faults;
        const ReplayReport report = graph.replay(pool, options);
        CHECK(!report.left && !report.refused && !report.timed_out && !report.stalled && bodies.early == 0);
        long ran = 0;
        for (std::size_t task = 0; task < wanted.size(); ++task) {
            const int want = round == 1 || wanted[task] ? 1 : 0;
            CHECK(bodies.runs[task].load() == want);
            ran += want;
        }
        CHECK(report.executed == ran && report.cancelled == shape.tasks() - ran);
        if (round == 1) {
            CHECK(report.failure.task == -1);
            continue;
        }
        const auto failed = static_cast<std::size_t>(report.failure.task);
        CHECK(report.failure.task >= 0 && faults[failed] != Fault::none && wanted[failed]);
        const std::string& said = report.failure.message;
        if (faults[failed] == Fault::throws) CHECK(said == "thrown by " + std::to_string(failed));
        if (faults[failed] == Fault::throws_oddly) CHECK(said.find("no std::exception") != std::string::npos);
        if (faults[failed] == Fault::ends_thread) CHECK(said.find("ended its thread") != std::string::npos);
    }
}

void planted_in_every_shape() {
    std::mt19937 rng(20261116);
    std::vector<Shape> shapes = {fans(60, 20), fans(1, 400), random_shape(rng, 900, 3, 80)};
    Shape loose;
    for (int t = 0; t < 1500; ++t) loose.task({});
    shapes.push_back(loose);
    Shape chains;  // many components of three
    for (int t = 0; t < 1500; ++t) {
        if (t % 3 == 0) {
            chains.task({});
        } else {
            chains.task({t - 1});
        }
    }
    shapes.push_back(chains);
    for (const Shape& shape : shapes) {
        for (const bool coarsen : {true, false}) {
            for (const unsigned workers : {1U, 2U, 4U}) {
                std::vector<Fault> faults(static_cast<std::size_t>(shape.tasks()));
                for (Fault& fault : faults) {
                    if (rng() % 60 == 0) fault = rng() % 3 ? Fault::throws : Fault::throws_oddly;
                }
                faults[faults.size() / 2] = Fault::throws;
                check_replay(shape, faults, workers, coarsen, false);
                check_replay(shape, faults, workers, coarsen, true);
#if !WHET_SANITIZED
                // In the caller's place nothing could be done about it, so these replays are watched.
                for (Fault& fault : faults) {
                    if (fault == Fault::throws) fault = Fault::ends_thread;
                }
                check_replay(shape, faults, workers, coarsen, true);
#endif
            }
        }
    }
}

struct Gate {
    std::atomic<bool> open{false};
    std::atomic<int> inside{0};
    std::atomic<int> ran{0};
    std::int64_t blocks = 0;
    static int call(void* const*, const std::uint64_t* scalars, void* self) {
        auto& gate = *static_cast<Gate*>(self);
        gate.ran.fetch_add(1);
        if (static_cast<std::int64_t>(scalars[0]) != gate.blocks) return 0;
        gate.inside.fetch_add(1);
        while (!gate.open.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        gate.inside.fetch_sub(1);
        return 0;
    }
};

// Tries again until the bodies that were left have returned.
ReplayReport replay_once_settled(ReplayGraph& graph, Pool& pool) {
    ReplayReport report;
    do {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        report = graph.replay(pool);
    } while (report.refused);
    return report;
}

void a_body_that_never_returns() {
    for (const unsigned workers : {1U, 2U, 3U}) {
        for (const bool coarsen : {true, false}) {
            Gate gate;
            const Shape shape = fans(30, 20);
            gate.blocks = 22 * 7;  // the source of a fan
            ReplayGraph graph;
            CHECK(graph.build(shape.input(), {{Gate::call, &gate}}).ok);
            Pool pool(workers + 1);
            ReplayOptions options;
            options.coarsen = coarsen;
            // A starved thread may not have got that far: then everything was cancelled, and it is tried again.
            ReplayReport report;
            for (options.timeout_ns = 50'000'000; !report.left; options.timeout_ns *= 2) {
                report = graph.replay(pool, options);
                CHECK(report.timed_out && (report.left || report.executed + report.cancelled == shape.tasks()));
            }
            const auto named = [&](const ReplayRunning& body) {
                return body.task == gate.blocks && body.seat < workers;
            };
            CHECK(std::any_of(report.running.begin(), report.running.end(), named));
            CHECK(gate.inside == 1);
            CHECK(graph.replay(pool, options).refused);
            // The pool has other threads now, and they work.
            std::atomic<int> chunks{0};
            pool.parallel_for(100, [&](std::size_t, unsigned) { chunks.fetch_add(1); });
            CHECK(chunks == 100);
            gate.open = true;
            CHECK(replay_once_settled(graph, pool).executed == shape.tasks());
            gate.ran = 0;
            CHECK(graph.replay(pool).executed == shape.tasks() && gate.ran == shape.tasks());
        }
    }
}

void a_slow_body_ends_within_the_grace() {
    std::atomic<int> ran{0};
    const auto slow = [](void* const*, const std::uint64_t*, void* self) {
        static_cast<std::atomic<int>*>(self)->fetch_add(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        return 0;
    };
    Shape shape;
    for (int t = 0; t < 30; ++t) shape.task({});
    ReplayGraph graph;
    CHECK(graph.build(shape.input(), {{slow, &ran}}).ok);
    Pool pool(3);
    ReplayOptions options;
    options.timeout_ns = 100'000'000;
    const ReplayReport report = graph.replay(pool, options);
    CHECK(report.timed_out && !report.running.empty());
    if (!report.left) CHECK(report.executed == ran.load() && report.executed + report.cancelled == 30);
    CHECK(replay_once_settled(graph, pool).executed == 30);
}

// Ctrl-C while the caller has nothing left to do and the other worker is in a body that does not return.
void stopped_while_a_body_blocks() {
    struct Others {
        const std::thread::id caller = std::this_thread::get_id();
        std::atomic<bool> open{false};
        std::atomic<int> inside{0};
        static int call(void* const*, const std::uint64_t*, void* self) {
            auto& others = *static_cast<Others*>(self);
            const bool blocks = std::this_thread::get_id() != others.caller;
            if (blocks) others.inside.fetch_add(1);
            // The caller waits for the other one to be inside, so that it has a share.
            const auto& until = others.open;
            while (blocks ? !until.load() : others.inside.load() == 0 && !until.load()) std::this_thread::yield();
            return 0;
        }
    };
    Others others;
    Shape shape;
    for (int t = 0; t < 40; ++t) shape.task({});
    ReplayGraph graph;
    CHECK(graph.build(shape.input(), {{Others::call, &others}}).ok);
    Pool pool(2);
    ReplayOptions options;
    options.poll = [&others] { return others.inside.load() == 1; };
    const ReplayReport report = graph.replay(pool, options);
    CHECK(report.left && others.inside == 1 && graph.replay(pool).refused);
    others.open = true;
    CHECK(replay_once_settled(graph, pool).executed == 40);
}

#if !WHET_SANITIZED
// The pool itself: a chunk that ends its thread fails the region, and the crew is whole again for the next one.
void a_chunk_that_ends_its_thread() {
    Pool pool(3);
    for (int round = 0; round < 5; ++round) {
        bool told = false;
        try {
            pool.parallel_for(200, [](std::size_t, unsigned worker) {
                if (worker != 0) pthread_exit(nullptr);
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            });
        } catch (const std::runtime_error& error) {
            told = std::string(error.what()).find("ended its thread") != std::string::npos;
        }
        CHECK(told);
    }
    std::atomic<int> ran{0};
    pool.parallel_for(1000, [&](std::size_t, unsigned) { ran.fetch_add(1); });
    CHECK(ran == 1000);
}
#endif

}  // namespace

int main() {
    planted_in_every_shape();
    a_body_that_never_returns();
    a_slow_body_ends_within_the_grace();
    stopped_while_a_body_blocks();
#if !WHET_SANITIZED
    a_chunk_that_ends_its_thread();
#endif
    return whet::test::finish("graph replay faults");
}
