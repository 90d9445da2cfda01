// The parts of a runtime, put together. What threads share is in Core and Outcomes, the submitting side behind the lock
// of Submitter, those who run tasks in Workers, and every wait in Waits.
#pragma once

#include <memory>

#include "graph/protocol/core.hpp"
#include "graph/protocol/outcomes.hpp"
#include "graph/runtime.hpp"
#include "graph/submitter/names.hpp"
#include "graph/submitter/submitter.hpp"
#include "graph/workers/waits.hpp"
#include "graph/workers/workers.hpp"

namespace whet::graph {

class Runtime::Impl : public std::enable_shared_from_this<Runtime::Impl> {
  public:
    explicit Impl(const Config& given);

    Status start();
    // Without the lock. Several threads may do this at once, and others may wait: one of them is worker 0, all see the
    // same end.
    Status shutdown(std::uint64_t timeout_ns, Watch watch);

    bool is_inside() const { return workers.worker_here() >= 0; }  // this thread is in a body of this runtime
    // Whether this thread of this process may call now; before it has the lock.
    Code check_caller() const {
        if (submitter.is_forked()) return Code::forked;
        return is_inside() ? Code::nested_submit : Code::ok;
    }
    // All that follow: with it. A code other than ok has its details in submitter.refusal().
    Code check_open() const { return submitter.is_open() ? Code::ok : Code::shut_down; }
    Code submit(TaskSpec& task, TaskId& id, bool more, Watch watch);
    Code scope_begin(ScopeMode mode, std::uint32_t* number);
    Code scope_end(std::uint32_t number);

    // Without the lock.
    void cancel() { outcomes.cancel_all(core); }

    const Config config;
    TaskNames names;
    Core<MachineSeam> core;
    Outcomes<MachineSeam> outcomes;
    Submitter submitter;
    Workers workers;
    Waits waits;

  private:
    bool await_threads(std::uint64_t until_ns, Watch watch, Status& status);
};

}  // namespace whet::graph
