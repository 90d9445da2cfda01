// Bodies that fail, hang or leave, and everything the runtime says about it; shutdown from every state. Each test bears
// the name of the fault it guards against (docs/graph-bugs.md).
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

#include "graph_fixture.hpp"
#include "sanitizer.hpp"

using namespace whet::test;

namespace {

std::atomic<int> cancelled_users{0};

// Dependents of a failed task do not run, given or inferred, submitted before or after the failure and whether or not
// the failed task has left the rings; everything else does; the first error is kept with the task's name.
void failure_cancels_dependents_alone(Policy policy) {
    for (const bool late : {false, true}) {
        Config config = small(policy, 8, 2);
        config.retain = Retain::consumers;
        config.on_cancelled = [](void*, Kind) { cancelled_users.fetch_add(1); };
        cancelled_users = 0;
        Bench bench(config);
        std::atomic<int> wrong{0};
        std::atomic<int> ran{0};
        std::uint64_t cell = 0;
        std::vector<TensorArg> write{region_of(&cell, 0, 8, Direction::out_existing)};
        std::vector<TensorArg> read{region_of(&cell, 0, 8, Direction::in)};
        TaskId failing = 0;
        check_ok(bench.try_submit([](auto, auto) -> int { throw std::runtime_error("no more ink"); }, write, {},
                                  failing, {}, bench.runtime->name_task("printer")));
        if (late) {
            // Many windows of other work, so that the failed task is long gone.
            for (int filler = 0; filler < 100; ++filler) bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
        }
        const TaskId dependent = bench.submit([&](auto, auto) { return wrong.fetch_add(1), 0; }, {failing});
        bench.submit([&](auto, auto) { return wrong.fetch_add(1), 0; }, read);
        bench.submit([&](auto, auto) { return wrong.fetch_add(1), 0; }, {dependent});
        bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
        const Status status = bench.runtime->wait_all();
        CHECK(status.code == Code::task_failed && status.task == failing);
        CHECK(status.detail.find("printer") != std::string::npos &&
              status.detail.find("no more ink") != std::string::npos);
        CHECK(wrong.load() == 0 && ran.load() == (late ? 101 : 1));
        CHECK(cancelled_users.load() == 3);
        CHECK(bench.runtime->totals().cancelled == 3 && bench.runtime->totals().failed == 1);
        // Collected: the runtime is as good as new.
        bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; }, read);
        check_ok(bench.runtime->wait_all());
        CHECK(ran.load() == (late ? 102 : 2));
    }
}

void s10_the_message_of_the_body_is_kept(Policy policy) {
    Bench bench(small(policy, 8, 1));
    bench.submit([](auto, auto) { return 42; });
    bench.submit([](auto, auto) -> int { throw 3; });
    const Status status = bench.runtime->wait_all();
    CHECK(status.code == Code::task_failed && status.body_result == 42);
    CHECK(status.detail == "task 0 returned 42");
}

// A full ring of failing tasks does not stop the submitter; a refused submission does not end the process.
void s8_s16_submission_survives_errors(Policy policy) {
    Bench bench(small(policy, 4, 2));
    for (int task = 0; task < 200; ++task) bench.submit([](auto, auto) { return 1; });
    CHECK(bench.runtime->wait_all().code == Code::task_failed);
    std::vector<TensorArg> made{output(std::uint64_t{1} << 40)};
    TaskId id = 0;
    CHECK(bench.runtime->alloc(made, id).code == Code::output_too_large);
    CHECK(bench.runtime->wait(id + 1000000).code == Code::unknown_task);
    std::vector<TensorArg> none;
    CHECK(bench.try_submit([](auto, auto) { return 0; }, none, {bench.runtime->next_id()}, id).code ==
          Code::unknown_task);
    bench.submit([](auto, auto) { return 0; });
    check_ok(bench.runtime->wait_all());
}

// While a body runs nothing is stalled, however long it takes and whoever else is idle (M17, M21). A wait that is over
// before the body is says so, and the watchdog names the body (M18, M20); after many laps the ids are right (S11).
void m17_m21_a_long_body_is_no_stall(Policy policy) {
    Config config = hands_off(small(policy, 8, 4));
    config.stall_ns = 150'000'000;  // a busy machine may keep every worker waiting for some of it
    Bench bench(config);
    for (int task = 0; task < 100; ++task) bench.submit([](auto, auto) { return 0; });
    Gate gate;
    TaskId slow = 0;
    std::vector<TensorArg> none;
    check_ok(bench.try_submit([&gate](auto, auto) { return gate.wait(); }, none, {}, slow, {},
                              bench.runtime->name_task("slow")));
    const TaskId after = bench.submit([](auto, auto) { return 0; }, {slow});
    CHECK(bench.runtime->wait(slow, 400'000'000).code == Code::timed_out);
    const std::vector<Waiting> waiting = bench.runtime->watchdog();
    CHECK(waiting.size() == 2);
    CHECK(waiting[0].task == slow && waiting[0].running && bench.runtime->name_of(waiting[0].name) == "slow");
    CHECK(waiting[1].task == after && !waiting[1].running);
    CHECK(waiting[1].unmet.size() == 1 && waiting[1].unmet[0] == slow);
    CHECK(slow == 100);
    gate.open();
    check_ok(bench.runtime->wait_all());
    CHECK(bench.runtime->watchdog().empty());
}

void a_body_that_ends_its_thread(Policy policy) {
#if !WHET_SANITIZED
    Bench bench(hands_off(small(policy, 16, 3)));
    std::atomic<int> ran{0};
    for (int task = 0; task < 300; ++task) {
        if (task % 100 == 50) {
            bench.submit([](auto, auto) -> int { pthread_exit(nullptr); });
        } else {
            bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
        }
    }
    const Status status = bench.runtime->wait_all();
    CHECK(status.code == Code::task_failed);
    CHECK(status.detail.find("ended its thread") != std::string::npos);
    CHECK(ran.load() == 297);
#else
    (void)policy;
#endif
}

void a_body_that_never_returns(Policy policy) {
    static Gate gates[3];
    Gate& never = gates[static_cast<int>(policy)];
    static std::atomic<bool> begun;
    begun = false;
    Config config = hands_off(small(policy, 16, 3));
    config.on_cancelled = [](void*, Kind) { cancelled_users.fetch_add(1); };
    cancelled_users = 0;
    std::unique_ptr<Runtime> runtime;
    check_ok(Runtime::make(config, runtime));
    TaskSpec spec;
    spec.user = &never;
    spec.body = [](void* const*, const std::uint64_t*, void* gate) {
        return begun.store(true), static_cast<Gate*>(gate)->wait();
    };
    TaskId stuck = 0;
    check_ok(runtime->submit(spec, stuck));
    while (!begun.load()) std::this_thread::yield();
    spec.dependencies = {&stuck, 1};
    TaskId id = 0;
    check_ok(runtime->submit(spec, id));
    CHECK(runtime->wait_all(20'000'000).code == Code::timed_out);
    const Status status = runtime->shutdown(50'000'000);
    CHECK(status.code == Code::timed_out);
    CHECK(runtime->submit(spec, id).code == Code::shut_down);
    runtime.reset();
    // The thread left behind still has its state, and ends when its body does.
    never.open();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void a_body_may_submit_to_its_own_runtime_but_not_wait_for_it(Policy policy) {
    Bench bench(small(policy, 64, 2));
    std::atomic<int> refused{0};
    static std::atomic<int> ran{0};
    ran = 0;
    for (int task = 0; task < 20; ++task) {
        bench.submit([&](auto, auto) {
            TaskSpec spec;
            spec.kind = Kind::native;
            spec.body = [](void* const*, const std::uint64_t*, void*) { return ran.fetch_add(1), 0; };
            TaskId id = 0;
            check_ok(bench.runtime->submit(spec, id));
            refused.fetch_add(bench.runtime->wait_all().code == Code::nested_submit);
            return 0;
        });
    }
    check_ok(bench.runtime->wait_all());
    CHECK(refused.load() == 20);
    CHECK(ran.load() == 20);
}

void a_body_that_fills_the_window_is_told(Policy policy) {
    for (const unsigned workers : {1U, 2U, 3U}) {
        Bench bench(small(policy, 16, workers));
        std::atomic<int> refused{0};
        std::atomic<std::uint64_t> submitted{0};
        bench.submit([&](auto, auto) {
            TaskSpec spec;
            TaskId id = 0;
            Status status;
            while ((status = bench.runtime->submit(spec, id)).ok()) submitted.fetch_add(1);
            refused.fetch_add(status.code == Code::window_deadlock);
            return 0;
        });
        check_ok(bench.runtime->wait_all());
        CHECK(refused.load() == 1);
        CHECK(submitted.load() == 15);
    }
}

// True is a promise: the body does not run. False as well: it has, or it does.
void cancelling_one_task_and_running_it_never_both_happen(Policy policy) {
    for (int round = 0; round < 40; ++round) {
        Bench bench(small(policy, 64, 3));
        std::atomic<int> ran[32] = {};
        bool told[32] = {};
        TaskId ids[32];
        for (int task = 0; task < 32; ++task) {
            ids[task] = bench.submit([&ran, task](auto, auto) { return ran[task].fetch_add(1), 0; });
            if (task % 2 == 1) told[task - 1] = bench.runtime->cancel_one(ids[task - 1]);
        }
        for (int task = 1; task < 32; task += 4) told[task] = bench.runtime->cancel_one(ids[task]);
        (void)bench.runtime->wait_all();
        for (int task = 0; task < 32; ++task) CHECK(ran[task].load() == (told[task] ? 0 : 1));
    }
}

void a_task_that_waits_is_cancelled_alone(Policy policy) {
    Bench bench(hands_off(small(policy, 64, 2)));
    Gate gate;
    std::atomic<bool> begun{false};
    std::atomic<int> ran{0};
    const TaskId first = bench.submit([&](auto, auto) { return begun.store(true), gate.wait(); });
    const TaskId second = bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; }, {first});
    const TaskId third = bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; }, {second});
    const TaskId other = bench.submit([&](auto, auto) { return ran.fetch_add(16), 0; }, {first});
    while (!begun.load()) std::this_thread::yield();
    CHECK(!bench.runtime->cancel_one(first));
    CHECK(bench.runtime->cancel_one(second));
    gate.open();
    CHECK(bench.runtime->wait_all().code == Code::cancelled);
    CHECK(ran.load() == 16);
    CHECK(bench.runtime->wait(third).code == Code::cancelled);
    check_ok(bench.runtime->wait(other));
    CHECK(bench.runtime->cancel_one(second));
    CHECK(!bench.runtime->cancel_one(first));
}

void cancelling_stops_what_has_not_begun(Policy policy) {
    Bench bench(hands_off(small(policy, 1024, 2)));
    Gate gate;
    std::atomic<int> ran{0};
    std::atomic<bool> begun{false};
    const TaskId first = bench.submit([&](auto, auto) { return begun.store(true), gate.wait(); });
    for (int task = 0; task < 500; ++task) bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; }, {first});
    while (!begun.load()) std::this_thread::yield();
    bench.runtime->cancel();
    gate.open();
    CHECK(bench.runtime->wait_all().code == Code::cancelled);
    CHECK(ran.load() == 0);
    bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
    check_ok(bench.runtime->wait_all());
    CHECK(ran.load() == 1);
}

// Destroyed idle, busy, full, after errors, with open scopes, at once.
void shutdown_from_every_state(Policy policy) {
    for (const unsigned workers : {1U, 2U, 5U}) {
        for (int state = 0; state < 6; ++state) {
            std::atomic<int> begun{0};
            Bench bench(small(policy, 8, workers));
            if (state == 1) bench.submit([](auto, auto) { return 0; });
            if (state == 2) {
                for (int task = 0; task < 8; ++task) bench.submit([&](auto, auto) { return begun.fetch_add(1), 0; });
            }
            if (state == 3) {
                const TaskId failing = bench.submit([](auto, auto) { return 1; });
                bench.submit([](auto, auto) { return 0; }, {failing});
            }
            if (state == 4) {
                check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
                std::vector<TensorArg> made{output(64)};
                bench.submit([](auto, auto) { return 0; }, made);
            }
            if (state == 5) {
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
                check_ok(bench.runtime->shutdown());
            }
            CHECK(bench.runtime->totals().submitted <= 8);
        }
    }
}

void a_forked_child_is_told(Policy policy) {
#if !WHET_SANITIZED
    Bench bench(small(policy, 8, 2));
    bench.submit([](auto, auto) { return 0; });
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        TaskSpec spec;
        TaskId id = 0;
        const bool told = bench.runtime->submit(spec, id).code == Code::forked &&
                          bench.runtime->wait_all().code == Code::forked &&
                          bench.runtime->shutdown().code == Code::forked;
        bench.runtime.reset();
        Bench fresh(small(policy, 8, 2));
        fresh.submit([](auto, auto) { return 0; });
        _exit(told && fresh.runtime->wait_all().ok() ? 0 : 1);
    }
    int result = -1;
    CHECK(waitpid(child, &result, 0) == child);
    CHECK(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    check_ok(bench.runtime->wait_all());
#else
    (void)policy;
#endif
}

// Tasks that wait are woken under hybrid and wired, and looked at again under polling; never the other way.
void each_policy_waits_in_its_own_way(Policy policy) {
    Bench bench(hands_off(small(policy, 64, 2)));
    Gate gate;
    std::atomic<bool> begun{false};
    const TaskId first = bench.submit([&](auto, auto) { return begun.store(true), gate.wait(); });
    while (!begun.load()) std::this_thread::yield();
    for (int task = 0; task < 10; ++task) bench.submit([](auto, auto) { return 0; }, {first});
    gate.open();
    check_ok(bench.runtime->wait_all());
    std::uint64_t woken = 0;
    std::uint64_t polled = 0;
    for (const PhaseCounters& worker : bench.runtime->phases()) {
        woken += worker.count[static_cast<std::size_t>(Phase::wake)];
        polled += worker.count[static_cast<std::size_t>(Phase::poll)];
    }
    CHECK(policy == Policy::polling ? woken == 0 : polled == 0);
}

// More workers than any mask of bits has bits.
void r1_more_workers_than_mask_bits(Policy policy) {
    for (const unsigned workers : {16U, 17U, 33U, 65U, 129U}) {
        Bench bench(small(policy, 64, workers));
        std::atomic<int> ran{0};
        for (int task = 0; task < 200; ++task) bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
        check_ok(bench.runtime->wait_all());
        CHECK(ran.load() == 200);
    }
}

// Off: nothing is recorded. On: one record per task with its own id, also after many laps (S14), inside its phase
// times.
void r4_s14_traces(Policy policy) {
    for (const TraceLevel level : {TraceLevel::off, TraceLevel::phases, TraceLevel::tasks}) {
        Config config = small(policy, 8, 2);
        config.trace = level;
        Bench bench(config);
        for (int task = 0; task < 500; ++task) bench.submit([](auto, auto) { return 0; });
        check_ok(bench.runtime->wait_all());
        std::set<TaskId> ids;
        std::size_t records = 0;
        std::uint64_t bodies = 0;
        for (unsigned worker = 0; worker < 2; ++worker) {
            for (const TraceRecord& record : bench.runtime->trace(worker)) {
                ids.insert(record.task);
                ++records;
                CHECK(record.begin_ns <= record.end_ns);
            }
            bodies += bench.runtime->phases()[worker].count[static_cast<std::size_t>(Phase::body)];
        }
        CHECK(records == (level == TraceLevel::tasks ? 500U : 0U));
        CHECK(ids.size() == records && (ids.empty() || *ids.rbegin() == 499));
        CHECK(bodies == (level == TraceLevel::off ? 0U : 500U));
    }
}

}  // namespace

int main() {
    for (const Policy policy : kPolicies) {
        failure_cancels_dependents_alone(policy);
        s10_the_message_of_the_body_is_kept(policy);
        s8_s16_submission_survives_errors(policy);
        m17_m21_a_long_body_is_no_stall(policy);
        a_body_that_ends_its_thread(policy);
        a_body_that_never_returns(policy);
        a_body_may_submit_to_its_own_runtime_but_not_wait_for_it(policy);
        a_body_that_fills_the_window_is_told(policy);
        cancelling_one_task_and_running_it_never_both_happen(policy);
        a_task_that_waits_is_cancelled_alone(policy);
        cancelling_stops_what_has_not_begun(policy);
        shutdown_from_every_state(policy);
        a_forked_child_is_told(policy);
        r1_more_workers_than_mask_bits(policy);
        r4_s14_traces(policy);
        each_policy_waits_in_its_own_way(policy);
    }
    return finish("test_graph_faults");
}
