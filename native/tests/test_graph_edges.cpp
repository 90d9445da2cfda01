// The runtime as several threads see it: asked while it works, interrupted, closed twice, dropped in its own body. Each
// test bears the name of the fault it guards against.
#include <cstring>

#include "graph_fixture.hpp"

using namespace whet::test;

namespace {

constexpr std::uint64_t kMs = 1'000'000;

std::uint64_t spent_ms(std::chrono::steady_clock::time_point begun) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun).count());
}

int sleep_ms(int time) {
    std::this_thread::sleep_for(std::chrono::milliseconds(time));
    return 0;
}

// Spilled fan-ins are freed at retirement while others look at them.
void a_monitor_reads_what_the_submitter_frees(Policy policy) {
    Bench bench(small(policy, 64, 3));
    std::atomic<bool> stop{false};
    std::thread monitor([&] {
        while (!stop.load()) {
            CHECK(bench.runtime->watchdog().size() <= 16);
            CHECK(bench.runtime->peaks().window_now <= 64);
            CHECK(bench.runtime->totals().completed <= bench.runtime->totals().submitted);
            (void)bench.runtime->done(bench.runtime->next_id() / 2);
        }
    });
    for (int round = 0; round < 300; ++round) {
        std::vector<TaskId> sources;
        for (int task = 0; task < 20; ++task) sources.push_back(bench.submit([](auto, auto) { return 0; }));
        bench.submit([](auto, auto) { return 0; }, sources);
    }
    check_ok(bench.runtime->wait_all());
    stop = true;
    monitor.join();
}

// A chain that one worker registers and the waiting thread wakes: the wait still looks up between two of its tasks.
void a_chain_of_woken_successors_ignores_the_limit_and_the_interrupt(Policy policy) {
    for (const bool interrupts : {false, true}) {
        Bench bench(small(policy, 1024, 2));
        Gate gate;
        std::atomic<int> ran{0};
        std::atomic<bool> begun{false};
        bench.submit([&](auto, auto) { return begun.store(true), gate.wait(); });
        while (!begun.load()) std::this_thread::yield();
        // This thread takes the second body, opens the gate and lets the worker register the chain meanwhile.
        TaskId last = bench.submit([&](auto, auto) { return gate.open(), sleep_ms(200); });
        for (int task = 0; task < 600; ++task) {
            last = bench.submit([&](auto, auto) { return ran.fetch_add(1), sleep_ms(5); }, {last});
        }
        const Watch watch{[](void*) { return true; }, nullptr};
        const auto start = std::chrono::steady_clock::now();
        const Status status = interrupts ? bench.runtime->wait(last, 0, watch) : bench.runtime->wait(last, 300 * kMs);
        CHECK(status.code == (interrupts ? Code::interrupted : Code::timed_out));
        CHECK(spent_ms(start) < 2500);
        CHECK(ran.load() < 500);
        check_ok(bench.runtime->shutdown());
    }
}

// The interrupt of a submission that waits for room, whoever runs the tasks.
void a_full_ring_has_no_ear_for_the_interrupt(Policy policy) {
    for (const bool helps : {false, true}) {
        Config config = small(policy, 4, 2);
        config.submitter_helps = helps;
        Bench bench(config);
        Gate gate;
        const TaskId first = bench.submit([](auto, auto) { return 0; });
        std::atomic<bool> begun{false};
        const TaskId slow = bench.submit([&](auto, auto) { return begun.store(true), gate.wait(); });
        while (!begun.load()) std::this_thread::yield();
        bench.submit([](auto, auto) { return 0; }, {first, slow});
        bench.submit([](auto, auto) { return 0; }, {slow});
        TaskSpec spec;
        TaskId id = 0;
        const Watch watch{[](void*) { return true; }, nullptr};
        CHECK(bench.runtime->submit(spec, id, false, watch).code == Code::interrupted);
        gate.open();
        CHECK(bench.runtime->wait_all().code == Code::cancelled);
        // What comes after the interrupt is not cancelled by it.
        std::atomic<int> ran{0};
        bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
        check_ok(bench.runtime->wait_all());
        CHECK(ran.load() == 1);
    }
}

void an_interrupted_body_ends_the_wait(Policy policy) {
    Bench bench(small(policy, 256, 1));
    std::atomic<int> ran{0};
    for (int task = 0; task < 100; ++task) {
        bench.submit([&ran, task](auto, auto) { return ran.fetch_add(1), task == 10 ? kInterruptedBody : 0; });
    }
    CHECK(bench.runtime->wait_all().code == Code::interrupted);
    CHECK(ran.load() == 11);
    CHECK(bench.runtime->wait_all().code == Code::cancelled);
    CHECK(ran.load() == 11);
    CHECK(bench.runtime->wait(10).code == Code::task_failed);
    CHECK(bench.runtime->wait(99).code == Code::cancelled);
    check_ok(bench.runtime->wait(9));
}

// Outcomes stay: after the collection, after many laps, for given, inferred and owned dependencies. The bodies fail
// late, so that consumers are waiting when they do.
void outcomes_are_forgotten(Policy policy) {
    for (const WakeTarget target : {WakeTarget::last, WakeTarget::first, WakeTarget::single}) {
        Config config = hands_off(small(policy, 16, 3));
        config.wake_target = target;
        Bench bench(config);
        std::atomic<int> wrong{0};
        const auto must_not_run = [&wrong](auto, auto) { return wrong.fetch_add(1), 0; };
        std::uint64_t cell = 0;
        Gate gate;
        std::vector<TensorArg> write{region_of(&cell, 0, 8, Direction::out_existing)};
        std::vector<TensorArg> read{region_of(&cell, 0, 8, Direction::in)};
        const TaskId good = bench.submit([&gate](auto, auto) { return gate.wait(); });
        const TaskId bad = bench.submit([&gate](auto, auto) { return gate.wait(), sleep_ms(2), 3; }, write);
        const TaskId other = bench.submit([&gate](auto, auto) { return gate.wait(), sleep_ms(1), 4; });
        const TaskId reads = bench.submit(must_not_run, read);
        const TaskId both = bench.submit(must_not_run, {good, bad});
        const TaskId third = bench.submit(must_not_run, {bad, good, other});
        const TaskId chained = bench.submit(must_not_run, {both});
        gate.open();
        CHECK(bench.runtime->wait(bad).body_result == 3);
        CHECK(bench.runtime->wait(other).body_result == 4);
        for (const TaskId task : {reads, both, third, chained})
            CHECK(bench.runtime->wait(task).code == Code::cancelled);
        CHECK(bench.runtime->wait_all().code == Code::task_failed);
        for (int lap = 0; lap < 60; ++lap) {
            if (lap % 20 == 0) {
                const TaskId late = bench.submit(must_not_run, {bad});
                const TaskId later = bench.submit(must_not_run, {chained, good});
                CHECK(bench.runtime->wait(late).code == Code::cancelled);
                CHECK(bench.runtime->wait(later).code == Code::cancelled);
                CHECK(bench.runtime->wait_all().code == Code::cancelled);
            }
            bench.submit([](auto, auto) { return 0; });
        }
        check_ok(bench.runtime->wait_all());
        CHECK(bench.runtime->wait(bad).body_result == 3 && bench.runtime->wait(both).code == Code::cancelled);
        check_ok(bench.runtime->wait(good));
        // The user's memory is the user's again.
        std::atomic<int> ran{0};
        bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; }, read);
        check_ok(bench.runtime->wait_all());
        CHECK(ran.load() == 1 && wrong.load() == 0);
    }
}

void several_threads_close_at_once(Policy policy) {
    for (int round = 0; round < 30; ++round) {
        Bench bench(small(policy, 64, 3));
        std::atomic<int> ran{0};
        for (int task = 0; task < 40; ++task) bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
        std::vector<std::thread> threads;
        for (int closer = 0; closer < 2; ++closer) threads.emplace_back([&] { check_ok(bench.runtime->shutdown()); });
        threads.emplace_back([&] { (void)bench.runtime->wait_all(); });
        threads.emplace_back([&] {
            TaskSpec spec;
            TaskId id = 0;
            const Code code = bench.runtime->submit(spec, id).code;
            CHECK(code == Code::ok || code == Code::shut_down);
        });
        for (std::thread& thread : threads) thread.join();
        const Totals totals = bench.runtime->totals();
        CHECK(totals.completed == totals.submitted);
        CHECK(ran.load() + static_cast<int>(totals.cancelled) >= 40);
    }
}

void the_last_reference_is_dropped_in_its_own_body(Policy policy) {
    static std::atomic<int> ended;
    ended = 0;
    for (int round = 0; round < 20; ++round) {
        struct Held {
            std::unique_ptr<Runtime> runtime;
            Gate gate;
        };
        auto* const held = new Held;
        Config config = hands_off(small(policy, 16, 2));
        config.keep = std::shared_ptr<void>(nullptr, [](void*) { ended.fetch_add(1); });
        check_ok(Runtime::make(config, held->runtime));
        config.keep.reset();
        TaskSpec spec;
        spec.user = held;
        spec.body = [](void* const*, const std::uint64_t*, void* user) {
            static_cast<Held*>(user)->gate.wait();
            delete static_cast<Held*>(user);
            return 0;
        };
        TaskId id = 0;
        check_ok(held->runtime->submit(spec, id));
        held->gate.open();
    }
    const auto begun = std::chrono::steady_clock::now();
    while (ended.load() < 20 && spent_ms(begun) < 30'000) sleep_ms(1);
    CHECK(ended.load() == 20);
}

// Bodies of two runtimes that submit to each other from the threads that wait.
void two_runtimes_lock_up(Policy policy) {
    // Windows that hold all of it: one thread may be far ahead of the other.
    Bench left(small(policy, 256, 1));
    Bench right(small(policy, 256, 1));
    std::atomic<int> counted{0};
    const auto drive = [&counted](Runtime& own, Runtime& other) {
        struct Both {
            Runtime& other;
            std::atomic<int>& counted;
        } both{other, counted};
        for (int round = 0; round < 100; ++round) {
            TaskSpec spec;
            spec.user = &both;
            spec.body = [](void* const*, const std::uint64_t*, void* user) {
                auto& context = *static_cast<Both*>(user);
                TaskSpec inner;
                inner.user = &context.counted;
                inner.body = [](void* const*, const std::uint64_t*, void* count) {
                    return static_cast<std::atomic<int>*>(count)->fetch_add(1), 0;
                };
                TaskId id = 0;
                return context.other.submit(inner, id).ok() ? 0 : 1;
            };
            TaskId id = 0;
            check_ok(own.submit(spec, id));
            check_ok(own.wait_all());
        }
    };
    std::thread one([&] { drive(*left.runtime, *right.runtime); });
    drive(*right.runtime, *left.runtime);
    one.join();
    check_ok(left.runtime->wait_all());
    check_ok(right.runtime->wait_all());
    CHECK(counted.load() == 200);
}

// Scopes are their thread's: a manual one leaves the edges of other threads alone.
void a_scope_of_another_thread(Policy policy) {
    Config config = hands_off(small(policy, 64, 2));
    config.record_edges = true;
    Bench bench(config);
    check_ok(bench.runtime->scope_begin(ScopeMode::manual));
    std::uint64_t cell = 0;
    std::vector<TensorArg> touch{region_of(&cell, 0, 8, Direction::inout)};
    std::thread([&] {
        CHECK(bench.runtime->scope_depth() == 0);
        for (int task = 0; task < 5; ++task) bench.submit([](auto, auto) { return 0; }, touch);
    }).join();
    for (int task = 0; task < 5; ++task) bench.submit([](auto, auto) { return 0; }, touch);
    check_ok(bench.runtime->scope_end());
    check_ok(bench.runtime->wait_all());
    CHECK(bench.runtime->edges().size() <= 4);
    for (const Edge& edge : bench.runtime->edges()) CHECK(edge.consumer < 5);
}

}  // namespace

int main() {
    for (const Policy policy : kPolicies) {
        a_monitor_reads_what_the_submitter_frees(policy);
        a_chain_of_woken_successors_ignores_the_limit_and_the_interrupt(policy);
        a_full_ring_has_no_ear_for_the_interrupt(policy);
        an_interrupted_body_ends_the_wait(policy);
        outcomes_are_forgotten(policy);
        several_threads_close_at_once(policy);
        the_last_reference_is_dropped_in_its_own_body(policy);
        two_runtimes_lock_up(policy);
        a_scope_of_another_thread(policy);
    }
    return finish("test_graph_edges");
}
