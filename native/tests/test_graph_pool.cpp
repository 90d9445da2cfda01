// The pool: every chunk exactly once, nested and failing regions, cancellation, crowding, fork, shutdown.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"
#include "graph/pool/pool.hpp"
#include "sanitizer.hpp"

using whet::graph::Pool;

namespace {

void each_chunk_once(unsigned workers, std::size_t chunks, int regions) {
    Pool pool(workers);
    std::unique_ptr<std::atomic<int>[]> hits(new std::atomic<int>[chunks + 1]());
    for (int region = 0; region < regions; ++region) {
        const bool whole = pool.parallel_for(chunks, [&](std::size_t chunk, unsigned worker) {
            if (worker >= workers) hits[chunks].fetch_add(1);
            hits[chunk].fetch_add(1);
        });
        CHECK(whole);
    }
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) CHECK(hits[chunk].load() == regions);
    CHECK(hits[chunks].load() == 0);
}

// Regions of changing size back to back: a late worker must not run a chunk of one region with the body of the next.
void regions_do_not_mix() {
    Pool pool(4);
    long wrong = 0;
    std::vector<int> owner(64);
    for (int region = 0; region < 4000; ++region) {
        const std::size_t chunks = 2 + static_cast<std::size_t>(region * 7 % 50);
        std::atomic<std::size_t> ran{0};
        pool.parallel_for(chunks, [&owner, &ran, region](std::size_t chunk, unsigned) {
            owner[chunk] = region;
            ran.fetch_add(1);
        });
        if (ran.load() != chunks) ++wrong;
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) wrong += owner[chunk] != region;
    }
    CHECK(wrong == 0);
}

void nested_runs_in_place() {
    Pool pool(3);
    std::atomic<int> inner{0};
    std::atomic<int> moved{0};
    pool.parallel_for(8, [&](std::size_t, unsigned outer_worker) {
        pool.parallel_for(5, [&](std::size_t, unsigned worker) {
            moved.fetch_add(worker != outer_worker);
            inner.fetch_add(1);
        });
    });
    CHECK(inner.load() == 40);
    CHECK(moved.load() == 0);
}

void exception_reaches_the_caller() {
    Pool pool(3);
    std::atomic<int> started{0};
    bool caught = false;
    try {
        // So many that they take far longer than throwing once does, sanitizers included.
        pool.parallel_for(20'000'000, [&](std::size_t chunk, unsigned) {
            started.fetch_add(1);
            if (chunk == 10) throw std::runtime_error("chunk 10");
        });
    } catch (const std::runtime_error& error) {
        caught = std::strcmp(error.what(), "chunk 10") == 0;
    }
    CHECK(caught);
    CHECK(started.load() < 20'000'000);
    std::atomic<int> after{0};
    CHECK(pool.parallel_for(100, [&](std::size_t, unsigned) { after.fetch_add(1); }));
    CHECK(after.load() == 100);
}

void cancel_skips_the_rest() {
    Pool pool(2);
    std::atomic<bool> cancel{false};
    std::atomic<int> started{0};
    const bool whole =
        pool.parallel_for(1000000, [&](std::size_t, unsigned) { cancel.store(started.fetch_add(1) > 50); }, &cancel);
    CHECK(!whole);
    CHECK(started.load() < 1000000);
}

void callers_take_turns() {
    Pool pool(2);
    std::atomic<int> in_worker_zero{0};
    std::atomic<int> clashes{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller) {
        callers.emplace_back([&] {
            for (int region = 0; region < 200; ++region) {
                pool.parallel_for(3, [&](std::size_t, unsigned worker) {
                    if (worker != 0) return;
                    clashes.fetch_add(in_worker_zero.fetch_add(1) != 0);
                    in_worker_zero.fetch_sub(1);
                });
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK(clashes.load() == 0);
}

void sleeping_workers_wake() {
    Pool pool(3);
    std::atomic<int> ran{0};
    for (int region = 0; region < 5; ++region) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        pool.parallel_for(64, [&](std::size_t, unsigned) { ran.fetch_add(1); });
    }
    CHECK(ran.load() == 5 * 64);
}

// The sanitizers do not follow threads across a fork, so the child is only tried in plain builds.
void fork_makes_a_fresh_crew() {
#if !WHET_SANITIZED
    Pool pool(3);
    pool.parallel_for(10, [](std::size_t, unsigned) {});
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        std::atomic<int> ran{0};
        pool.parallel_for(100, [&](std::size_t, unsigned) { ran.fetch_add(1); });
        _exit(ran.load() == 100 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    std::atomic<int> ran{0};
    pool.parallel_for(100, [&](std::size_t, unsigned) { ran.fetch_add(1); });
    CHECK(ran.load() == 100);
#endif
}

}  // namespace

int main() {
    for (const unsigned workers : {1U, 2U, 3U, 16U}) {
        for (const std::size_t chunks : {0UL, 1UL, 2UL, 17UL, 1000UL}) each_chunk_once(workers, chunks, 20);
    }
    each_chunk_once(65, 300, 3);
    regions_do_not_mix();
    nested_runs_in_place();
    exception_reaches_the_caller();
    cancel_skips_the_rest();
    callers_take_turns();
    sleeping_workers_wake();
    fork_makes_a_fresh_crew();
    for (int start = 0; start < 50; ++start) Pool shut_at_once(4);
    return whet::test::finish("test_graph_pool");
}
