// Waiting, collecting errors, the watchdog's view, and the end.
#include <algorithm>
#include <chrono>

#include "graph/runtime_impl.hpp"
#include "graph/submitter/vigil.hpp"

namespace whet::graph {

namespace {

constexpr std::uint64_t kNapNs = 100'000;
constexpr std::size_t kMostUnmet = 16;

}  // namespace

// A sleeping submitter is woken when a worker runs out of work. The limit makes a missed wake-up harmless.
void Runtime::Impl::pause_submitter(Patience& patience) {
    if (patience.wait()) return;
    waiting_.sleep([] { return false; }, [] { return kNapNs; });
}

template <class Done>
Status Runtime::Impl::wait_until(std::uint64_t timeout_ns, Watch watch, Done&& done_now) {
    flush();
    Vigil vigil(*this, watch, timeout_ns, config_.submitter_helps);
    while (!done_now()) {
        if (shut_down_) return {Code::shut_down, 0, 0, {}};
        Status status = vigil.pass();
        if (!status.ok() && !(status.code == Code::timed_out && done_now())) return status;
    }
    if (attention_.load(std::memory_order_relaxed) && attention_.exchange(false, std::memory_order_acquire)) {
        return {Code::interrupted, 0, 0, {}};
    }
    return {};
}

Status Runtime::Impl::settle(std::uint64_t timeout_ns, Watch watch) {
    return wait_until(timeout_ns, watch, [this] { return tasks_.all_done(); });
}

Status Runtime::Impl::wait_all(std::uint64_t timeout_ns, Watch watch, TaskId* collected) {
    Status status = settle(timeout_ns, watch);
    reclaim();
    if (!status.ok()) return status;
    await_references(watch);
    if (collected != nullptr && tasks_.watermark() == tasks_.head()) *collected = tasks_.head();
    return collect_error();
}

// Under `wired` a worker drops its references after it has set the completion byte, so the last of them may still be
// on their way when every byte is set. Waits until only tasks of open scopes are held.
void Runtime::Impl::await_references(Watch watch) {
    if (config_.policy != Policy::wired) return;
    Vigil vigil(*this, watch, config_.stall_ns, false);
    for (reclaim(); tasks_.tail() != tasks_.head() && tasks_.tail() < tasks_.floor(); reclaim()) {
        if (!vigil.pass().ok()) return;
    }
}

// Every task is done, and with the lock held none can come.
Status Runtime::Impl::collect_error() {
    if (tasks_.watermark() != tasks_.head()) return {};
    Status error;
    if (outcomes_.uncollected()) {
        TaskId task = kNoTask;
        Failure failure;
        if (outcomes_.collect(task, failure)) {
            error = status_of(task, failure);
        } else {
            error.code = Code::cancelled;
        }
        failed_regions_.clear();
    }
    outcomes_.forget_cancelled();
    return error;
}

Status Runtime::Impl::wait(TaskId task, std::uint64_t timeout_ns, Watch watch) {
    if (task >= tasks_.head()) return {Code::unknown_task, task, 0, {}};
    if (outcomes_.forgot(task)) return {Code::outcome_forgotten, task, 0, {}};
    Status status = wait_until(timeout_ns, watch, [this, task] { return tasks_.done(task); });
    Failure failure;
    if (status.ok() && outcomes_.find(task, failure)) status = status_of(task, failure);
    return status;
}

Status Runtime::Impl::wait_all_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    std::size_t from = 0;
    return wait_until(timeout_ns, watch, [&] { return all_done(tasks, from); });
}

Status Runtime::Impl::wait_any_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    return wait_until(timeout_ns, watch, [&] { return any_done(tasks); });
}

void Runtime::Impl::cancel() { outcomes_.cancel_below(core_.stream().submitted()); }

// Whether for stall_ns no task has run, none was done and none came. What was seen last outlives the call, so that a
// wait made of many short ones notices a stall as well.
bool Runtime::Impl::is_stalled() {
    const std::uint64_t now = now_ns();
    const std::uint64_t done_now = completions();
    if (done_now != quiet_done_ || tasks_.head() != quiet_head_ || any_running()) {
        quiet_done_ = done_now;
        quiet_head_ = tasks_.head();
        quiet_since_ns_ = now;
    }
    return now - quiet_since_ns_ > config_.stall_ns;
}

// Names the oldest task that is not done and what it waits for.
Status Runtime::Impl::stalled() {
    Status status{Code::stalled, tasks_.watermark(), 0, occupancy(Code::stalled, 0)};
    for (const Waiting& waiting : watchdog(4)) {
        status.detail += "; task " + std::to_string(waiting.task);
        status.detail += name_text(waiting.name);
        status.detail += waiting.running ? " runs" : " waits for";
        for (const TaskId producer : waiting.unmet) status.detail.append(" ").append(std::to_string(producer));
    }
    return status;
}

std::vector<Waiting> Runtime::Impl::watchdog(std::size_t most) {
    std::vector<Waiting> found;
    const std::uint64_t now = now_ns();
    for (unsigned number = 0; number < workers_.size(); ++number) {
        Worker& worker = *workers_[number];
        const std::uint32_t running = worker.running.load(std::memory_order_relaxed);
        const TaskId task = running == 0 ? kNoTask : tasks_.task_in(running - 1);
        if (task != worker.seen_task) {
            worker.seen_task = task;
            worker.seen_ns = now;
        }
        if (task == kNoTask || found.size() >= most) continue;
        found.push_back({task, tasks_.ledger(running - 1).name, true, number, now - worker.seen_ns, {}});
    }
    auto& table = core_.table();
    // From the oldest task not retired to the newest: ids beyond that are of earlier laps of the ring.
    for (std::uint64_t task = std::max(tasks_.tail(), tasks_.watermark());
         task < tasks_.published() && found.size() < most; ++task) {
        const std::uint32_t slot = table.slot_of(task);
        if (core_.progress(slot) != Progress::pending) continue;
        const auto same = [task](const Waiting& waiting) { return waiting.task == task; };
        if (std::any_of(found.begin(), found.end(), same)) continue;
        Waiting waiting{task, tasks_.ledger(slot).name, false, 0, 0, {}};
        const std::uint32_t count = table[slot].fanin_count.get();
        for (std::uint32_t index = 0; index < count && waiting.unmet.size() < kMostUnmet; ++index) {
            const std::uint32_t producer = table.producer(slot, index);
            if (core_.progress(producer) == Progress::pending) waiting.unmet.push_back(table.task_in(producer, task));
        }
        found.push_back(std::move(waiting));
    }
    return found;
}

// Until no worker thread is left. False at the end of the time, or with a status after an interrupt.
bool Runtime::Impl::await_threads(std::uint64_t until_ns, Watch watch, Status& status) {
    constexpr std::chrono::milliseconds kLook{20};
    while (!threads_.await_none(kLook)) {
        if (until_ns != 0 && now_ns() >= until_ns) return false;
        if (watch.interrupted == nullptr || !watch.interrupted(watch.context)) continue;
        status.code = Code::interrupted;
        return false;
    }
    return true;
}

// Several threads may do this at once, and others may wait: one of them is worker 0, all see the same end.
Status Runtime::Impl::shutdown(std::uint64_t timeout_ns, Watch watch) {
    constexpr std::uint64_t kGraceNs = 10'000'000;  // for the threads to end, when the tasks took all the time
    const std::uint64_t begun = now_ns();
    Status status;
    bool all_done = false;
    {
        const Hold hold(*this);
        if (shut_down_) return {};
        closing_ = true;
        flush();
        cancel();
        // What has not begun is cancelled here, so that on_cancelled is called for every task that does not run.
        Vigil vigil(*this, watch, timeout_ns, true);
        for (;;) {
            all_done = tasks_.all_done();
            if (all_done || shut_down_) break;
            status = vigil.pass();
            // An interrupt of a body is what has just been asked for.
            if (status.code == Code::timed_out) break;
            if (status.code == Code::interrupted && watch.interrupted != nullptr) return status;
        }
    }
    status = {};
    stop_.store(true, std::memory_order_seq_cst);
    core_.sleeping().wake_everybody();
    const std::uint64_t until = timeout_ns == 0 ? 0 : std::max(begun + timeout_ns, now_ns() + kGraceNs);
    const bool all_gone = await_threads(until, watch, status);
    if (!status.ok()) return status;
    if (all_gone) {
        threads_.join_all();
    } else {
        threads_.leave_all();
    }
    const Hold hold(*this);
    const bool first = !std::exchange(shut_down_, true);
    if (!all_gone || !all_done) return {Code::timed_out, 0, 0, "a body did not return; its thread is left behind"};
    if (first) tasks_.retire_all();
    return {};
}

Totals Runtime::Impl::totals() const {
    return {tasks_.head(), completions(),  outcomes_.failed_count(), outcomes_.cancelled_count(),
            tasks_.tail(), tasks_.edges(), tasks_.spilled()};
}

Peaks Runtime::Impl::peaks() const {
    Peaks peaks{};
    peaks.window_now = tasks_.head() - tasks_.tail();
    peaks.window_peak = tasks_.window_peak();
    peaks.window_capacity = config_.window;
    peaks.heap_now = heap_.used();
    peaks.heap_peak = heap_.peak();
    peaks.heap_capacity = heap_.capacity();
    peaks.tensormap_now = map_.used();
    peaks.tensormap_peak = map_.peak();
    peaks.tensormap_capacity = map_.capacity();
    auto& core = const_cast<Core<MachineSeam>&>(core_);
    for (unsigned worker = 0; worker < workers_.size(); ++worker)
        peaks.ready_overflows += core.queue(worker).overflowed();
    peaks.blocked_on_window = blocked_[0];
    peaks.blocked_on_heap = blocked_[1];
    peaks.blocked_on_tensormap = blocked_[2];
    return peaks;
}

}  // namespace whet::graph
