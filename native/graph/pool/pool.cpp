#include "graph/pool/pool.hpp"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "graph/pool/regions.hpp"
#include "graph/pool/threads.hpp"
#include "graph/protocol/park.hpp"

namespace whet::graph {

namespace {

struct Inside {
    const void* pool = nullptr;
    unsigned worker = 0;
};
thread_local Inside inside;

constexpr std::uint64_t kLookUpNs = 20'000'000;  // how often a watching caller asks whether to leave

// While another caller has his turn. Naps, because a mutex that is waited for cannot be left.
bool leave_after_a_nap(const std::function<bool()>& leave) {
    constexpr std::uint64_t kNapNs = 50'000;
    constexpr int kNaps = kLookUpNs / kNapNs;
    thread_local int naps = 0;
    std::atomic<std::uint32_t> nothing{0};
    park(nothing, 0, kNapNs);
    if (++naps < kNaps) return false;
    naps = 0;
    return leave();
}

}  // namespace

// The threads and what they share. After a fork the child leaves its copy alone (the threads are gone, locks may be
// held) and makes another one. The threads hold it, because one that was given up outlives the pool.
struct Pool::Crew : std::enable_shared_from_this<Crew> {
    ParallelRegions<MachineSeam> regions;
    ThreadHost threads;
    std::mutex region;      // held by the caller for the length of a region
    bool given_up = false;  // under `region`: another has been made
    const void* const pool;
    const std::uint32_t born = fork_generation();

    explicit Crew(const Pool& of) : regions(of.may_spin(of.workers())), pool(&of) {}

    // Throws std::system_error where the system starts no more threads.
    void start(unsigned worker) {
        threads.start(shared_from_this(), [this, worker] {
            inside = {pool, worker};
            regions.serve(worker, [this](unsigned ended) { replace(ended); });
        });
    }

    void start_all(unsigned workers) {
        for (unsigned worker = 1; worker < workers; ++worker) start(worker);
    }

    // For a thread that its body ends.
    void replace(unsigned worker) {
        try {
            start(worker);
        } catch (const std::system_error&) {
            // The others go on without it; where none is left, the host says so.
        }
    }

    void stop() {
        threads.close();
        regions.stop();
    }
};

// A caller's turn: nobody else has a region in this crew, and this thread is worker 0.
class Pool::Turn {
  public:
    explicit Turn(Pool& pool)
        : Turn(pool, [](std::unique_lock<std::mutex>& lock) {
              lock.lock();
              return true;
          }) {}
    // `take(lock)` is false if the caller does not want to wait any longer; then it has no turn.
    template <class Take>
    Turn(Pool& pool, Take&& take) : outer_(inside) {
        do {
            crew_ = &pool.crew();
            lock_ = std::unique_lock<std::mutex>(crew_->region, std::defer_lock);
            if (!take(lock_)) return;
        } while (crew_->given_up);
        inside = {&pool, 0};
    }
    ~Turn() { inside = outer_; }
    bool has_come() const { return lock_.owns_lock(); }
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
        own->start_all(workers_);
    } catch (...) {
        own->stop();
        own->threads.join_all();
        throw;
    }
}

Pool::~Pool() {
    Crew& own = *crew_.load();
    if (own.born == fork_generation()) {
        own.stop();
        own.threads.join_all();
        return;
    }
    // In a forked child the threads never existed: joining them would hang, so the copies are left behind.
    for (std::shared_ptr<Crew>& left : crews_) (void)new std::shared_ptr<Crew>(std::move(left));
}

Pool::Crew* Pool::make_crew() {
    const std::lock_guard<std::mutex> guard(crews_lock_);
    crews_.push_back(std::make_shared<Crew>(*this));
    crew_.store(crews_.back().get(), std::memory_order_release);
    return crews_.back().get();
}

Pool::Crew& Pool::crew() {
    Crew* own = crew_.load(std::memory_order_acquire);
    if (own->born == fork_generation()) return *own;
    // A forked child has one thread, so nobody else replaces them at the same time.
    own = make_crew();
    own->start_all(workers_);
    return *own;
}

// Leaves threads to the bodies that are still running on them; no group of their region begins any more.
RegionEnd Pool::give_up(Crew& own) {
    RegionEnd end;
    end.claimed = own.regions.bar();
    end.done = {own.shared_from_this(), &own.regions.done().raw()};
    own.given_up = true;
    own.stop();
    own.threads.leave_all();
    try {
        make_crew()->start_all(workers_);
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
    ParallelRegions<MachineSeam>& own = turn.crew().regions;
    const std::uint64_t groups = own.open(chunks, call, context, cancel, false);
    own.help(groups);
    own.await_all(groups);
    if (std::exception_ptr failure = own.take_failure()) std::rethrow_exception(std::move(failure));
    return !cancelled();
}

RegionEnd Pool::run_watched(std::size_t chunks, Call call, void* context, bool helps,
                            const std::function<bool()>& leave) {
    const auto run_serially = [&](unsigned worker) {
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) call(context, chunk, worker);
        return RegionEnd{};
    };
    if (inside.pool == this) return run_serially(inside.worker);
    // Whoever is in a region of another pool does not wait: somebody in a region of this one may be waiting for that.
    const bool may_wait = inside.pool == nullptr;
    const Turn turn(*this, [&](std::unique_lock<std::mutex>& lock) {
        while (!lock.try_lock()) {
            if (!may_wait || leave_after_a_nap(leave)) return false;
        }
        return true;
    });
    if (!turn.has_come()) {
        if (!may_wait) return run_serially(0);
        RegionEnd end;
        end.abandoned = true;  // by the caller: nothing has begun
        return end;
    }
    if (helps && (workers_ == 1 || chunks <= 1)) return run_serially(0);
    Crew& own = turn.crew();
    const std::uint64_t groups = own.regions.open(chunks, call, context, nullptr, true);
    if (helps) own.regions.help(groups);
    const auto nobody_left = [&] { return !helps && own.threads.live() == 0; };
    if (own.regions.await_all(groups, kLookUpNs, [&] { return nobody_left() || leave(); })) {
        if (std::exception_ptr failure = own.regions.take_failure()) std::rethrow_exception(std::move(failure));
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
