#include "graph/protocol/park.hpp"

#include <pthread.h>
#include <sched.h>

#include <ctime>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <chrono>
#include <thread>
#endif

namespace whet::graph {

void thread_yield() { sched_yield(); }

#if defined(__linux__)

void park(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns) {
    timespec limit{};
    limit.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
    limit.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected,
            timeout_ns == 0 ? nullptr : &limit, nullptr, 0);
}

void unpark_all(std::atomic<std::uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

void unpark_one(std::atomic<std::uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

#else

// No futex here: sleep in short steps. Correct, with up to 100 us of extra latency per wake.
void park(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns) {
    const auto start = std::chrono::steady_clock::now();
    while (word.load(std::memory_order_acquire) == expected) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        const auto spent = std::chrono::steady_clock::now() - start;
        if (timeout_ns != 0 && spent >= std::chrono::nanoseconds(timeout_ns)) return;
    }
}

void unpark_all(std::atomic<std::uint32_t>&) {}
void unpark_one(std::atomic<std::uint32_t>&) {}

#endif

std::atomic<std::uint32_t> fork_count{0};

namespace {

// Registered when the library is loaded, before any thread or runtime of ours exists.
[[maybe_unused]] const int fork_watch =
    pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

}  // namespace whet::graph
