// Where what a submitter does meets what a worker does: a body that submits, and a task that is cancelled alone.
#include <algorithm>

#include "graph/runtime_impl.hpp"

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

// The body that submits occupies its worker, so it only waits as long as others can make room. Nothing can any more
// when the oldest task that is not done is itself in here, or when every thread that could run a task is.
Status Runtime::Impl::submit_inside(TaskSpec& task, TaskId& id, Watch watch) {
    constexpr std::uint64_t kNapNs = 50'000;
    constexpr std::uint64_t kAskEveryNs = 20'000'000;
    const auto worker = static_cast<std::size_t>(worker_here());
    const Hold hold(*this);
    const TaskId own = tasks_.task_in(workers_[worker]->running.load(std::memory_order_relaxed) - 1);
    std::uint64_t asked_ns = now_ns();
    std::uint64_t moved_ns = asked_ns;
    std::uint64_t moved = completions();
    for (;;) {
        Code code = submit(task, id, {.may_wait = false});
        if (code == Code::ok) flush();
        if (code != Code::timed_out) return code == Code::ok ? Status{} : refusal();
        const std::size_t hands = config_.workers - (config_.submitter_helps ? 0 : 1);
        const std::uint64_t now = now_ns();
        if (completions() != moved) {
            moved = completions();
            moved_ns = now;
        }
        stuck_inside_.push_back(own);
        const bool stuck =
            stuck_inside_.size() >= hands || now - moved_ns > config_.stall_ns ||
            std::find(stuck_inside_.begin(), stuck_inside_.end(), tasks_.watermark()) != stuck_inside_.end();
        if (!stuck) {
            lock_.unlock();
            std::atomic<std::uint32_t> nothing{0};
            park(nothing, 0, kNapNs);
            bool interrupted = false;
            if (watch.interrupted != nullptr && now - asked_ns >= kAskEveryNs) {
                asked_ns = now;
                interrupted = watch.interrupted(watch.context);
            }
            enter();
            if (interrupted) code = Code::interrupted;
        }
        stuck_inside_.erase(std::find(stuck_inside_.begin(), stuck_inside_.end(), own));
        if (code == Code::interrupted) return {Code::interrupted, own, 0, {}};
        if (!stuck) continue;
        const bool is_window = !tasks_.has_room();
        const Code ring = is_window ? Code::window_deadlock : Code::tensormap_deadlock;
        return {ring, own, 0,
                "task " + std::to_string(own) + " submits, and room comes only when it ends; " +
                    occupancy(ring, task.tensors.size())};
    }
}

// The worker says first what it takes up and asks then whether that is cancelled; here it is cancelled first and looked
// for then, with a barrier for both in between. So a worker that did not hear of it is seen, unless it is done with it.
bool Runtime::Impl::cancel_one(TaskId task) {
    const Hold hold(*this);
    if (task >= tasks_.head()) return false;
    const auto was_cancelled = [this, task] {
        Failure failure;
        return outcomes_.find(task, failure) && failure.cancelled;
    };
    if (tasks_.done(task)) return was_cancelled();
    outcomes_.cancel_this(task);
    if (!barrier_everywhere()) return !outcomes_.withdraw(task);
    const std::uint32_t mark = core_.table().slot_of(task) + 1;
    for (const auto& worker : workers_) {
        // It is about to decide, or has just ended: both pass.
        while (worker->begun.load(std::memory_order_acquire) == mark && !tasks_.done(task)) {
            if (worker->running.load(std::memory_order_relaxed) == mark) return !outcomes_.withdraw(task);
            thread_yield();
        }
    }
    if (!tasks_.done(task)) return true;
    (void)outcomes_.withdraw(task);
    return was_cancelled();
}

}  // namespace whet::graph
