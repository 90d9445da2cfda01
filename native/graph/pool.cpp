#include "graph/pool.hpp"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "graph/park.hpp"

namespace whet::graph {

namespace {

struct Inside {
    const void* pool = nullptr;
    unsigned worker = 0;
};
thread_local Inside inside;

// Groups of chunks keep the claim counter within 32 bits.
constexpr std::uint64_t kMostGroups = 0x7fffffff;

}  // namespace

// All shared state of the pool. After a fork the child leaves its copy alone (the threads are gone, locks may be held)
// and makes another one.
struct Pool::Crew {
    // Region number in the upper half, next unclaimed group in the lower half. A successful compare-exchange proves
    // that the region is still the one whose fields the worker has read: fields change only when all groups are done.
    alignas(64) std::atomic<std::uint64_t> claim{0};
    // Groups finished in this region. The caller returns when it reaches `groups`.
    alignas(64) std::atomic<std::uint64_t> done{0};
    // Written by the caller between regions.
    alignas(64) std::atomic<std::uint64_t> groups{0};
    std::atomic<std::uint64_t> chunks{0};
    std::atomic<std::uint64_t> group_size{1};
    std::atomic<Call> call{nullptr};
    std::atomic<void*> context{nullptr};
    std::atomic<const std::atomic<bool>*> cancel{nullptr};
    std::atomic<bool> skip{false};
    // Bumped once per region and at the end; idle workers sleep on it.
    alignas(64) std::atomic<std::uint32_t> epoch{0};
    std::atomic<std::uint32_t> sleepers{0};
    std::atomic<bool> stop{false};
    // The caller sleeps here while other workers finish their last groups.
    alignas(64) std::atomic<std::uint32_t> finish{0};
    std::atomic<std::uint32_t> caller_sleeps{0};

    std::mutex region;  // held by the caller for the length of a region
    std::mutex failure_lock;
    std::exception_ptr failure;
    std::vector<std::thread> threads;
    std::uint32_t born = fork_generation();
    bool may_spin = true;

    explicit Crew(unsigned workers, const void* pool) {
        may_spin = workers <= Pool::hardware_workers();
        threads.reserve(workers - 1);
        try {
            for (unsigned worker = 1; worker < workers; ++worker) {
                threads.emplace_back([this, worker, pool] {
                    inside = {pool, worker};
                    serve(worker);
                });
            }
        } catch (...) {
            shut_down();
            throw;
        }
    }

    void shut_down() {
        stop.store(true, std::memory_order_seq_cst);
        epoch.fetch_add(1, std::memory_order_seq_cst);
        unpark_all(epoch);
        for (std::thread& thread : threads) thread.join();
        threads.clear();
    }

    // Claims and runs groups of the current region until none is left.
    void work(unsigned worker) {
        std::uint64_t word = claim.load(std::memory_order_acquire);
        for (;;) {
            const std::uint64_t index = word & 0xffffffff;
            // Acquire: a worker still holding an older claim word that sees the next region's count here also sees that
            // its region was closed, so its compare-exchange fails.
            const std::uint64_t count = groups.load(std::memory_order_acquire);
            const std::uint64_t size = group_size.load(std::memory_order_relaxed);
            const std::uint64_t total = chunks.load(std::memory_order_relaxed);
            const Call body = call.load(std::memory_order_relaxed);
            void* const argument = context.load(std::memory_order_relaxed);
            const std::atomic<bool>* const token = cancel.load(std::memory_order_relaxed);
            if (index >= count) {
                const std::uint64_t again = claim.load(std::memory_order_acquire);
                if (again == word) return;
                word = again;
                continue;
            }
            if (!claim.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
                continue;
            }
            const std::uint64_t end = std::min(total, (index + 1) * size);
            for (std::uint64_t chunk = index * size; chunk < end; ++chunk) {
                if (skip.load(std::memory_order_relaxed)) break;
                if (token && token->load(std::memory_order_relaxed)) {
                    skip.store(true, std::memory_order_relaxed);
                    break;
                }
                try {
                    body(argument, chunk, worker);
                } catch (...) {
                    const std::lock_guard<std::mutex> guard(failure_lock);
                    if (!failure) failure = std::current_exception();
                    skip.store(true, std::memory_order_relaxed);
                }
            }
            // seq_cst pairs with the caller's: it either sees the count or is seen asleep.
            if (done.fetch_add(1, std::memory_order_seq_cst) + 1 == count &&
                caller_sleeps.load(std::memory_order_seq_cst) != 0) {
                finish.fetch_add(1, std::memory_order_seq_cst);
                unpark_all(finish);
            }
            ++word;
        }
    }

    void serve(unsigned worker) {
        std::uint32_t seen = 0;
        Patience patience(may_spin);
        while (!stop.load(std::memory_order_acquire)) {
            const std::uint32_t now = epoch.load(std::memory_order_acquire);
            if (now != seen) {
                seen = now;
                work(worker);
                patience.reset();
                continue;
            }
            if (patience.wait()) continue;
            sleepers.fetch_add(1, std::memory_order_seq_cst);
            if (epoch.load(std::memory_order_seq_cst) == seen && !stop.load(std::memory_order_seq_cst)) {
                park(epoch, seen, 0);
            }
            sleepers.fetch_sub(1, std::memory_order_seq_cst);
            patience.reset();
        }
    }

    void await_all(std::uint64_t count) {
        Patience patience(may_spin);
        while (done.load(std::memory_order_acquire) != count) {
            if (patience.wait()) continue;
            const std::uint32_t ticket = finish.load(std::memory_order_acquire);
            caller_sleeps.store(1, std::memory_order_seq_cst);
            if (done.load(std::memory_order_seq_cst) != count) park(finish, ticket, 0);
            caller_sleeps.store(0, std::memory_order_seq_cst);
        }
    }
};

Pool::Pool(unsigned workers) : workers_(std::max(1U, workers)) { crew_.store(new Crew(workers_, this)); }

Pool::~Pool() {
    Crew* const own = crew_.load();
    // In a forked child the threads never existed: joining them would hang, so the copy is left behind.
    if (own->born != fork_generation()) return;
    own->shut_down();
    delete own;
}

Pool::Crew& Pool::crew() {
    Crew* own = crew_.load(std::memory_order_acquire);
    if (own->born == fork_generation()) return *own;
    // A forked child has one thread, so nobody else replaces the crew at the same time.
    own = new Crew(workers_, this);
    crew_.store(own, std::memory_order_release);
    return *own;
}

bool Pool::run(std::size_t chunks, Call call, void* context, const std::atomic<bool>* cancel) {
    const auto cancelled = [cancel] { return cancel && cancel->load(std::memory_order_relaxed); };
    const auto run_serially = [&](unsigned worker) {
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
            if (cancelled()) return false;
            call(context, chunk, worker);
        }
        return !cancelled();
    };
    if (inside.pool == this) return run_serially(inside.worker);
    Crew& own = crew();
    const std::lock_guard<std::mutex> region(own.region);
    struct Entered {
        Inside outer = inside;
        ~Entered() { inside = outer; }
    } const entered;
    inside = {this, 0};
    if (workers_ == 1 || chunks <= 1) return run_serially(0);
    const std::uint64_t size = (chunks + kMostGroups - 1) / kMostGroups;
    const std::uint64_t groups = (chunks + size - 1) / size;
    // Close the previous region before its fields change: a late worker then finds no group in it.
    const std::uint64_t number = (own.claim.load(std::memory_order_relaxed) >> 32) + 1;
    own.claim.store((number << 32) | 0xffffffff, std::memory_order_relaxed);
    own.call.store(call, std::memory_order_relaxed);
    own.context.store(context, std::memory_order_relaxed);
    own.cancel.store(cancel, std::memory_order_relaxed);
    own.chunks.store(chunks, std::memory_order_relaxed);
    own.group_size.store(size, std::memory_order_relaxed);
    own.groups.store(groups, std::memory_order_release);
    own.skip.store(false, std::memory_order_relaxed);
    own.done.store(0, std::memory_order_relaxed);
    own.failure = nullptr;
    own.claim.store(number << 32, std::memory_order_release);
    own.epoch.fetch_add(1, std::memory_order_seq_cst);
    if (own.sleepers.load(std::memory_order_seq_cst) != 0) unpark_all(own.epoch);
    own.work(0);
    own.await_all(groups);
    if (own.failure) std::rethrow_exception(std::exchange(own.failure, nullptr));
    return !cancelled();
}

unsigned Pool::hardware_workers() {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
#endif
    return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace whet::graph
