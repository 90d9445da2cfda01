#include "graph/workers/watchdog.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace whet::graph {

namespace {

constexpr std::size_t kMostUnmet = 16;

}  // namespace

bool Watchdog::is_stalled() {
    const std::uint64_t now = now_ns();
    const std::uint64_t done_now = workers_.completions();
    const std::uint64_t head_now = submitter_.tasks().head();
    if (done_now != quiet_done_ || head_now != quiet_head_ || workers_.any_running()) {
        quiet_done_ = done_now;
        quiet_head_ = head_now;
        quiet_since_ns_ = now;
    }
    return now - quiet_since_ns_ > config_.stall_ns;
}

Status Watchdog::stalled() {
    Status status{Code::stalled, submitter_.tasks().watermark(), 0, submitter_.occupancy(Code::stalled)};
    for (const Waiting& waiting : look(4)) {
        status.detail += "; task " + std::to_string(waiting.task);
        status.detail += names_.behind_task(waiting.name);
        status.detail += waiting.running ? " runs" : " waits for";
        for (const TaskId producer : waiting.unmet) status.detail.append(" ").append(std::to_string(producer));
    }
    return status;
}

std::vector<Waiting> Watchdog::look(std::size_t most) {
    std::vector<Waiting> found;
    const Reclaimer<MachineSeam>& tasks = submitter_.tasks();
    const std::uint64_t now = now_ns();
    for (unsigned worker = 0; worker < workers_.count(); ++worker) {
        const std::uint32_t running = workers_.running(worker);
        const TaskId task = running == 0 ? kNoTask : tasks.task_in(running - 1);
        if (task != seen_[worker].task) seen_[worker] = {task, now};
        if (task == kNoTask || found.size() >= most) continue;
        found.push_back({task, tasks.ledger(running - 1).name, true, worker, now - seen_[worker].since_ns, {}});
    }
    auto& table = core_.table();
    // From the oldest task not retired to the newest: ids beyond that are of earlier laps of the ring.
    for (std::uint64_t task = std::max(tasks.tail(), tasks.watermark());
         task < tasks.published() && found.size() < most; ++task) {
        const std::uint32_t slot = table.slot_of(task);
        if (core_.progress(slot) != Progress::pending) continue;
        const auto same = [task](const Waiting& waiting) { return waiting.task == task; };
        if (std::any_of(found.begin(), found.end(), same)) continue;
        Waiting waiting{task, tasks.ledger(slot).name, false, 0, 0, {}};
        const std::uint32_t count = table[slot].fanin_count.get();
        for (std::uint32_t index = 0; index < count && waiting.unmet.size() < kMostUnmet; ++index) {
            const std::uint32_t producer = table.producer(slot, index);
            if (core_.progress(producer) == Progress::pending) waiting.unmet.push_back(table.task_in(producer, task));
        }
        found.push_back(std::move(waiting));
    }
    return found;
}

}  // namespace whet::graph
