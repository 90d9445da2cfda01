// The one place for what became of tasks that failed or were cancelled, and for what is not to begin any more. A task's
// outcome stays after its slot is reused and after the first error has been collected: whoever asks for the task later
// gets its own error, and whoever consumes its output is cancelled. Workers write before they publish the task as
// failed; anybody may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include "graph/plants.hpp"
#include "graph/protocol/core.hpp"
#include "graph/protocol/failure.hpp"

namespace whet::graph {

template <class Seam>
class Outcomes {
  public:
    // The oldest beyond these are forgotten, so that a runtime that fails for ever does not grow for ever.
    static constexpr std::size_t kMost = std::size_t{1} << 20;

    // Both come before the byte that says failed. `first`: it may be the error that a wait for all tasks returns.
    void fail(std::uint64_t task, Failure failure, bool first = true) {
        failed_count_.fetch_add(1, Site::failure_count);
        add(task, std::move(failure), first);
    }
    void cancel_one(std::uint64_t task, std::uint32_t name) {
        cancelled_count_.fetch_add(1, Site::failure_count);
        add(task, {0, name, true, {}}, false);
    }

    // For tasks that are done.
    bool has(std::uint64_t task) const {
        if (task >= end_.load(Site::failure_look)) return false;
        const std::lock_guard guard(lock_);
        return known_.count(task) != 0;
    }
    bool find(std::uint64_t task, Failure& failure) const {
        if (task >= end_.load(Site::failure_look)) return false;
        const std::lock_guard guard(lock_);
        const auto place = known_.find(task);
        if (place == known_.end()) return false;
        failure = place->second;
        return true;
    }

    // Tasks from here on have not failed.
    std::uint64_t end() const { return end_.load(Site::failure_look); }
    // What became of tasks below is not known.
    std::uint64_t forgotten() const { return forgotten_.load(Site::failure_look); }
    bool forgot(std::uint64_t task) const { return task < forgotten(); }
    // Whether tasks have failed or were cancelled since the last error was collected.
    bool uncollected() const { return uncollected_.load(Site::failure_look) != 0; }
    std::uint64_t failed_count() const { return failed_count_.load(Site::failure_look); }
    std::uint64_t cancelled_count() const { return cancelled_count_.load(Site::failure_look); }

    // The first error since the last call; false if tasks were cancelled and none failed. When every task is done.
    bool collect(std::uint64_t& task, Failure& failure) {
        uncollected_.store(0, Site::failure_count);
        task = first_.take(failure);
        return task != FirstFailure<Seam>::kNone;
    }

    // Tasks below this one are not begun any more.
    void cancel_below(std::uint64_t below) {
        std::uint64_t seen = cancel_below_.load(Site::cancel_look);
        while (seen < below && !cancel_below_.compare_exchange(seen, below, Site::cancel_set)) {
        }
    }
    // All that are there.
    void cancel_all(Core<Seam>& core) { cancel_below(core.stream().submitted()); }
    // Nor are these. is_done(task) clears out those of earlier calls that had begun all the same.
    template <class IsDone>
    void cancel_these(std::span<const std::uint64_t> tasks, IsDone&& is_done) {
        const std::lock_guard guard(lock_);
        std::erase_if(cancelled_ones_, is_done);
        for (const std::uint64_t task : tasks) {
            if (!is_done(task)) cancelled_ones_.insert(task);
        }
        some_cancelled_.store(!cancelled_ones_.empty(), Site::cancel_set);
    }
    void cancel_this(std::uint64_t task) {
        const std::lock_guard guard(lock_);
        cancelled_ones_.insert(task);
        some_cancelled_.store(1, Site::cancel_set);
    }
    // Whether the task was still among those not to begin; it is not any more.
    bool withdraw(std::uint64_t task) {
        const std::lock_guard guard(lock_);
        const bool was_there = cancelled_ones_.erase(task) != 0;
        some_cancelled_.store(!cancelled_ones_.empty(), Site::cancel_set);
        return was_there;
    }
    // When every task is done.
    void forget_cancelled() {
        cancel_below_.store(0, Site::cancel_set);
        const std::lock_guard guard(lock_);
        cancelled_ones_.clear();
        some_cancelled_.store(0, Site::cancel_set);
    }

    // Whether the task, whose turn it is, must not run. Asked once for each task, just before it would begin. What is
    // hardly ever so is asked all at once, and sorted out elsewhere.
    bool bars(Core<Seam>& core, std::uint32_t slot, Slot<Seam>& own) {
        const std::uint8_t poisoned = own.poisoned.get();
        const std::uint64_t below = cancel_below_.load(Site::cancel_look);
        const std::uint32_t some = some_cancelled_.load(Site::cancel_look);
        if ((poisoned | below | some) == 0 && (!core.wires() || end_.load(Site::failure_look) == 0)) [[likely]]
            return false;
        return bars_now(core, slot, poisoned, below, some);
    }

  private:
    [[gnu::noinline]] bool bars_now(Core<Seam>& core, std::uint32_t slot, std::uint8_t poisoned, std::uint64_t below,
                                    std::uint32_t some) {
        bool barred = poisoned != 0 && !WHET_GRAPH_PLANT(poisoned_task_runs);
        if (below != 0) [[unlikely]] {
            const std::uint64_t end = below + (WHET_GRAPH_PLANT(cancel_below_one_more) ? 1 : 0);
            barred = barred || core.table().task_in(slot, core.stream().submitted()) < end;
        }
        if (some != 0 && !WHET_GRAPH_PLANT(cancelled_one_runs)) [[unlikely]]
            barred = barred || withdraw(core.table().task_in(slot, core.stream().submitted()));
        // Under `wired` nobody marks the consumers of a failed task.
        if (core.wires() && end_.load(Site::failure_look) != 0 && !WHET_GRAPH_PLANT(wired_ignores_failed_producer))
            barred = barred || core.producers_failed(slot);
        return barred;
    }

    void add(std::uint64_t task, Failure failure, bool first) {
        uncollected_.fetch_add(1, Site::failure_count);
        if (first) first_.keep(task, failure);
        const std::lock_guard guard(lock_);
        known_.insert_or_assign(task, std::move(failure));
        if (known_.size() > kMost) {
            forgotten_.store(known_.begin()->first + 1, Site::failure_note);
            known_.erase(known_.begin());
        }
        if (WHET_GRAPH_PLANT(failure_end_not_moved)) return;
        if (task + 1 > end_.load(Site::failure_look)) end_.store(task + 1, Site::failure_note);
    }

    template <class T>
    using Atomic = typename Seam::template Atomic<T>;
    // Looked at before every body: a line that hardly ever changes.
    alignas(64) Atomic<std::uint32_t> some_cancelled_;  // cancelled_ones_ is not empty
    Atomic<std::uint64_t> end_;
    Atomic<std::uint64_t> forgotten_;
    Atomic<std::uint32_t> uncollected_;
    Atomic<std::uint64_t> cancel_below_;
    Atomic<std::uint64_t> failed_count_;     // since the runtime was made
    Atomic<std::uint64_t> cancelled_count_;  // since the runtime was made
    mutable typename Seam::Mutex lock_;
    // Under it:
    std::map<std::uint64_t, Failure> known_;
    std::unordered_set<std::uint64_t> cancelled_ones_;
    // Not under it:
    FirstFailure<Seam> first_;
};

}  // namespace whet::graph
