// Submitting when there is no room.
#include <algorithm>
#include <atomic>
#include <utility>

#include "graph/workers/waits.hpp"

namespace whet::graph {

// Tasks run meanwhile. Nothing can move any more when the oldest task is pinned by a scope that only this thread can
// end: then it fails at once. The wall clock is a backstop for what cannot be foreseen.
Status Waits::make_room(Watch watch) {
    const Reclaimer<MachineSeam>& tasks = submitter_.tasks();
    const Submitter::Needs needs = submitter_.unmet();  // others submit meanwhile
    submitter_.flush();
    Vigil vigil(room_, watch, 0, config_.submitter_helps);
    Code counted = Code::ok;
    for (;;) {
        submitter_.reclaim();
        const Code ring = submitter_.lacking(needs);
        if (ring == Code::ok) return {};
        if (ring != counted) submitter_.count_blocked(ring);
        counted = ring;
        if (!submitter_.is_open()) return {Code::shut_down, 0, 0, {}};
        if (ring != Code::tensormap_deadlock && tasks.pinned_by_caller(tasks.tail())) {
            return {ring, tasks.tail(), 0, submitter_.occupancy(ring, needs)};
        }
        if (Status status = vigil.pass(); !status.ok()) return status;
    }
}

// After each wait everything is asked again: what was there may have been retired, and others may have submitted.
Code Waits::submit_later(TaskSpec& task, TaskId& id, Watch watch, TaskId expected) {
    for (;;) {
        if (Status status = make_room(watch); !status.ok()) return submitter_.refuse(std::move(status));
        if (expected != kNoTask && submitter_.tasks().head() != expected) return kOutOfOrder;
        const Code code = submitter_.submit(task, id);
        if (code != Submitter::kNoRoom) return code;
    }
}

// The body that submits occupies its worker, so it only waits as long as others can make room. Nothing can any more
// when the oldest task that is not done is itself in here, or when every thread that could run a task is.
Status Waits::submit_inside(TaskSpec& task, TaskId& id, Watch watch) {
    constexpr std::uint64_t kNapNs = 50'000;
    constexpr std::uint64_t kAskEveryNs = 20'000'000;
    const auto worker = static_cast<unsigned>(workers_.worker_here());
    const Submitter::Hold hold(submitter_);
    const Reclaimer<MachineSeam>& tasks = submitter_.tasks();
    const TaskId own = tasks.task_in(workers_.running(worker) - 1);
    std::uint64_t asked_ns = now_ns();
    std::uint64_t moved_ns = asked_ns;
    std::uint64_t moved = workers_.completions();
    for (;;) {
        const Code code = submitter_.submit(task, id);
        if (code == Code::ok) {
            submitter_.flush();
            return {};
        }
        if (code != Submitter::kNoRoom) return submitter_.refusal();
        const std::size_t hands = config_.workers - (config_.submitter_helps ? 0 : 1);
        const std::uint64_t now = now_ns();
        if (workers_.completions() != moved) {
            moved = workers_.completions();
            moved_ns = now;
        }
        stuck_inside_.push_back(own);
        const bool stuck =
            stuck_inside_.size() >= hands || now - moved_ns > config_.stall_ns ||
            std::find(stuck_inside_.begin(), stuck_inside_.end(), tasks.watermark()) != stuck_inside_.end();
        bool interrupted = false;
        if (!stuck) {
            submitter_.leave();
            std::atomic<std::uint32_t> nothing{0};
            park(nothing, 0, kNapNs);
            if (watch.interrupted != nullptr && now - asked_ns >= kAskEveryNs) {
                asked_ns = now;
                interrupted = watch.interrupted(watch.context);
            }
            submitter_.enter();
        }
        stuck_inside_.erase(std::find(stuck_inside_.begin(), stuck_inside_.end(), own));
        if (interrupted) return {Code::interrupted, own, 0, {}};
        if (!stuck) continue;
        const Submitter::Needs& needs = submitter_.unmet();
        const Code ring = submitter_.lacking(needs);
        return {ring, own, 0,
                "task " + std::to_string(own) + " submits, and room comes only when it ends; " +
                    submitter_.occupancy(ring, needs)};
    }
}

}  // namespace whet::graph
