#include "graph/pool/pool.hpp"

#include <cxxabi.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "graph/protocol/park.hpp"

namespace whet::graph {

namespace {

struct Inside {
    const void* pool = nullptr;
    unsigned worker = 0;
};
thread_local Inside inside;

// Groups of chunks keep the claim counter within 32 bits.
constexpr std::uint64_t kMostGroups = 0x7fffffff;
constexpr std::uint64_t kClosed = 0xffffffff;    // a claim counter that no group follows
constexpr std::uint64_t kLookUpNs = 20'000'000;  // how often a watching caller asks whether to leave

}  // namespace

// All shared state of the pool. After a fork the child leaves its copy alone (the threads are gone, locks may be held)
// and makes another one. Its threads hold it, because one that was given up outlives the pool.
struct Pool::Crew : std::enable_shared_from_this<Crew> {
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

    std::mutex region;      // held by the caller for the length of a region
    bool given_up = false;  // under `region`: make_crew has made another
    std::mutex failure_lock;
    std::exception_ptr failure;
    std::atomic<bool> watched{false};  // this region: threads that end are no failure of it
    std::mutex threads_lock;
    std::vector<std::thread> threads;
    std::atomic<unsigned> live{0};
    const void* const pool;
    const std::uint32_t born = fork_generation();
    const bool may_spin;

    Crew(unsigned workers, const void* of) : pool(of), may_spin(workers <= Pool::hardware_workers()) {}

    // Throws std::system_error where the system starts no more threads. None is started once the crew is to stop.
    void start(unsigned worker) {
        const std::lock_guard<std::mutex> guard(threads_lock);
        if (stop.load(std::memory_order_relaxed)) return;
        live.fetch_add(1, std::memory_order_relaxed);
        struct Presence {
            std::shared_ptr<Crew> self;
            ~Presence() { self->live.fetch_sub(1, std::memory_order_release); }
        };
        try {
            threads.emplace_back([self = shared_from_this(), worker] {
                const Presence presence{self};
                inside = {self->pool, worker};
                self->serve(worker);
            });
        } catch (...) {
            live.fetch_sub(1, std::memory_order_relaxed);
            throw;
        }
    }

    std::vector<std::thread> tell_all_to_stop() {
        const std::lock_guard<std::mutex> guard(threads_lock);
        stop.store(true, std::memory_order_seq_cst);
        epoch.fetch_add(1, std::memory_order_seq_cst);
        unpark_all(epoch);
        return std::exchange(threads, {});
    }

    void shut_down() {
        for (std::thread& thread : tell_all_to_stop()) thread.join();
    }

    // seq_cst pairs with the caller's: it either sees the count or is seen asleep.
    void finish_group(std::uint64_t count) {
        if (done.fetch_add(1, std::memory_order_seq_cst) + 1 == count &&
            caller_sleeps.load(std::memory_order_seq_cst) != 0) {
            finish.fetch_add(1, std::memory_order_seq_cst);
            unpark_all(finish);
        }
    }

    // The body of a group ends the thread it is called on; another takes over its number.
    void replace_ending_thread(unsigned worker, std::uint64_t count) {
        if (!watched.load(std::memory_order_relaxed)) {
            const std::lock_guard<std::mutex> guard(failure_lock);
            if (!failure) failure = std::make_exception_ptr(std::runtime_error("a body ended its thread"));
            skip.store(true, std::memory_order_relaxed);
        }
        try {
            if (worker != 0) start(worker);
        } catch (const std::system_error&) {
            // The others go on without it; where none is left, `live` says so.
        }
        finish_group(count);
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
                } catch (const abi::__forced_unwind&) {
                    replace_ending_thread(worker, count);
                    throw;
                } catch (...) {
                    const std::lock_guard<std::mutex> guard(failure_lock);
                    if (!failure) failure = std::current_exception();
                    skip.store(true, std::memory_order_relaxed);
                }
            }
            finish_group(count);
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

    // False when `given_up_now` ends the wait before all groups are done. It is asked each time before sleeping.
    template <class GivenUp>
    bool await_all(std::uint64_t count, std::uint64_t sleep_ns, GivenUp&& given_up_now) {
        Patience patience(may_spin);
        while (done.load(std::memory_order_acquire) != count) {
            if (patience.wait()) continue;
            if (given_up_now()) return false;
            const std::uint32_t ticket = finish.load(std::memory_order_acquire);
            caller_sleeps.store(1, std::memory_order_seq_cst);
            if (done.load(std::memory_order_seq_cst) != count) park(finish, ticket, sleep_ns);
            caller_sleeps.store(0, std::memory_order_seq_cst);
        }
        return true;
    }
    void await_all(std::uint64_t count) {
        (void)await_all(count, 0, [] { return false; });
    }

    // Publishes a region and returns its number of groups.
    std::uint64_t open(std::size_t chunk_count, Call body, void* argument, const std::atomic<bool>* token, bool watch) {
        const std::uint64_t size = (chunk_count + kMostGroups - 1) / kMostGroups;
        const std::uint64_t count = (chunk_count + size - 1) / size;
        // Close the previous region before its fields change: a late worker then finds no group in it.
        const std::uint64_t number = (claim.load(std::memory_order_relaxed) >> 32) + 1;
        claim.store((number << 32) | kClosed, std::memory_order_relaxed);
        call.store(body, std::memory_order_relaxed);
        context.store(argument, std::memory_order_relaxed);
        cancel.store(token, std::memory_order_relaxed);
        watched.store(watch, std::memory_order_relaxed);
        chunks.store(chunk_count, std::memory_order_relaxed);
        group_size.store(size, std::memory_order_relaxed);
        groups.store(count, std::memory_order_release);
        skip.store(false, std::memory_order_relaxed);
        done.store(0, std::memory_order_relaxed);
        failure = nullptr;
        claim.store(number << 32, std::memory_order_release);
        epoch.fetch_add(1, std::memory_order_seq_cst);
        if (sleepers.load(std::memory_order_seq_cst) != 0) unpark_all(epoch);
        return count;
    }

    // The caller's share. A body that ends the calling thread takes it away only after the others are done, because
    // what they work on may lie on its stack.
    void help(std::uint64_t count) {
        try {
            work(0);
        } catch (const abi::__forced_unwind&) {
            await_all(count);
            throw;
        }
    }
};

// A caller's turn: nobody else has a region in this crew, and this thread is worker 0.
class Pool::Turn {
  public:
    explicit Turn(Pool& pool) : outer_(inside) {
        do {
            crew_ = &pool.crew();
            lock_ = std::unique_lock<std::mutex>(crew_->region);
        } while (crew_->given_up);
        inside = {&pool, 0};
    }
    ~Turn() { inside = outer_; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Crew& crew() const { return *crew_; }

  private:
    const Inside outer_;
    Crew* crew_ = nullptr;
    std::unique_lock<std::mutex> lock_;
};

Pool::Pool(unsigned workers) : workers_(std::max(1U, workers)) {
    Crew* const own = make_crew();
    try {
        for (unsigned worker = 1; worker < workers_; ++worker) own->start(worker);
    } catch (...) {
        own->shut_down();
        throw;
    }
}

Pool::~Pool() {
    if (crew_.load()->born == fork_generation()) {
        crew_.load()->shut_down();
        return;
    }
    // In a forked child the threads never existed: joining them would hang, so the copies are left behind.
    for (std::shared_ptr<Crew>& left : crews_) (void)new std::shared_ptr<Crew>(std::move(left));
}

Pool::Crew* Pool::make_crew() {
    const std::lock_guard<std::mutex> guard(crews_lock_);
    crews_.push_back(std::make_shared<Crew>(workers_, this));
    crew_.store(crews_.back().get(), std::memory_order_release);
    return crews_.back().get();
}

Pool::Crew& Pool::crew() {
    Crew* own = crew_.load(std::memory_order_acquire);
    if (own->born == fork_generation()) return *own;
    // A forked child has one thread, so nobody else replaces the crew at the same time.
    own = make_crew();
    for (unsigned worker = 1; worker < workers_; ++worker) own->start(worker);
    return *own;
}

// Leaves a crew to the bodies that are still running on it; no group of its region begins any more.
RegionEnd Pool::give_up(Crew& own) {
    RegionEnd end;
    end.claimed = own.claim.fetch_or(kClosed, std::memory_order_acq_rel) & kClosed;
    end.done = {own.shared_from_this(), &own.done};
    own.given_up = true;
    for (std::thread& thread : own.tell_all_to_stop()) thread.detach();
    Crew* const next = make_crew();
    try {
        for (unsigned worker = 1; worker < workers_; ++worker) next->start(worker);
    } catch (const std::system_error&) {
        // Fewer threads: callers that help do the work themselves.
    }
    return end;
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
    const Turn turn(*this);
    if (workers_ == 1 || chunks <= 1) return run_serially(0);
    Crew& own = turn.crew();
    const std::uint64_t groups = own.open(chunks, call, context, cancel, false);
    own.help(groups);
    own.await_all(groups);
    if (own.failure) std::rethrow_exception(std::exchange(own.failure, nullptr));
    return !cancelled();
}

RegionEnd Pool::run_watched(std::size_t chunks, Call call, void* context, bool helps,
                            const std::function<bool()>& leave) {
    const auto run_serially = [&](unsigned worker) {
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) call(context, chunk, worker);
        return RegionEnd{};
    };
    if (inside.pool == this) return run_serially(inside.worker);
    const Turn turn(*this);
    if (helps && (workers_ == 1 || chunks <= 1)) return run_serially(0);
    Crew& own = turn.crew();
    const std::uint64_t groups = own.open(chunks, call, context, nullptr, true);
    if (helps) own.help(groups);
    const auto nobody_left = [&] { return !helps && own.live.load(std::memory_order_acquire) == 0; };
    if (own.await_all(groups, kLookUpNs, [&] { return nobody_left() || leave(); })) {
        if (own.failure) std::rethrow_exception(std::exchange(own.failure, nullptr));
        return {};
    }
    const bool abandoned = nobody_left();
    RegionEnd end = give_up(own);
    end.abandoned = abandoned;
    end.left = !abandoned;
    return end;
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
