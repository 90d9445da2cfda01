// The steps of a run, given to the workers of a pool: the tasks of a step are independent, and a step begins when the
// one before it has ended. The trace of a run has the processor time of every task.
#pragma once

#include <ctime>
#include <functional>
#include <vector>

#include "graph/pool/pool.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/engine/errors.hpp"

namespace whet::msm {

enum class Stage : unsigned { scan, digits, sort, buckets, rows, bits, finish, count };
const char* stage_name(Stage stage);

// What a run obeys and reports. `tick` gets the share of the work that is done; only the calling thread calls it, and
// it must not throw.
struct Control {
    const std::atomic<bool>* cancel = nullptr;
    std::function<void(double)> tick;
    double base = 0, span = 0;  // the share before the current step, and of it
    void report(double part) const {
        if (tick) tick(base + span * part);
    }
};

struct Step {
    Stage stage;
    const char* what;  // "" for what the calling thread does alone between two steps
    unsigned first_window;
    unsigned per_window;  // tasks of a window, in order; 0 where tasks do not belong to windows
    std::vector<u64> task_ns;
};
using Trace = std::vector<Step>;

class Tasks {
  public:
    // cut_for: as many workers as the work is cut for; 0 for those of the pool.
    Tasks(graph::Pool& pool, Control obeyed, unsigned cut_for, Trace* trace)
        : control(std::move(obeyed)),
          pool_(pool),
          cut_for_(cut_for ? cut_for : pool.workers()),
          trace_(trace),
          last_ns_(trace ? cpu_ns() : 0) {}

    unsigned workers() const { return pool_.workers(); }
    unsigned cut_for() const { return cut_for_; }
    void enter(Stage stage, unsigned first_window = 0) {
        close_gap();
        stage_ = stage;
        first_window_ = first_window;
    }

    // body(task, worker) for each task.
    template <class Body>
    void step(const char* what, unsigned per_window, std::size_t tasks, Body&& body) {
        bool whole = true;
        if (!trace_) {
            whole = pool_.parallel_for(tasks, body, control.cancel);
        } else {
            close_gap();
            trace_->push_back({stage_, what, first_window_, per_window, std::vector<u64>(tasks, 0)});
            std::vector<u64>& taken = trace_->back().task_ns;
            whole = pool_.parallel_for(
                tasks,
                [&](std::size_t task, unsigned worker) {
                    const u64 begun = cpu_ns();
                    body(task, worker);
                    taken[task] = cpu_ns() - begun;
                },
                control.cancel);
            last_ns_ = cpu_ns();
        }
        if (!whole) throw_cancelled();
    }
    // The calling thread's time since the last step is one of its own.
    void close_gap() {
        if (!trace_) return;
        const u64 now = cpu_ns();
        trace_->push_back({stage_, "", first_window_, 0, {now - last_ns_}});
        last_ns_ = now;
    }

    Control control;

  private:
    static u64 cpu_ns() {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
    }

    graph::Pool& pool_;
    const unsigned cut_for_;
    Trace* const trace_;
    u64 last_ns_;
    Stage stage_ = Stage::scan;
    unsigned first_window_ = 0;
};

}  // namespace whet::msm
