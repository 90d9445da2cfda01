// Every call that may have to wait: for tasks, for room, for the end. Called with the submitter's lock held, which is
// given up meanwhile, unless it says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/submitter/submitter.hpp"
#include "graph/workers/vigil.hpp"
#include "graph/workers/watchdog.hpp"
#include "graph/workers/workers.hpp"

namespace whet::graph {

class Waits {
  public:
    Waits(const Config& config, Core<MachineSeam>& core, Outcomes<MachineSeam>& outcomes, Submitter& submitter,
          Workers& workers, const TaskNames& names)
        : config_(config),
          core_(core),
          outcomes_(outcomes),
          submitter_(submitter),
          workers_(workers),
          names_(names),
          watchdog_(config, core, submitter, workers, names),
          room_{core, outcomes, submitter, workers, watchdog_} {}
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;

    Watchdog& watchdog() { return watchdog_; }

    // ---- submit.cpp: for room ----

    // After Submitter::submit has said kNoRoom: the same once there is some. `expected`: kOutOfOrder, and no refusal,
    // if by then the task would get another number.
    static constexpr Code kOutOfOrder = Code::timed_out;
    Code submit_later(TaskSpec& task, TaskId& id, Watch watch, TaskId expected = kNoTask);
    // In a body of this runtime; takes the lock itself.
    Status submit_inside(TaskSpec& task, TaskId& id, Watch watch);

    // ---- wait.cpp: for tasks. timeout_ns 0: no limit ----

    Status settle(std::uint64_t timeout_ns, Watch watch);
    Status wait_all(std::uint64_t timeout_ns, Watch watch, TaskId* collected);
    Status wait(TaskId task, std::uint64_t timeout_ns, Watch watch);
    Status wait_all_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch);
    Status wait_any_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch);
    // Until everything is done or the time is over, whatever comes of it; interrupts of bodies are nothing new.
    Status drain(std::uint64_t timeout_ns, Watch watch, bool& all_done);
    // For somebody who does not wait here himself; both take the lock.
    Status listen(std::span<const TaskId> tasks, std::uint64_t timeout_ns);
    void help(std::uint64_t timeout_ns);

    TaskState state(TaskId task) const;
    // Takes the lock. True if the task has not begun and never will.
    bool cancel_one(TaskId task);

  private:
    Status make_room(Watch watch);
    template <class Done>
    Status wait_until(std::uint64_t timeout_ns, Watch watch, Done&& done);
    void await_references(Watch watch);
    Status collect_error();
    Status status_of(TaskId task, const Failure& failure) const;
    bool any_done(std::span<const TaskId> tasks) const;

    const Config& config_;
    Core<MachineSeam>& core_;
    Outcomes<MachineSeam>& outcomes_;
    Submitter& submitter_;
    Workers& workers_;
    const TaskNames& names_;
    Watchdog watchdog_;
    const WaitingRoom room_;
    std::vector<TaskId> stuck_inside_;  // tasks whose bodies wait for room, see submit_inside
};

}  // namespace whet::graph
