// Waiting for tasks, and what became of them.
#include <string>

#include "graph/workers/waits.hpp"

namespace whet::graph {

template <class Done>
Status Waits::wait_until(std::uint64_t timeout_ns, Watch watch, Done&& done_now) {
    submitter_.flush();
    Vigil vigil(room_, watch, timeout_ns, config_.submitter_helps);
    while (!done_now()) {
        if (submitter_.is_shut_down()) return {Code::shut_down, 0, 0, {}};
        Status status = vigil.pass();
        if (!status.ok() && !(status.code == Code::timed_out && done_now())) return status;
    }
    return {workers_.take_interrupt() ? Code::interrupted : Code::ok, 0, 0, {}};
}

Status Waits::settle(std::uint64_t timeout_ns, Watch watch) {
    return wait_until(timeout_ns, watch, [this] { return submitter_.tasks().all_done(); });
}

Status Waits::wait_all(std::uint64_t timeout_ns, Watch watch, TaskId* collected) {
    Status status = settle(timeout_ns, watch);
    submitter_.reclaim();
    if (!status.ok()) return status;
    await_references(watch);
    const Reclaimer<MachineSeam>& tasks = submitter_.tasks();
    if (collected != nullptr && tasks.watermark() == tasks.head()) *collected = tasks.head();
    return collect_error();
}

// Under `wired` a worker drops its references after it has set the completion byte, so the last of them may still be
// on their way when every byte is set. Waits until only tasks of open scopes are held.
void Waits::await_references(Watch watch) {
    if (config_.policy != Policy::wired) return;
    const Reclaimer<MachineSeam>& tasks = submitter_.tasks();
    Vigil vigil(room_, watch, config_.stall_ns, false);
    for (submitter_.reclaim(); tasks.tail() != tasks.head() && tasks.tail() < tasks.floor(); submitter_.reclaim()) {
        if (!vigil.pass().ok()) return;
    }
}

Status Waits::status_of(TaskId task, const Failure& failure) const {
    const Code code = failure.cancelled ? Code::cancelled : Code::task_failed;
    Status status{code, task, failure.result, "task " + std::to_string(task) + names_.behind_task(failure.name)};
    if (failure.cancelled) {
        status.detail += " was not begun: a task it depends on failed, or it was cancelled";
    } else {
        status.detail +=
            failure.message.empty() ? " returned " + std::to_string(failure.result) : ": " + failure.message;
    }
    return status;
}

// Every task is done, and with the lock held none can come.
Status Waits::collect_error() {
    if (submitter_.tasks().watermark() != submitter_.tasks().head()) return {};
    Status error;
    if (outcomes_.uncollected()) {
        TaskId task = kNoTask;
        Failure failure;
        if (outcomes_.collect(task, failure)) {
            error = status_of(task, failure);
        } else {
            error.code = Code::cancelled;
        }
        submitter_.forget_failed_memory();
    }
    outcomes_.forget_cancelled();
    return error;
}

Status Waits::wait(TaskId task, std::uint64_t timeout_ns, Watch watch) {
    if (task >= submitter_.tasks().head()) return {Code::unknown_task, task, 0, {}};
    if (outcomes_.forgot(task)) return {Code::outcome_forgotten, task, 0, {}};
    Status status = wait_until(timeout_ns, watch, [this, task] { return submitter_.tasks().done(task); });
    Failure failure;
    if (status.ok() && outcomes_.find(task, failure)) status = status_of(task, failure);
    return status;
}

Status Waits::wait_all_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    std::size_t from = 0;  // moves on over what is done, so that a long list is walked once
    return wait_until(timeout_ns, watch, [this, tasks, &from] {
        while (from < tasks.size() && submitter_.tasks().done(tasks[from])) ++from;
        return from == tasks.size();
    });
}

Status Waits::wait_any_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    return wait_until(timeout_ns, watch, [this, tasks] { return any_done(tasks); });
}

bool Waits::any_done(std::span<const TaskId> tasks) const {
    for (const TaskId task : tasks) {
        if (submitter_.tasks().done(task)) return true;
    }
    return tasks.empty();
}

Status Waits::drain(std::uint64_t timeout_ns, Watch watch, bool& all_done) {
    Vigil vigil(room_, watch, timeout_ns, true);
    for (;;) {
        all_done = submitter_.tasks().all_done();
        if (all_done || submitter_.is_shut_down()) return {};
        const Status status = vigil.pass();
        if (status.code == Code::timed_out) return {};
        if (status.code == Code::interrupted && watch.interrupted != nullptr) return status;
    }
}

// A worker may miss a listener that has just come, and tells listeners between its steps only. The limit of a nap makes
// both harmless.
Status Waits::listen(std::span<const TaskId> tasks, std::uint64_t timeout_ns) {
    constexpr std::uint64_t kNapNs = 2'000'000;
    const std::uint64_t until = now_ns() + timeout_ns;
    Status status;
    bool over = false;
    const auto is_over = [&] {
        const Submitter::Hold hold(submitter_);
        if (submitter_.is_shut_down()) status.code = Code::shut_down;
        over = submitter_.is_shut_down() || any_done(tasks);
        return over;
    };
    while (!is_over() && now_ns() < until) workers_.listen(is_over, kNapNs);
    if (!over) status.code = Code::timed_out;
    return status;
}

void Waits::help(std::uint64_t timeout_ns) {
    const Submitter::Hold hold(submitter_);
    Vigil vigil(room_, {}, timeout_ns, true, false);
    for (;;) {
        if (submitter_.tasks().all_done() || submitter_.is_shut_down() || !vigil.pass().ok()) return;
    }
}

TaskState Waits::state(TaskId task) const {
    const Reclaimer<MachineSeam>& tasks = submitter_.tasks();
    if (!tasks.done(task)) {
        for (unsigned worker = 0; worker < workers_.count(); ++worker) {
            const std::uint32_t running = workers_.running(worker);
            if (running != 0 && tasks.task_in(running - 1) == task) return TaskState::running;
        }
        return TaskState::waiting;
    }
    if (outcomes_.forgot(task)) return TaskState::forgotten;
    Failure failure;
    if (!outcomes_.find(task, failure)) return TaskState::done;
    return failure.cancelled ? TaskState::cancelled : TaskState::failed;
}

}  // namespace whet::graph
