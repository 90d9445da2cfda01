// Whoever runs tasks: the threads of a runtime, and as worker 0 whoever waits. They run bodies, say how those failed,
// and sleep when there is nothing to do. They know Core and Outcomes, and of the submitter's only the names of tasks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/pool/threads.hpp"
#include "graph/protocol/core.hpp"
#include "graph/protocol/outcomes.hpp"
#include "graph/submitter/reclaimer.hpp"
#include "graph/task.hpp"

namespace whet::graph {

class Workers {
  public:
    Workers(const Config& config, Core<MachineSeam>& core, Outcomes<MachineSeam>& outcomes,
            const Reclaimer<MachineSeam>& tasks);
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    // As which worker this thread is in a body of this runtime, -1: it is in none.
    int worker_here() const {
        for (const Inside* here = inside_; here != nullptr; here = here->outer) {
            if (here->workers == this) return static_cast<int>(here->worker);
        }
        return -1;
    }

    // ---- their threads, each of which holds `owner`, where this lives ----

    Status start(const std::shared_ptr<void>& owner);
    void stop();
    // Whether none is left, now or within that time.
    bool await_none(std::chrono::milliseconds limit) { return threads_.await_none(limit); }
    // After stop(): with those that are left behind, in bodies that do not return, or when none is.
    void leave_all() { threads_.leave_all(); }
    void join_all() { threads_.join_all(); }

    // ---- worker 0: one thread at a time, while it waits ----

    class Seat {
      public:
        explicit Seat(Workers& of) : of_(of) {}
        // Others may sleep beside what this thread leaves in its queue.
        ~Seat() {
            if (!taken_) return;
            of_.core_.step_aside(0);
            of_.seat_.store(false, std::memory_order_release);
        }
        Seat(const Seat&) = delete;
        Seat& operator=(const Seat&) = delete;

        // Some tasks. False if there are none, or somebody else has the seat.
        bool step() {
            if (!taken_) {
                if (of_.seat_.exchange(true, std::memory_order_acquire)) return false;
                taken_ = true;
                of_.at(0).trace.begin();
            }
            return of_.step(0, of_.at_once_);
        }
        // The step ran nothing, though there was something: another's to run.
        bool is_held_back() const { return taken_ && of_.at(0).held_back; }
        void mark(Phase phase) {
            if (taken_) of_.at(0).trace.mark(phase);
        }
        // After short bodies more of them are run in a step, after long ones fewer.
        void took_long() { of_.at_once_ = 1; }
        void took_little() {
            if (of_.at_once_ < of_.steps_at_once_) of_.at_once_ *= 2;
        }

      private:
        Workers& of_;
        bool taken_ = false;
    };

    // ---- those who wait for them ----

    bool may_spin() const { return may_spin_; }
    // Until a worker runs out of work. The limit makes a missed wake-up harmless.
    void nap() {
        waiting_.sleep([] { return false; }, [] { return kNapNs; });
    }
    // Until a worker has made a step or this time is over, unless is_over() says so first.
    template <class IsOver>
    void listen(IsOver&& is_over, std::uint64_t limit_ns) {
        listening_.sleep(is_over, [limit_ns] { return limit_ns; });
    }
    // A body was interrupted: told once, to whoever waits and asks first.
    bool take_interrupt() {
        return attention_.load(std::memory_order_relaxed) && attention_.exchange(false, std::memory_order_acquire);
    }

    // ---- what they are doing ----

    unsigned count() const { return static_cast<unsigned>(workers_.size()); }
    std::uint64_t completions() const;
    bool any_running() const;
    // The slot of the body that is being run, plus one; 0: none.
    std::uint32_t running(unsigned worker) const { return at(worker).running.load(std::memory_order_relaxed); }
    // The slot of the task it took up last, plus one, until it has no more. Whoever sees another one has seen the end
    // of the last.
    std::uint32_t begun(unsigned worker) const { return at(worker).begun.load(std::memory_order_acquire); }
    const ThreadTrace& trace(unsigned worker) const { return at(worker).trace; }

  private:
    // The runtimes whose bodies this thread is in, innermost first: a body may use another runtime and run its bodies
    // while it waits. Submitting to one of them from there would wait for oneself.
    struct Inside {
        const Workers* workers;
        const Inside* outer;
        unsigned worker;
    };
    static thread_local constinit const Inside* inside_ __attribute__((tls_model("initial-exec")));

    struct alignas(64) Worker {
        explicit Worker(const Config& config) : trace(config.trace, config.trace_capacity) {}
        std::atomic<std::uint32_t> running{0};
        std::atomic<std::uint32_t> begun{0};
        std::atomic<std::uint64_t> completed{0};
        // The worker's own:
        bool lent = false;       // on_rest is due
        bool speaks = false;     // it is the one in `speaker_`
        bool held_back = false;  // what it found is another's to run, see holds_back()
        unsigned left_to = 0;    // whose it was, plus one
        unsigned beside = 0;     // bodies it may run beside that one, because they take long
        std::uint64_t seen = 0;  // how many that one had run
        ThreadTrace trace;
    };

    static constexpr unsigned kStepsAtOnce = 32;
    static constexpr std::uint64_t kNapNs = 100'000;
    static constexpr std::uint64_t kFewInNap = 3;  // bodies: who runs fewer than that during a nap runs long ones
    static constexpr unsigned kBesideAtOnce = 16;

    Worker& at(unsigned worker) { return *workers_[worker]; }
    const Worker& at(unsigned worker) const { return *workers_[worker]; }
    bool step(unsigned worker, unsigned most);
    void serve(unsigned worker);
    Status start_thread(unsigned worker, std::shared_ptr<void> owner);
    Progress execute(Core<MachineSeam>& core, unsigned worker, Worker& self, std::uint32_t slot, Slot<MachineSeam>& own,
                     bool callable);
    Progress run_body(unsigned worker, std::uint32_t slot, Slot<MachineSeam>& own);
    Progress ended_badly(std::uint32_t slot, int result, std::string message);
    void fail(std::uint32_t slot, int result, std::string message);
    void drop(std::uint32_t slot);
    void rest(Worker& self);
    void fall_silent(Worker& self);
    bool holds_back(unsigned worker, Worker& self, bool callable);
    bool leaves_to(unsigned speaker, Worker& self);
    void interrupt();
    TaskId task_in(std::uint32_t slot) { return core_.table().task_in(slot, core_.stream().submitted()); }

    const Config& config_;
    Core<MachineSeam>& core_;
    Outcomes<MachineSeam>& outcomes_;
    const Reclaimer<MachineSeam>& tasks_;
    const bool may_spin_;
    const unsigned steps_at_once_;  // tasks between two looks around; one if every phase is timed
    std::vector<std::unique_ptr<Worker>> workers_;
    std::atomic<bool> attention_{false};  // a body was interrupted: whoever waits looks up
    std::atomic<bool> stop_{false};
    std::atomic<bool> seat_{false};     // somebody is worker 0
    std::atomic<unsigned> speaker_{0};  // the worker that runs callables, plus one; see holds_back()
    unsigned at_once_ = 1;              // worker 0's: tasks it runs before it looks up
    Parking<MachineSeam> waiting_;      // see nap()
    Parking<MachineSeam> listening_;    // see listen()
    std::weak_ptr<void> owner_;
    ThreadHost threads_;
};

}  // namespace whet::graph
