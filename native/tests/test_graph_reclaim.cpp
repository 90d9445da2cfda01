// Slots, heap bytes and tensor-map entries come back when they may and not before. Each test bears the name of the
// fault it guards against (docs/graph-bugs.md).
#include <cstring>

#include "graph/submitter/heap_ring.hpp"
#include "graph_fixture.hpp"

using namespace whet::test;

namespace {

// The watermark must not stop at the id of the task that completes last.
void m1_low_task_completing_last_frees_the_ring(Policy policy) {
    Gate gate;
    Bench bench(small(policy, 16, 3));
    std::atomic<int> ran{0};
    bench.submit([&](auto, auto) { return gate.wait(); });
    for (int task = 0; task < 15; ++task) bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
    while (ran.load() != 15) std::this_thread::yield();
    gate.open();
    for (int task = 0; task < 100; ++task) bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
    check_ok(bench.runtime->wait_all());
    CHECK(ran.load() == 115);
    CHECK(bench.runtime->peaks().window_now == 0);
}

// The stamp of a consumer and the retirement of its producer are steps of one thread: a late consumer reads the right
// bytes or is refused, never something else.
void s2_retirement_does_not_race_with_the_consumer_stamp(Policy policy) {
    Config config = small(policy, 4, 3);
    config.retain = Retain::consumers;
    config.heap_bytes = 256;
    Bench bench(config);
    std::atomic<int> wrong{0};
    int refused = 0;
    for (std::uint64_t round = 0; round < 3000; ++round) {
        std::vector<TensorArg> made{output(64)};
        bench.submit([round](void* const* data, auto) { return std::memcpy(data[0], &round, 8), 0; }, made);
        if (round % 3 == 0) bench.submit([](auto, auto) { return 0; });
        std::vector<TensorArg> read{as(made[0], Direction::in)};
        TaskId id = 0;
        const Status status = bench.try_submit(
            [round, &wrong](void* const* data, auto) {
                std::uint64_t seen = 0;
                std::memcpy(&seen, data[0], 8);
                wrong.fetch_add(seen != round);
                return 0;
            },
            read, {}, id);
        refused += !status.ok();
        CHECK(status.ok() || status.code == Code::output_retired);
    }
    check_ok(bench.runtime->wait_all());
    CHECK(wrong.load() == 0);
    CHECK(refused < 3000);
}

// x = A(); fillers; C(x) in one scope.
void s3_output_lives_to_the_end_of_its_scope(Policy policy) {
    Bench bench(small(policy, 32, 2));
    for (int round = 0; round < 20; ++round) {
        check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
        std::vector<TensorArg> made{output(4096)};
        bench.submit([](void* const* data, auto) { return std::memset(data[0], 0x5a, 4096), 0; }, made);
        for (int filler = 0; filler < 29; ++filler) {
            std::vector<TensorArg> other{output(4096)};
            bench.submit([](void* const* data, auto) { return std::memset(data[0], 0x11, 4096), 0; }, other);
        }
        std::vector<TensorArg> read{as(made[0], Direction::in)};
        bench.submit(
            [](void* const* data, auto) {
                const auto* bytes = static_cast<const unsigned char*>(data[0]);
                for (int index = 0; index < 4096; ++index) {
                    if (bytes[index] != 0x5a) return 1;
                }
                return 0;
            },
            read);
        check_ok(bench.runtime->scope_end());
    }
    check_ok(bench.runtime->wait_all());
}

// A scope that holds more than the window is refused with the numbers, and the runtime goes on.
void s3_a_scope_that_does_not_fit_is_refused(Policy policy) {
    Bench bench(small(policy, 8, 2));
    check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
    Status status;
    std::vector<TensorArg> none;
    for (int task = 0; task < 80 && status.ok(); ++task) {
        TaskId id = 0;
        status = bench.try_submit([](auto, auto) { return 0; }, none, {}, id);
    }
    CHECK(status.code == Code::window_deadlock);
    CHECK(status.detail.find("8 of 8") != std::string::npos);
    CHECK(std::string(text_of(status.code).cure).find("window") != std::string::npos);
    check_ok(bench.runtime->scope_end());
    for (int task = 0; task < 80; ++task) bench.submit([](auto, auto) { return 0; });
    check_ok(bench.runtime->wait_all());
}

// A reused slot is not done before its new task is.
void s4_reused_slot_begins_unfinished(Policy policy) {
    Bench bench(small(policy, 4, 2));
    for (int round = 0; round < 200; ++round) {
        Gate gate;
        const TaskId id = bench.submit([&gate](auto, auto) { return gate.wait(); });
        CHECK(!bench.runtime->done(id));
        gate.open();
        check_ok(bench.runtime->wait(id));
        CHECK(bench.runtime->done(id));
    }
}

// An empty ring starts over; the retirement of a task from before that must not move its bottom back. 64 of 1,024 bytes
// are live, and a block of 960 fits.
void the_heap_ring_frees_to_a_position_behind_its_bottom(Policy policy) {
    HeapRing ring(1024, 64);
    CHECK(ring.fits(512));
    ring.take(512);
    const std::uint64_t first = ring.top();
    ring.free_to(first);
    CHECK(ring.fits(64));
    ring.take(64);
    CHECK(ring.used() == 64);
    ring.free_to(first);
    CHECK(ring.used() == 64);
    CHECK(ring.fits(960));

    Config config = hands_off(small(policy, 16, 2));
    config.heap_bytes = 1024;
    config.stall_ns = 300'000'000;
    Bench bench(config);
    for (int round = 0; round < 50; ++round) {
        std::vector<TensorArg> half{output(512)};
        bench.submit([](auto, auto) { return 0; }, half);
        check_ok(bench.runtime->wait_all());
        bench.submit([](auto, auto) { return 0; });  // no output: its position is the one before the ring starts over
        std::vector<TensorArg> little{output(64)};
        bench.submit([](auto, auto) { return 0; }, little);
        check_ok(bench.runtime->wait_all());
        CHECK(bench.runtime->peaks().heap_now <= 64);
        std::vector<TensorArg> most{output(960)};
        bench.submit([](auto, auto) { return 0; }, most);
        check_ok(bench.runtime->wait_all());
    }
}

void m2_allocations_alone_pass_through_the_ring(Policy policy) {
    for (const unsigned workers : {1U, 2U}) {
        Bench bench(small(policy, 8, workers));
        TaskId last = 0;
        for (int task = 0; task < 100; ++task) {
            std::vector<TensorArg> made{output(1000), output(10)};
            check_ok(bench.runtime->alloc(made, last));
        }
        check_ok(bench.runtime->wait(last));
        check_ok(bench.runtime->wait_all());
        CHECK(bench.runtime->peaks().heap_now == 0);
    }
}

void s5_every_window_from_four(Policy policy) {
    for (std::uint32_t window = 4; window <= 128; window *= 2) {
        for (const unsigned workers : {1U, 3U}) {
            Bench bench(small(policy, window, workers));
            std::atomic<std::uint64_t> ran{0};
            for (std::uint32_t task = 0; task < 5 * window + 3; ++task) {
                bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; });
            }
            check_ok(bench.runtime->wait_all());
            CHECK(ran.load() == 5 * window + 3);
        }
    }
    std::unique_ptr<Runtime> none;
    for (const std::uint32_t window : {0U, 2U, 3U, 33U}) {
        Config config = small(policy);
        config.window = window;
        CHECK(Runtime::make(config, none).code == Code::bad_argument);
    }
}

// An output of the outer scope, used late from inner scopes that have reclaimed their own, in a ring that wraps.
void m3_inner_consumer_of_an_outer_producer(Policy policy) {
    Config config = small(policy, 32, 3);
    config.heap_bytes = 8192;
    Bench bench(config);
    for (int round = 0; round < 100; ++round) {
        check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
        std::vector<TensorArg> made{output(64)};
        bench.submit([](void* const* data, auto) { return std::memset(data[0], 7, 64), 0; }, made);
        for (int inner = 0; inner < 8; ++inner) {
            check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
            std::vector<TensorArg> filler{output(512)};
            bench.submit([](void* const* data, auto) { return std::memset(data[0], 9, 512), 0; }, filler);
            std::vector<TensorArg> read{as(made[0], Direction::in), as(filler[0], Direction::in)};
            bench.submit(
                [](void* const* data, auto) {
                    return static_cast<const char*>(data[0])[63] == 7 && static_cast<const char*>(data[1])[511] == 9
                               ? 0
                               : 1;
                },
                read);
            check_ok(bench.runtime->scope_end());
        }
        check_ok(bench.runtime->scope_end());
    }
    check_ok(bench.runtime->wait_all());
}

// Live outputs never share a byte and lie inside the heap.
void m4_live_outputs_do_not_overlap(Policy policy) {
    Config config = small(policy, 64, 2);
    config.heap_bytes = 8192;
    Bench bench(config);
    for (int round = 0; round < 50; ++round) {
        check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
        std::vector<TensorArg> live;
        for (std::uint64_t size = 1; size <= 600; size += 37) {
            std::vector<TensorArg> made{output(size)};
            TaskId id = 0;
            if (!bench.runtime->alloc(made, id).ok()) break;
            for (const TensorArg& other : live) {
                const auto* begin = static_cast<const char*>(made[0].base);
                const auto* other_begin = static_cast<const char*>(other.base);
                CHECK(begin + made[0].bytes <= other_begin || other_begin + other.bytes <= begin);
            }
            live.push_back(made[0]);
        }
        CHECK(live.size() > 8);
        check_ok(bench.runtime->scope_end());
    }
    check_ok(bench.runtime->wait_all());
}

void m5_everything_is_reclaimed_at_the_end(Policy policy) {
    Bench bench(small(policy, 64, 4));
    for (int round = 0; round < 200; ++round) {
        check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
        std::vector<TensorArg> made{output(256)};
        bench.submit([](auto, auto) { return 0; }, made);
        for (int reader = 0; reader < 8; ++reader) {
            std::vector<TensorArg> read{as(made[0], Direction::in)};
            bench.submit([](auto, auto) { return 0; }, read);
        }
        check_ok(bench.runtime->scope_end());
        check_ok(bench.runtime->wait_all());
        const Peaks peaks = bench.runtime->peaks();
        CHECK(peaks.window_now == 0 && peaks.heap_now == 0 && peaks.tensormap_now == 0);
    }
}

// A consumer of a task whose scope has ended and whose other consumers are through.
void m6_consumer_after_the_scope_has_ended(Policy policy) {
    Bench bench(small(policy, 8, 2));
    for (int round = 0; round < 500; ++round) {
        check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
        const TaskId producer = bench.submit([](auto, auto) { return 0; });
        bench.submit([](auto, auto) { return 0; }, {producer});
        check_ok(bench.runtime->scope_end());
        if (round % 2 == 0) check_ok(bench.runtime->wait(producer));
        bench.submit([](auto, auto) { return 0; }, {producer});
    }
    check_ok(bench.runtime->wait_all());
    CHECK(bench.runtime->peaks().window_now == 0);
}

void m7_empty_heap_serves_anything_that_fits(Policy policy) {
    Config config = small(policy, 8, 2);
    config.heap_bytes = 10240;
    config.retain = Retain::consumers;
    Bench bench(config);
    for (int round = 0; round < 100; ++round) {
        std::vector<TensorArg> made{output(round % 2 == 0 ? 6144 : 10240)};
        bench.submit([](void* const* data, auto) { return std::memset(data[0], 1, 6144), 0; }, made);
    }
    check_ok(bench.runtime->wait_all());
    std::vector<TensorArg> large{output(10241)};
    TaskId id = 0;
    CHECK(bench.runtime->alloc(large, id).code == Code::output_too_large);
    large[0] = output(~std::uint64_t{0} - 3);
    CHECK(bench.runtime->alloc(large, id).code == Code::output_too_large);
}

// Tasks held back for one publication of many are published when the submitter has to wait.
void m8_a_blocked_submitter_publishes_first(Policy policy) {
    for (const unsigned workers : {1U, 2U}) {
        Bench bench(small(policy, 4, workers));
        std::vector<TaskSpec> many(23);
        TaskId first = 0;
        std::size_t submitted = 0;
        check_ok(bench.runtime->submit_many(many, first, submitted));
        CHECK(submitted == 23);
        check_ok(bench.runtime->wait_all());
    }
}

void m9_scope_of_many_windows_without_retention(Policy policy) {
    Config config = small(policy, 8, 2);
    config.retain = Retain::consumers;
    Bench bench(config);
    check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
    for (int task = 0; task < 80; ++task) bench.submit([](auto, auto) { return 0; });
    check_ok(bench.runtime->scope_end());
    check_ok(bench.runtime->wait_all());
}

// Many more edges than any list was sized for.
void m10_edges_are_not_limited(Policy policy) {
    Bench bench(small(policy, 4096, 2));
    Gate gate;
    const TaskId root = bench.submit([&](auto, auto) { return gate.wait(); });
    std::vector<TaskId> all;
    for (int task = 0; task < 500; ++task) all.push_back(bench.submit([](auto, auto) { return 0; }, {root}));
    for (int task = 0; task < 50; ++task) bench.submit([](auto, auto) { return 0; }, all);
    gate.open();
    check_ok(bench.runtime->wait_all());
    CHECK(bench.runtime->totals().edges >= 500);
}

// A closed scope pins nothing: a full window is waited for, not reported.
void m19_closed_scopes_are_no_deadlock(Policy policy) {
    Bench bench(small(policy, 8, 3));
    for (int round = 0; round < 30; ++round) {
        check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
        for (int task = 0; task < 7; ++task) {
            bench.submit([](auto, auto) { return std::this_thread::sleep_for(std::chrono::microseconds(50)), 0; });
        }
        check_ok(bench.runtime->scope_end());
    }
    check_ok(bench.runtime->wait_all());
}

// A starved machine is not a deadlock: only a pinned ring or the wall clock ends a wait.
void s15_busy_neighbours_are_no_deadlock(Policy policy) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> neighbours;
    for (int thread = 0; thread < 4; ++thread) {
        neighbours.emplace_back([&stop] {
            while (!stop.load()) continue;
        });
    }
    {
        Bench bench(small(policy, 8, 8));
        for (int task = 0; task < 2000; ++task) bench.submit([](auto, auto) { return 0; });
        check_ok(bench.runtime->wait_all());
    }
    stop.store(true);
    for (std::thread& neighbour : neighbours) neighbour.join();
}

// Sizes beyond 32 bits. The pages are never touched.
void s13_sizes_beyond_32_bits(Policy policy) {
    Config config = small(policy, 8, 1);
    config.heap_bytes = std::uint64_t{6} << 30;
    std::unique_ptr<Runtime> runtime;
    if (!Runtime::make(config, runtime).ok()) return;
    std::vector<TensorArg> made{output(std::uint64_t{5} << 30)};
    TaskId id = 0;
    check_ok(runtime->alloc(made, id));
    CHECK(runtime->peaks().heap_peak == std::uint64_t{5} << 30);
    check_ok(runtime->wait_all());
}

// Sixteen blocks of paged attention in a heap of 128 KiB, where one batch needs 84,992 bytes and 65 slots: the bodies
// write and check every byte, so a buffer reused too early shows.
void tight_heap_never_overwrites(Policy policy, int runs) {
    constexpr std::uint64_t kBlocks = 16;
    for (int run = 0; run < runs; ++run) {
        Config config = small(policy, 128, 3);
        config.heap_bytes = 128 * 1024;
        config.output_align = 1024;
        Bench bench(config);
        const auto fill = [](void* data, std::uint64_t bytes, std::uint64_t value) {
            std::memset(data, static_cast<int>(value & 0xff), bytes);
        };
        const auto holds = [](const void* data, std::uint64_t bytes, std::uint64_t value) {
            const auto* at = static_cast<const unsigned char*>(data);
            for (std::uint64_t index = 0; index < bytes; ++index) {
                if (at[index] != (value & 0xff)) return false;
            }
            return true;
        };
        for (std::uint64_t batch = 0; batch < 4; ++batch) {
            check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
            std::vector<TensorArg> sums{output(1024), output(64), output(64)};
            TaskId id = 0;
            check_ok(bench.runtime->alloc(sums, id));
            for (std::uint64_t block = 0; block < kBlocks; ++block) {
                check_ok(bench.runtime->scope_begin(ScopeMode::automatic));
                const std::uint64_t tag = batch * 61 + block * 7 + static_cast<std::uint64_t>(run);
                std::vector<TensorArg> qk{output(1024)};
                bench.submit([=](void* const* data, auto) { return fill(data[0], 1024, tag), 0; }, qk);
                std::vector<TensorArg> sf{as(qk[0], Direction::in), output(512), output(64), output(64)};
                bench.submit(
                    [=](void* const* data, auto) {
                        if (!holds(data[0], 1024, tag)) return 1;
                        fill(data[1], 512, tag + 1);
                        fill(data[2], 64, tag + 2);
                        fill(data[3], 64, tag + 3);
                        return 0;
                    },
                    sf);
                std::vector<TensorArg> pv{as(sf[1], Direction::in), output(1024)};
                bench.submit(
                    [=](void* const* data, auto) {
                        if (!holds(data[0], 512, tag + 1)) return 2;
                        fill(data[1], 1024, tag + 4);
                        return 0;
                    },
                    pv);
                std::vector<TensorArg> up{as(sf[2], Direction::in),      as(sf[3], Direction::in),
                                          as(pv[1], Direction::in),      as(sums[0], Direction::inout),
                                          as(sums[1], Direction::inout), as(sums[2], Direction::inout)};
                bench.submit(
                    [=](void* const* data, auto) {
                        if (!holds(data[0], 64, tag + 2) || !holds(data[1], 64, tag + 3)) return 3;
                        if (!holds(data[2], 1024, tag + 4)) return 4;
                        if (block != 0 && !holds(data[3], 1024, tag - 7)) return 5;
                        fill(data[3], 1024, tag);
                        return 0;
                    },
                    up);
                check_ok(bench.runtime->scope_end());
            }
            check_ok(bench.runtime->scope_end());
        }
        check_ok(bench.runtime->wait_all());
        CHECK(bench.runtime->peaks().heap_peak <= 128 * 1024);
        CHECK(bench.runtime->peaks().heap_peak >= 84'992);
    }
}

}  // namespace

int main() {
    for (const Policy policy : kPolicies) {
        m1_low_task_completing_last_frees_the_ring(policy);
        s2_retirement_does_not_race_with_the_consumer_stamp(policy);
        s3_output_lives_to_the_end_of_its_scope(policy);
        s3_a_scope_that_does_not_fit_is_refused(policy);
        s4_reused_slot_begins_unfinished(policy);
        m2_allocations_alone_pass_through_the_ring(policy);
        s5_every_window_from_four(policy);
        m3_inner_consumer_of_an_outer_producer(policy);
        m4_live_outputs_do_not_overlap(policy);
        the_heap_ring_frees_to_a_position_behind_its_bottom(policy);
        m5_everything_is_reclaimed_at_the_end(policy);
        m6_consumer_after_the_scope_has_ended(policy);
        m7_empty_heap_serves_anything_that_fits(policy);
        m8_a_blocked_submitter_publishes_first(policy);
        m9_scope_of_many_windows_without_retention(policy);
        m10_edges_are_not_limited(policy);
        m19_closed_scopes_are_no_deadlock(policy);
        s13_sizes_beyond_32_bits(policy);
        s15_busy_neighbours_are_no_deadlock(policy);
        tight_heap_never_overwrites(policy, 100);
    }
    return finish("test_graph_reclaim");
}
