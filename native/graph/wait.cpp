// Waiting, collecting errors, the watchdog's view, and the end.
#include <algorithm>
#include <chrono>

#include "graph/runtime_impl.hpp"

namespace whet::graph {

namespace {

constexpr std::uint64_t kNapNs = 100'000;
constexpr std::size_t kMostUnmet = 16;

}  // namespace

// A sleeping submitter is woken when a worker runs out of work. The limit makes a missed wake-up harmless.
void Runtime::Impl::pause_submitter(Patience& patience) {
    if (patience.wait()) return;
    const std::uint32_t ticket = finished_.load(std::memory_order_acquire);
    waiting_.store(1, std::memory_order_relaxed);
    park(finished_, ticket, kNapNs);
    waiting_.store(0, std::memory_order_relaxed);
}

template <class Done>
Status Runtime::Impl::wait_until(std::uint64_t timeout_ns, unsigned at_once, Done&& done_now) {
    flush();
    const bool help = config_.submitter_helps;
    Patience patience(may_spin_);
    workers_[0]->trace.begin();
    const std::uint64_t begun = now_ns();
    Status status;
    while (!done_now()) {
        if (help && step(0, at_once)) {
            workers_[0]->trace.mark(Phase::completion);
            patience.reset();
            if (timeout_ns == 0 || now_ns() - begun < timeout_ns) continue;
        }
        pause_submitter(patience);
        workers_[0]->trace.mark(Phase::idle);
        if (is_stalled()) {
            status = stalled();
            break;
        }
        if (timeout_ns != 0 && now_ns() - begun >= timeout_ns) {
            status = {Code::timed_out, 0, 0, {}};
            break;
        }
    }
    core_.step_aside(0);
    return status;
}

Status Runtime::Impl::wait_all(std::uint64_t timeout_ns) {
    const auto all_done = [this] {
        watermark_ = core_.watermark(watermark_, published_);
        return watermark_ == head_;
    };
    Status status = wait_until(timeout_ns, timeout_ns == 0 ? steps_at_once_ : 1, all_done);
    reclaim();
    if (!status.ok()) return status;
    await_references();
    return collect_error();
}

// Under `wired` a worker drops its references after it has set the completion byte, so the last of them may still be
// on their way when every byte is set. Waits until only tasks of open scopes are held.
void Runtime::Impl::await_references() {
    if (config_.policy != Policy::wired) return;
    Patience patience(may_spin_);
    for (const std::uint64_t begun = now_ns(); now_ns() - begun < config_.stall_ns; reclaim()) {
        if (tail_ == head_ || pinned_for_ever(tail_)) return;
        pause_submitter(patience);
    }
}

// Everything is done, so nobody else touches the error state.
Status Runtime::Impl::collect_error() {
    Status error;
    if (trouble_.load(std::memory_order_relaxed) != 0) {
        const std::lock_guard<std::mutex> guard(error_lock_);
        error = std::exchange(first_error_, Status{});
        if (error.ok()) error.code = Code::cancelled;
        trouble_.store(0, std::memory_order_relaxed);
        failed_.clear();
        lost_.clear();
    }
    cancel_.store(false, std::memory_order_relaxed);
    return error;
}

Status Runtime::Impl::wait(TaskId task, std::uint64_t timeout_ns) {
    if (task >= head_) return {Code::unknown_task, task, 0, {}};
    Status status = wait_until(timeout_ns, 1, [this, task] { return done(task); });
    if (status.ok() && failed(task)) {
        const std::lock_guard<std::mutex> guard(error_lock_);
        status = first_error_;
        if (status.ok()) status.code = Code::cancelled;
    }
    return status;
}

void Runtime::Impl::cancel() { cancel_.store(true, std::memory_order_relaxed); }

// Whether for stall_ns no task has run, none was done and none came. What was seen last outlives the call, so that a
// wait made of many short ones notices a stall as well.
bool Runtime::Impl::is_stalled() {
    const std::uint64_t now = now_ns();
    const std::uint64_t done_now = completions();
    if (done_now != quiet_done_ || head_ != quiet_head_ || any_running()) {
        quiet_done_ = done_now;
        quiet_head_ = head_;
        quiet_since_ns_ = now;
    }
    return now - quiet_since_ns_ > config_.stall_ns;
}

// Names the oldest task that is not done and what it waits for.
Status Runtime::Impl::stalled() {
    Status status{Code::stalled, watermark_, 0, occupancy(Code::stalled, 0)};
    for (const Waiting& waiting : watchdog(4)) {
        status.detail += "; task " + std::to_string(waiting.task);
        if (waiting.name != 0) status.detail += " (" + names_[waiting.name] + ")";
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
        const TaskId task = running == 0 ? kNoTask : task_in(running - 1, published_);
        if (task != worker.seen_task) {
            worker.seen_task = task;
            worker.seen_ns = now;
        }
        if (task == kNoTask || found.size() >= most) continue;
        found.push_back({task, ledger_[running - 1].name, true, number, now - worker.seen_ns, {}});
    }
    auto& table = core_.table();
    // From the oldest task not retired to the newest: ids beyond that are of earlier laps of the ring.
    for (std::uint64_t task = std::max(tail_, watermark_); task < published_ && found.size() < most; ++task) {
        const std::uint32_t slot = table.slot_of(task);
        if (core_.progress(slot) != Progress::pending) continue;
        const auto same = [task](const Waiting& waiting) { return waiting.task == task; };
        if (std::any_of(found.begin(), found.end(), same)) continue;
        Waiting waiting{task, ledger_[slot].name, false, 0, 0, {}};
        const std::uint32_t count = table[slot].fanin_count.get();
        for (std::uint32_t index = 0; index < count && waiting.unmet.size() < kMostUnmet; ++index) {
            const std::uint32_t producer = table.producer(slot, index);
            if (core_.progress(producer) == Progress::pending) waiting.unmet.push_back(task_in(producer, task));
        }
        found.push_back(std::move(waiting));
    }
    return found;
}

Status Runtime::Impl::shutdown(std::uint64_t timeout_ns) {
    if (shut_down_) return {};
    cancel_.store(true, std::memory_order_relaxed);
    flush();
    // What has not begun is cancelled here, so that on_cancelled is called for every task that does not run.
    const std::uint64_t begun = now_ns();
    const auto left = [&] { return timeout_ns == 0 || now_ns() - begun < timeout_ns; };
    Patience patience(may_spin_);
    while ((watermark_ = core_.watermark(watermark_, published_)) != head_ && left()) {
        if (step(0)) {
            patience.reset();
        } else {
            pause_submitter(patience);
        }
    }
    shut_down_ = true;
    stop_.store(true, std::memory_order_seq_cst);
    core_.sleeping().announce_all();
    std::unique_lock<std::mutex> guard(threads_lock_);
    const auto gone = [this] { return live_threads_ == 0; };
    bool all_gone = true;
    if (timeout_ns == 0) {
        thread_ended_.wait(guard, gone);
    } else {
        const std::uint64_t spent = now_ns() - begun;
        const std::uint64_t rest = std::max<std::uint64_t>(timeout_ns > spent ? timeout_ns - spent : 0, 10'000'000);
        all_gone = thread_ended_.wait_for(guard, std::chrono::nanoseconds(rest), gone);
    }
    std::vector<std::thread> threads = std::move(threads_);
    threads_.clear();
    guard.unlock();
    for (std::thread& thread : threads) {
        if (all_gone) {
            thread.join();
        } else {
            thread.detach();
        }
    }
    if (!all_gone) return {Code::timed_out, 0, 0, "a body did not return; its thread is left behind"};
    for (; tail_ < head_; ++tail_) retire(tail_);
    return {};
}

Totals Runtime::Impl::totals() const {
    const std::uint64_t failed = failed_count_.load(std::memory_order_relaxed);
    const std::uint64_t cancelled = cancelled_count_.load(std::memory_order_relaxed);
    return {head_, completions(), failed, cancelled, tail_, edges_, spilled_};
}

Peaks Runtime::Impl::peaks() const {
    Peaks peaks{};
    peaks.window_now = head_ - tail_;
    peaks.window_peak = std::max(window_peak_, head_ - tail_);
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
