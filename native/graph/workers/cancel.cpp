// One task is cancelled alone, while a worker may be about to begin it.
#include "graph/workers/waits.hpp"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace whet::graph {

namespace {

// A full memory barrier on every running thread of this process; false where the system has none. With it those who
// run tasks pay nothing for the few who cancel one.
bool barrier_everywhere() {
#if defined(__linux__)
    static const bool quick =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0U, 0) == 0;  // once per process
    if (quick && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0U, 0) == 0) return true;
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0U, 0) == 0;
#else
    return false;
#endif
}

}  // namespace

// The worker says first what it takes up and asks then whether that is cancelled; here it is cancelled first and looked
// for then, with a barrier for both in between. So a worker that did not hear of it is seen, unless it is done with it.
bool Waits::cancel_one(TaskId task) {
    const Submitter::Hold hold(submitter_);
    const Reclaimer<MachineSeam>& tasks = submitter_.tasks();
    if (task >= tasks.head()) return false;
    const auto was_cancelled = [this, task] {
        Failure failure;
        return outcomes_.find(task, failure) && failure.cancelled;
    };
    if (tasks.done(task)) return was_cancelled();
    outcomes_.cancel_this(task);
    if (!barrier_everywhere()) return !outcomes_.withdraw(task);
    const std::uint32_t mark = tasks.slot_of(task) + 1;
    for (unsigned worker = 0; worker < workers_.count(); ++worker) {
        // It is about to decide, or has just ended: both pass.
        while (workers_.begun(worker) == mark && !tasks.done(task)) {
            if (workers_.running(worker) == mark) return !outcomes_.withdraw(task);
            thread_yield();
        }
    }
    if (!tasks.done(task)) return true;
    (void)outcomes_.withdraw(task);
    return was_cancelled();
}

}  // namespace whet::graph
