// A deterministic machine for the runtime's protocol: threads are fibers, every shared access is a point where another
// thread may go on, and a load may return any store that the C++ memory model still allows it to see.
//
// Modelled: modification order per location, coherence, happens-before by vector clocks, release sequences through
// read-modify-writes, seq_cst as one order over the seq_cst accesses of the run, data races on plain fields, futexes.
// Not modelled: loads that see stores of the future (load buffering), fences (the protocol has none), spurious failure
// of compare-exchange, and seq_cst accesses mixed with weaker ones beyond "no older than the last seq_cst store".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/protocol/atomics.hpp"
#include "interleave_fiber.hpp"

namespace whet::test {

using graph::Site;

inline constexpr unsigned kMostThreads = 4;

struct Clock {
    std::array<std::uint32_t, kMostThreads> time{};
    void join(const Clock& other) {
        for (unsigned thread = 0; thread < kMostThreads; ++thread) {
            if (other.time[thread] > time[thread]) time[thread] = other.time[thread];
        }
    }
};

// Where choices come from: a random walk, or the systematic enumeration of all runs within a budget of deviations.
class Choices {
  public:
    virtual ~Choices() = default;
    // One of `count` options; option 0 is the ordinary one, any other is a deviation if `costs`.
    virtual unsigned choose(unsigned count, bool costs) = 0;
};

// One run. Everything is static through `active`, because the Seam's types have no place to carry it.
class Machine {
  public:
    static inline Machine* active = nullptr;

    explicit Machine(Choices& choices) : choices_(choices) {}

    struct Weakening {
        Site site = Site::count_;
        std::memory_order order = std::memory_order_relaxed;
    };
    Weakening weakening;

    // Runs the bodies to the end; false if a check failed, `what` then says which.
    bool run(const std::vector<std::function<void()>>& bodies);
    const std::string& what() const { return what_; }
    bool running() const { return running_; }
    std::uint64_t steps() const { return steps_; }

    // From inside a body: gives up this run.
    [[noreturn]] void fail(const char* what) {
        what_ = what;
        failed_ = true;
        for (;;) fibers()[self_].leave();
    }

    std::memory_order order_of(Site site) const {
        return site == weakening.site ? weakening.order : graph::order_of(site);
    }

    unsigned self() const { return self_; }
    Clock& view() { return threads_[self_].view; }
    std::uint32_t tick() { return ++threads_[self_].view.time[self_]; }
    unsigned pick_store(unsigned count) { return count <= 1 ? 0 : choices_.choose(count, true); }

    // A point where another thread may run. The caller goes on afterwards.
    void step() {
        if (++steps_ > kMostSteps) fail("no end in sight: a livelock");
        fibers()[self_].leave();
    }
    // The thread cannot get on until somebody else has moved.
    void yield() {
        threads_[self_].yielded = true;
        // Threads that wait for each other's sleepers: time passes.
        if (++idle_yields_ > 4 * kMostThreads) end_timed_sleeps();
        step();
    }
    void moved() { idle_yields_ = 0; }
    void block(const void* word, bool timed) {
        threads_[self_].blocked_on = word;
        threads_[self_].timed = timed;
        step();
        threads_[self_].timed = false;
    }
    void wake(const void* word, bool all) {
        std::array<unsigned, kMostThreads> asleep{};
        unsigned count = 0;
        for (unsigned thread = 0; thread < count_; ++thread) {
            if (threads_[thread].blocked_on == word) asleep[count++] = thread;
        }
        // The kernel may wake any of them.
        const unsigned first = all || count <= 1 ? 0 : choices_.choose(count, false);
        for (unsigned index = first; index < (all ? count : std::min(count, first + 1)); ++index) {
            threads_[asleep[index]].blocked_on = nullptr;
        }
    }

  private:
    static constexpr std::uint64_t kMostSteps = 20000;

    struct Thread {
        Clock view;
        const void* blocked_on = nullptr;
        bool timed = false;
        bool yielded = false;
        bool finished = false;
    };
    static std::array<Fiber, kMostThreads>& fibers() {
        static std::array<Fiber, kMostThreads> all;
        return all;
    }
    bool pick_thread();
    bool end_timed_sleeps() {
        bool any = false;
        for (Thread& thread : threads_) {
            if (!thread.blocked_on || !thread.timed) continue;
            thread.blocked_on = nullptr;
            any = true;
        }
        idle_yields_ = 0;
        return any;
    }

    Choices& choices_;
    std::array<Thread, kMostThreads> threads_{};
    unsigned count_ = 0;
    unsigned self_ = 0;
    unsigned idle_yields_ = 0;
    bool failed_ = false;
    bool running_ = false;
    std::string what_;
    std::uint64_t steps_ = 0;
};

inline bool acquires(std::memory_order order) {
    return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
}
inline bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
}

struct ModelSeam {
    static constexpr std::uint32_t kInlineFanin = 2;
    static constexpr std::uint32_t kWide = 2;
    static constexpr std::uint32_t kGrains = 1;
    static constexpr std::uint32_t kLargestGrain = 2;
    struct ThreadEnd {};

    // Threads go to sleep at once; whether they would have seen the news before is up to the order of steps.
    struct Patience {
        explicit Patience(bool) {}
        static bool wait() { return false; }
        static void reset() {}
    };

    template <class T>
    class Atomic {
      public:
        Atomic() : Atomic(T{}) {}
        explicit Atomic(T value) { stores_.push_back({value, 0, 0, {}}); }

        T load(Site site) const {
            Machine& machine = *Machine::active;
            machine.step();
            const std::memory_order order = machine.order_of(site);
            const std::size_t newest = stores_.size() - 1;
            std::size_t oldest = seen_[machine.self()];
            // Nothing older than what happened before this load.
            for (std::size_t index = newest; index > oldest; --index) {
                if (machine.view().time[stores_[index].thread] >= stores_[index].time) {
                    oldest = index;
                    break;
                }
            }
            if (order == std::memory_order_seq_cst && last_seq_cst_ > oldest) oldest = last_seq_cst_;
            const auto options = static_cast<unsigned>(newest - oldest + 1);
            const std::size_t index = newest - machine.pick_store(options < 4 ? options : 4);
            seen_[machine.self()] = index;
            if (acquires(order)) machine.view().join(stores_[index].published);
            return stores_[index].value;
        }

        void store(T value, Site site) {
            Machine& machine = *Machine::active;
            machine.step();
            append(value, machine.order_of(site), Clock{});
        }
        T exchange(T value, Site site) {
            return modify(site, [value](T) { return value; });
        }
        T fetch_add(T value, Site site) {
            return modify(site, [value](T old) { return static_cast<T>(old + value); });
        }
        T fetch_sub(T value, Site site) {
            return modify(site, [value](T old) { return static_cast<T>(old - value); });
        }
        T fetch_or(T value, Site site) {
            return modify(site, [value](T old) { return static_cast<T>(old | value); });
        }
        bool compare_exchange(T& expected, T desired, Site site) {
            Machine& machine = *Machine::active;
            machine.step();
            const std::memory_order order = machine.order_of(site);
            const Store& newest = stores_.back();
            if (newest.value == expected) {
                if (acquires(order)) machine.view().join(newest.published);
                append(desired, order, Clock(newest.published));
                return true;
            }
            expected = newest.value;
            seen_[machine.self()] = stores_.size() - 1;
            if (acquires(graph::order_of_failure(order))) machine.view().join(newest.published);
            return false;
        }

        // What the kernel sees when it checks a futex word, and plain inspection by a test.
        T newest() const { return stores_.back().value; }

      private:
        struct Store {
            T value;
            unsigned thread;
            std::uint32_t time;
            Clock published;
        };

        template <class Change>
        T modify(Site site, Change&& change) {
            Machine& machine = *Machine::active;
            machine.step();
            const std::memory_order order = machine.order_of(site);
            const T old = stores_.back().value;
            const Clock carried = stores_.back().published;
            if (acquires(order)) machine.view().join(carried);
            append(change(old), order, carried);
            return old;
        }

        void append(T value, std::memory_order order, const Clock& carried) {
            Machine& machine = *Machine::active;
            machine.moved();
            Store entry{value, machine.self(), machine.tick(), carried};
            if (releases(order)) entry.published.join(machine.view());
            stores_.push_back(entry);
            seen_[machine.self()] = stores_.size() - 1;
            if (order == std::memory_order_seq_cst) last_seq_cst_ = stores_.size() - 1;
        }

        std::vector<Store> stores_;
        mutable std::array<std::size_t, kMostThreads> seen_{};
        std::size_t last_seq_cst_ = 0;
    };

    template <class T>
    class Plain {
      public:
        T get() const {
            Machine& machine = *Machine::active;
            if (machine.view().time[writer_] < written_) machine.fail("data race: read of a concurrent write");
            read_.time[machine.self()] = machine.tick();
            return value_;
        }
        void set(T value) {
            Machine& machine = *Machine::active;
            if (machine.view().time[writer_] < written_) machine.fail("data race: write over a concurrent write");
            for (unsigned thread = 0; thread < kMostThreads; ++thread) {
                if (machine.view().time[thread] < read_.time[thread])
                    machine.fail("data race: write over a concurrent read");
            }
            writer_ = machine.self();
            written_ = machine.tick();
            read_ = Clock{};
            value_ = std::move(value);
        }
        void add(T value) { set(static_cast<T>(get() + value)); }

      private:
        T value_{};
        unsigned writer_ = 0;
        std::uint32_t written_ = 0;
        mutable Clock read_{};
    };

    // A lock that hands on what its holders have seen. Waiting for it is no deviation of anybody.
    class Mutex {
      public:
        void lock() {
            Machine& machine = *Machine::active;
            machine.step();
            while (held_) machine.yield();
            held_ = true;
            machine.view().join(published_);
        }
        void unlock() {
            Machine& machine = *Machine::active;
            machine.tick();
            machine.moved();
            published_.join(machine.view());
            held_ = false;
        }

      private:
        bool held_ = false;
        Clock published_;
    };

    // As if the memory were written over: whoever still reads it races.
    template <class T>
    static void free_array(Plain<T>* array, std::uint32_t count) {
        const bool looks = array != nullptr && Machine::active->running();
        for (std::uint32_t index = 0; looks && index < count; ++index) array[index].set(T{});
        delete[] array;
    }

    static void check_index(std::uint32_t index, std::uint32_t size) {
        if (index >= size) Machine::active->fail("a slot number that is none");
    }

    static void pause() { Machine::active->yield(); }
    static void yield() { Machine::active->yield(); }
    static void park(Atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns) {
        Machine::active->step();
        if (word.newest() == expected) Machine::active->block(&word, timeout_ns != 0);
    }
    static void unpark_all(Atomic<std::uint32_t>& word) {
        Machine::active->step();
        Machine::active->wake(&word, true);
    }
    static void unpark_one(Atomic<std::uint32_t>& word) {
        Machine::active->step();
        Machine::active->wake(&word, false);
    }
};

// The thread that moves next. Going on with the same one is the ordinary choice; leaving a thread that could go on is a
// preemption.
inline bool Machine::pick_thread() {
    for (int attempt = 0; attempt < 2; ++attempt) {
        std::array<unsigned, kMostThreads> options{};
        unsigned count = 0;
        const auto can_run = [this](unsigned thread) {
            const Thread& other = threads_[thread];
            return !other.finished && !other.blocked_on && !other.yielded;
        };
        const bool stay = can_run(self_);
        // After a yield or a sleep with a limit the round goes on in order, or a run in which two threads pass the turn
        // to each other for ever would count as a fault.
        const bool costs = stay || threads_[self_].yielded || threads_[self_].timed;
        if (stay) options[count++] = self_;
        for (unsigned distance = 1; distance < count_; ++distance) {
            const unsigned thread = (self_ + distance) % count_;
            if (can_run(thread)) options[count++] = thread;
        }
        if (count != 0) {
            const unsigned next = options[count == 1 ? 0 : choices_.choose(count, costs)];
            if (next != self_) {
                for (Thread& thread : threads_) thread.yielded = false;
            }
            self_ = next;
            return true;
        }
        // Only threads that wait for others to move, or that sleep with a limit, are left: time passes.
        bool any = end_timed_sleeps();
        for (Thread& thread : threads_) any = std::exchange(thread.yielded, false) || any;
        if (!any) return false;
    }
    return false;
}

inline bool Machine::run(const std::vector<std::function<void()>>& bodies) {
    active = this;
    running_ = true;
    count_ = static_cast<unsigned>(bodies.size());
    for (unsigned thread = 0; thread < count_; ++thread) {
        // Time 1, so that nothing of one thread counts as seen by another; time 0 is the set-up, which all have seen.
        threads_[thread].view.time[thread] = 1;
        fibers()[thread].prepare([this, thread, &bodies] {
            bodies[thread]();
            threads_[thread].finished = true;
            for (;;) fibers()[thread].leave();
        });
    }
    for (;;) {
        bool all = true;
        for (unsigned thread = 0; thread < count_; ++thread) all = all && threads_[thread].finished;
        if (all) break;
        if (!pick_thread()) {
            what_ = "deadlock: every thread sleeps";
            failed_ = true;
            break;
        }
        fibers()[self_].resume();
        if (failed_) break;
    }
    running_ = false;
    return !failed_;
}

}  // namespace whet::test
