// Looks at what is not done, for people and for waits that might never end. Behind the submitter's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/submitter/submitter.hpp"
#include "graph/workers/workers.hpp"

namespace whet::graph {

class Watchdog {
  public:
    Watchdog(const Config& config, Core<MachineSeam>& core, Submitter& submitter, const Workers& workers,
             const TaskNames& names)
        : config_(config),
          core_(core),
          submitter_(submitter),
          workers_(workers),
          names_(names),
          seen_(workers.count()) {}

    // Running tasks first, then the oldest that wait.
    std::vector<Waiting> look(std::size_t most);

    // Whether for stall_ns no task has run, none was done and none came. What was seen last outlives the call, so that
    // a wait made of many short ones notices a stall as well.
    bool is_stalled();
    // Names the oldest task that is not done and what it waits for.
    Status stalled();

  private:
    struct Seen {
        TaskId task = kNoTask;  // running there
        std::uint64_t since_ns = 0;
    };

    const Config& config_;
    Core<MachineSeam>& core_;
    Submitter& submitter_;
    const Workers& workers_;
    const TaskNames& names_;
    std::vector<Seen> seen_;        // by worker
    std::uint64_t quiet_done_ = 0;  // since quiet_since_ns_ completions and submissions have stood at these
    std::uint64_t quiet_head_ = 0;
    std::uint64_t quiet_since_ns_ = 0;
};

}  // namespace whet::graph
