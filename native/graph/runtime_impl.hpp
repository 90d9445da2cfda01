// The state behind Runtime. Three owners: whoever holds the lock, here called the submitter (first part), the workers
// (second part), and what both touch, which lives in Core or is atomic.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/pool/threads.hpp"
#include "graph/protocol/core.hpp"
#include "graph/protocol/outcomes.hpp"
#include "graph/runtime.hpp"
#include "graph/submitter/buffers.hpp"
#include "graph/submitter/fair_lock.hpp"
#include "graph/submitter/heap_ring.hpp"
#include "graph/submitter/reclaimer.hpp"
#include "graph/submitter/tensor_map.hpp"

namespace whet::graph {

class Runtime::Impl : public std::enable_shared_from_this<Runtime::Impl> {
  public:
    explicit Impl(const Config& config);

    Status start();
    // Whether this thread of this process may call now; before and after it has the lock.
    Code check_caller() const;
    Code check_open() const { return closing_ ? Code::shut_down : Code::ok; }
    bool is_forked() const { return born_ != fork_generation(); }
    bool is_inside() const;  // this thread is in a body of this runtime
    int worker_here() const;

    // Holds the lock. In a forked child, where its holder may be missing, it does not.
    class Hold {
      public:
        explicit Hold(Impl& impl) : impl_(impl), locked_(!impl.is_forked()) {
            if (locked_) impl_.enter();
        }
        ~Hold() {
            if (locked_) impl_.lock_.unlock();
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;

      private:
        Impl& impl_;
        const bool locked_;
    };
    void enter() {
        lock_.lock();
        tasks_.find_scope();
    }

    // submit.cpp. A code other than ok leaves its details in refusal_. All of them are called with the lock held, and
    // give it up while they wait.
    struct Terms {
        Watch watch{};
        TaskId expected = kNoTask;  // Code::unknown_task, and no refusal, if the task would get another number
        bool may_wait = true;       // Code::timed_out if it would have to wait and may not
    };
    Code submit(TaskSpec& task, TaskId& id, const Terms& terms);
    void flush_some() { tasks_.flush_some(kPublishEvery); }
    void flush() { tasks_.flush(); }
    Status refusal() { return std::exchange(refusal_, Status{}); }
    void reclaim();

    // inside.cpp, edge of what the submitter and the workers do; without the lock
    Status submit_inside(TaskSpec& task, TaskId& id, Watch watch);
    bool cancel_one(TaskId task);

    // wait.cpp
    Status settle(std::uint64_t timeout_ns, Watch watch);
    Status wait_all(std::uint64_t timeout_ns, Watch watch, TaskId* collected);
    Status wait(TaskId task, std::uint64_t timeout_ns, Watch watch);
    Status wait_all_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch);
    Status wait_any_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch);
    void cancel();                                           // without the lock
    Status shutdown(std::uint64_t timeout_ns, Watch watch);  // without the lock
    std::vector<Waiting> watchdog(std::size_t most);

    // notice.cpp
    bool all_done(std::span<const TaskId> tasks, std::size_t& from) const;
    bool any_done(std::span<const TaskId> tasks) const;
    TaskState state(TaskId task) const;
    Status listen(std::span<const TaskId> tasks, std::uint64_t timeout_ns);
    void help(std::uint64_t timeout_ns);

    Totals totals() const;
    Peaks peaks() const;

    // Memory of the caller that a failed task was to touch.
    struct FailedRegion {
        std::uint64_t base;
        Region region;
        bool writes;
    };
    class Vigil;  // one thread's waiting

    static constexpr std::uint32_t kInlineArguments = 16;
    static constexpr unsigned kStepsAtOnce = 32;
    static constexpr std::uint32_t kPrefetchAhead = 8;
    static constexpr std::uint32_t kInlineTracks = 4;
    static constexpr std::uint32_t kReclaimEvery = 64;
    static constexpr std::uint32_t kPublishEvery = 32;

    // ---- the submitter's: behind the lock ----
    const Config config_;
    FairLock lock_;
    HeapRing heap_;
    TensorMap map_;
    BufferDirectory buffers_;
    std::unique_ptr<Track[]> tracks_;     // kInlineTracks per slot
    std::unique_ptr<void*[]> arguments_;  // kInlineArguments per slot
    std::uint64_t reclaim_at_ = 0;        // when to look for done tasks unasked, for the tensor map's sake
    std::uint64_t quiet_done_ = 0;        // since quiet_since_ns_ completions and submissions have stood at these
    std::uint64_t quiet_head_ = 0;
    std::uint64_t quiet_since_ns_ = 0;
    std::uint64_t blocked_[3] = {};  // window, heap, tensor map
    Status refusal_;
    std::vector<TaskId> stuck_inside_;          // tasks whose bodies wait for room, see submit_inside
    std::vector<FailedRegion> failed_regions_;  // until the error is collected: those that have left the map
    bool closing_ = false;                      // nothing is taken any more
    bool shut_down_ = false;
    std::unordered_map<std::string, std::uint32_t> name_numbers_;
    std::vector<std::string> names_{""};
    mutable std::mutex names_lock_;
    ThreadTrace submit_trace_;

    // ---- shared ----
    Core<MachineSeam> core_;
    Outcomes<MachineSeam> outcomes_;
    Reclaimer<MachineSeam> tasks_;  // behind the lock
    struct alignas(64) Worker {
        explicit Worker(const Config& config) : trace(config.trace, config.trace_capacity) {}
        std::atomic<std::uint32_t> running{0};  // slot of the body being run, plus one
        std::atomic<std::uint32_t> begun{0};    // slot of the task it took up last, plus one, until it has no more
        std::atomic<std::uint64_t> completed{0};
        bool lent = false;                  // the worker's: on_rest is due
        ThreadTrace trace;                  // the worker's
        std::uint64_t seen_task = kNoTask;  // the watchdog's: what it saw running, and since when
        std::uint64_t seen_ns = 0;
    };
    std::vector<std::unique_ptr<Worker>> workers_;
    std::atomic<bool> attention_{false};  // a body was interrupted: whoever waits looks up
    std::atomic<bool> stop_{false};
    std::atomic<bool> seat_{false};   // somebody is worker 0
    unsigned at_once_ = 1;            // worker 0's: tasks it runs before it looks up, fewer after long bodies
    Parking<MachineSeam> waiting_;    // submitters, until workers run out of work
    Parking<MachineSeam> listening_;  // see listen()
    const std::uint32_t born_;
    const bool may_spin_;
    const unsigned steps_at_once_;  // tasks between two looks around; one if every phase is timed

    ThreadHost threads_;

    // workers.cpp
    bool step(unsigned worker, unsigned most = 1);
    void serve(unsigned worker);
    Status start_thread(unsigned worker);
    Progress execute(unsigned worker, std::uint32_t slot);
    Progress run_body(unsigned worker, std::uint32_t slot);
    void fail(std::uint32_t slot, int result, std::string message);
    void drop(std::uint32_t slot);
    void rest(Worker& worker);
    void interrupt();
    Status status_of(TaskId task, const Failure& failure) const;
    std::string name_text(std::uint32_t name) const;
    TaskId task_in(std::uint32_t slot) { return core_.table().task_in(slot, core_.stream().submitted()); }
    bool any_running() const;
    std::uint64_t completions() const;

    // submit.cpp
    template <class Room>
    Status make_room(Code code, Watch watch, Room&& room);
    std::string occupancy(Code code, std::uint64_t wanted) const;
    Code refuse(Status status);
    bool is_misplaced(const TensorArg& tensor) const;
    Code refuse_tensor(const TensorArg& tensor);
    Code make_rooms(std::uint64_t bytes, std::uint32_t regions, Watch watch);
    bool has_rooms(std::uint64_t bytes, std::uint32_t regions);
    Code admit(const TaskSpec& task, std::uint64_t& bytes, std::uint32_t& regions, const Terms& terms);
    Code admit_later(const TaskSpec& task, std::uint64_t bytes, std::uint32_t regions, const Terms& terms);
    Code refuse_wrong(const TaskSpec& task);
    void** place_arguments(std::uint32_t slot, const TaskSpec& task);
    using Producers = Reclaimer<MachineSeam>::Producers;
    void enter_tensors(TaskSpec& task, Producers& producers, std::uint64_t bytes, void** words);
    void enter_access(const TensorArg& tensor, Producers& producers);
    void enter_anywhere(const TensorArg& tensor, Producers& producers);
    void look_elsewhere(TensorArg& tensor, const std::vector<std::uint64_t>& bases, Producers& producers);
    void enter_fresh(TensorArg& tensor);
    Track& track_of(const TensorArg& tensor);
    bool meets_failed(const TensorArg& tensor) const;

    // wait.cpp
    template <class Done>
    Status wait_until(std::uint64_t timeout_ns, Watch watch, Done&& done);
    void pause_submitter(Patience& patience);
    bool is_stalled();
    Status stalled();
    Status collect_error();
    void await_references(Watch watch);
    bool await_threads(std::uint64_t until_ns, Watch watch, Status& status);
};

}  // namespace whet::graph
