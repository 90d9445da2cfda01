// What became of tasks, and threads that serve somebody who does not wait here himself: one listens for the end of
// tasks, one runs tasks in his place.
#include "graph/runtime_impl.hpp"
#include "graph/submitter/vigil.hpp"

namespace whet::graph {

// `from` moves on over what is done, so that a long list is walked once.
bool Runtime::Impl::all_done(std::span<const TaskId> tasks, std::size_t& from) const {
    while (from < tasks.size() && tasks_.done(tasks[from])) ++from;
    return from == tasks.size();
}

bool Runtime::Impl::any_done(std::span<const TaskId> tasks) const {
    for (const TaskId task : tasks) {
        if (tasks_.done(task)) return true;
    }
    return tasks.empty();
}

TaskState Runtime::Impl::state(TaskId task) const {
    if (!tasks_.done(task)) {
        for (const auto& worker : workers_) {
            const std::uint32_t running = worker->running.load(std::memory_order_relaxed);
            if (running != 0 && tasks_.task_in(running - 1) == task) return TaskState::running;
        }
        return TaskState::waiting;
    }
    if (outcomes_.forgot(task)) return TaskState::forgotten;
    Failure failure;
    if (!outcomes_.find(task, failure)) return TaskState::done;
    return failure.cancelled ? TaskState::cancelled : TaskState::failed;
}

// A worker may miss a listener that has just come, and tells listeners between its steps only. The limit of a nap makes
// both harmless.
Status Runtime::Impl::listen(std::span<const TaskId> tasks, std::uint64_t timeout_ns) {
    constexpr std::uint64_t kNapNs = 2'000'000;
    const std::uint64_t until = now_ns() + timeout_ns;
    Status status;
    bool over = false;
    const auto is_over = [&] {
        const Hold hold(*this);
        if (shut_down_) status.code = Code::shut_down;
        over = shut_down_ || any_done(tasks);
        return over;
    };
    while (!is_over() && now_ns() < until) listening_.sleep(is_over, [] { return kNapNs; });
    if (!over) status.code = Code::timed_out;
    return status;
}

void Runtime::Impl::help(std::uint64_t timeout_ns) {
    const Hold hold(*this);
    Vigil vigil(*this, {}, timeout_ns, true, false);
    for (;;) {
        if (tasks_.all_done() || shut_down_ || !vigil.pass().ok()) return;
    }
}

}  // namespace whet::graph
