// The submitting side: takes tasks in, finds what they depend on, gives them memory, and retires them. Whoever holds
// its lock is the submitter, and everything here is plain memory; it meets the workers only in Core and Outcomes.
// Nothing here waits, runs a body or knows a thread: a task for which there is no room is handed back (see Waits).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/protocol/core.hpp"
#include "graph/protocol/outcomes.hpp"
#include "graph/submitter/buffers.hpp"
#include "graph/submitter/fair_lock.hpp"
#include "graph/submitter/heap_ring.hpp"
#include "graph/submitter/names.hpp"
#include "graph/submitter/reclaimer.hpp"
#include "graph/submitter/tensor_map.hpp"
#include "graph/task.hpp"

namespace whet::graph {

class Submitter {
  public:
    Submitter(const Config& config, Core<MachineSeam>& core, Outcomes<MachineSeam>& outcomes, const TaskNames& names);
    Submitter(const Submitter&) = delete;
    Submitter& operator=(const Submitter&) = delete;

    bool has_heap() const { return heap_.valid(); }
    bool is_forked() const { return born_ != fork_generation(); }

    // ---- the lock; all that follows is for its holder ----

    void enter() {
        lock_.lock();
        tasks_.find_scope();
    }
    void leave() { lock_.unlock(); }
    bool is_wanted() const { return lock_.wanted(); }

    // In a forked child, where its holder may be missing, it is not taken.
    class Hold {
      public:
        explicit Hold(Submitter& of) : of_(of), locked_(!of.is_forked()) {
            if (locked_) of_.enter();
        }
        ~Hold() {
            if (locked_) of_.leave();
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;

      private:
        Submitter& of_;
        const bool locked_;
    };

    // How far the end has come.
    enum class Stage : std::uint8_t { open, closing, shut_down };
    Stage stage() const { return stage_; }
    bool is_open() const { return stage_ == Stage::open; }
    bool is_shut_down() const { return stage_ == Stage::shut_down; }
    void advance_to(Stage stage) { stage_ = std::max(stage_, stage); }

    // ---- tasks ----

    // Enters a task, if there is room: kNoRoom otherwise, and nothing has happened. Another code than these and ok
    // leaves its details in refusal(). Workers know of the task after flush().
    static constexpr Code kNoRoom = Code::timed_out;
    Code submit(TaskSpec& task, TaskId& id);
    Status refusal() { return std::exchange(refusal_, Status{}); }
    Code refuse(Status status);

    // What a task needs of the rings beside a slot.
    struct Needs {
        std::uint64_t bytes;
        std::uint32_t regions;
    };
    const Needs& unmet() const { return unmet_; }  // of the task that was handed back just now
    // The ring that has no room for them, Code::window_deadlock and so on; or ok.
    Code lacking(const Needs& needs);
    void count_blocked(Code ring);
    // Who holds up whom, in words, for a ring that is full or a runtime that stands still.
    std::string occupancy(Code code, const Needs& needs = {}) const;

    void flush() { tasks_.flush(); }
    void flush_some() { tasks_.flush_some(kPublishEvery); }
    void reclaim();
    // The first error was collected: memory that failed tasks were to write may be used again.
    void forget_failed_memory() { failed_regions_.clear(); }

    Reclaimer<MachineSeam>& tasks() { return tasks_; }
    const Reclaimer<MachineSeam>& tasks() const { return tasks_; }
    ThreadTrace& trace() { return trace_; }
    const ThreadTrace& trace() const { return trace_; }
    Peaks peaks() const;

  private:
    using Producers = Reclaimer<MachineSeam>::Producers;

    // Memory of the caller that a failed task was to touch.
    struct FailedRegion {
        std::uint64_t base;
        Region region;
        bool writes;
    };

    static constexpr std::uint32_t kInlineArguments = 16;
    static constexpr std::uint32_t kPrefetchAhead = 8;
    static constexpr std::uint32_t kInlineTracks = 4;
    static constexpr std::uint32_t kReclaimEvery = 64;
    static constexpr std::uint32_t kPublishEvery = 32;

    bool has_rooms(const Needs& needs);
    bool is_misplaced(const TensorArg& tensor) const;
    Code refuse_tensor(const TensorArg& tensor);
    Code refuse_wrong(const TaskSpec& task);
    Code admit(const TaskSpec& task, Needs& needs);
    Code admit_late(const TaskSpec& task, const Needs& needs);
    void** place_arguments(std::uint32_t slot, const TaskSpec& task);
    void enter_tensors(TaskSpec& task, Producers& producers, std::uint64_t bytes, void** words);
    void enter_access(const TensorArg& tensor, TaskId id, Producers& producers);
    void enter_anywhere(const TensorArg& tensor, TaskId id, Producers& producers);
    void look_elsewhere(TensorArg& tensor, const std::vector<std::uint64_t>& bases, Producers& producers);
    void enter_fresh(TensorArg& tensor);
    Track& track_of(const TensorArg& tensor);
    bool meets_failed(const TensorArg& tensor) const;

    const Config& config_;
    Core<MachineSeam>& core_;
    Outcomes<MachineSeam>& outcomes_;
    const TaskNames& names_;
    const std::uint32_t born_;
    FairLock lock_;
    Stage stage_ = Stage::open;
    HeapRing heap_;
    TensorMap map_;
    BufferDirectory buffers_;
    Reclaimer<MachineSeam> tasks_;
    std::unique_ptr<Track[]> tracks_;     // kInlineTracks per slot
    std::unique_ptr<void*[]> arguments_;  // kInlineArguments per slot
    std::uint64_t reclaim_at_ = 0;        // when to look for done tasks unasked, for the tensor map's sake
    Needs unmet_{};
    std::uint64_t blocked_[3] = {};  // window, heap, tensor map
    Status refusal_;
    std::vector<FailedRegion> failed_regions_;  // until the error is collected: those that have left the map
    ThreadTrace trace_;
};

}  // namespace whet::graph
