// The task-graph runtime: submit tasks while earlier ones run, dependencies given or inferred from the data.
//
// Any thread may call anything at any time, also from the body of a task of another runtime; what the submitter owns is
// behind one lock that is never held while a body runs or a thread waits. A thread that waits runs tasks meanwhile: one
// at a time does, as worker 0. A scope belongs to the thread that opened it. The core never prints and never aborts:
// every call returns a Status.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/errors.hpp"
#include "graph/protocol/slots.hpp"
#include "graph/protocol/trace.hpp"
#include "graph/submitter/region.hpp"

namespace whet::graph {

using TaskId = std::uint64_t;  // counts submissions from 0
inline constexpr TaskId kNoTask = ~TaskId{0};

enum class Direction : std::uint8_t {
    in,            // reads
    out,           // the runtime allocates it from the heap ring and fills in `base` and `owner`; see `fresh`
    inout,         // reads and writes
    out_existing,  // overwrites memory that exists
    nodep,         // passed on; only its owner is waited for
};

// Lifetime of heap outputs: to the end of the scope and of the last consumer, or of the last submitted consumer alone.
// Outside every scope both mean the latter.
enum class Retain : std::uint8_t { scope, consumers };

enum class ScopeMode : std::uint8_t { automatic, manual };

// What a body is, for traces; the core runs all of them through `body`.
enum class Kind : std::uint8_t { barrier, native, kernel, callable };

struct TensorArg {
    void* base = nullptr;     // start of the buffer; identifies it. Filled in for Direction::out
    Region region{};          // bytes of the buffer that are touched; for Direction::out set by the runtime
    std::uint64_t bytes = 0;  // Direction::out: how much to allocate
    TaskId owner = kNoTask;   // the task whose output this is. Filled in for Direction::out
    Direction direction = Direction::in;
    // Memory of the caller:
    bool fresh = false;              // with Direction::out: `bytes` at `base` that nobody has used yet
    bool apart = false;              // no other base reaches these bytes: they are looked up by `base` alone
    std::uint64_t buffer_bytes = 0;  // how much memory is known to begin at `base`; 0: only what is touched
    TaskId made_by = kNoTask;        // the task that made it: waited for, and if it failed this task does not run
};

// Asked about every 20 ms by a thread that waits, which holds no lock then. True ends the wait with Code::interrupted
// and cancels what has not begun.
struct Watch {
    bool (*interrupted)(void* context) = nullptr;
    void* context = nullptr;
};

struct TaskSpec {
    Body body = nullptr;  // null: nothing to run, a barrier
    void* user = nullptr;
    Kind kind = Kind::barrier;
    std::uint32_t name = 0;  // index of name_task(), 0: unnamed
    std::span<TensorArg> tensors{};
    std::span<const std::uint64_t> scalars{};
    std::span<const TaskId> dependencies{};
};

struct Config {
    Policy policy = Policy::hybrid;
    WakeTarget wake_target = WakeTarget::last;
    unsigned workers = 0;  // with the submitting thread; 0: one per core
    std::uint32_t window = 16384;
    std::uint64_t heap_bytes = std::uint64_t{256} << 20;
    std::uint64_t output_align = 64;
    std::uint32_t ready_capacity = 1024;  // per worker; what exceeds it spills into a list
    std::uint32_t tensormap_capacity = 65536;
    Retain retain = Retain::scope;
    std::uint32_t longest_run = 32;  // tasks a worker claims at once
    bool submitter_helps = true;     // the submitting thread runs tasks while it waits (always with one worker)
    std::uint64_t stall_ns = 10'000'000'000;  // no task running, none done for so long: stalled
    TraceLevel trace = TraceLevel::off;
    std::uint32_t trace_capacity = 1 << 16;  // records per thread, the newest are kept
    bool record_edges = false;
    // Called instead of a body, once, for a task that is cancelled; for releasing what `user` stands for.
    void (*on_cancelled)(void* user, Kind kind) = nullptr;
    // Called after one or several bodies of Kind::callable in a row, by the thread that ran them, before it does
    // anything that may take time; for giving back what they share.
    void (*on_rest)() = nullptr;
    // Dropped when the last thread that may run a body is gone; for what bodies use.
    std::shared_ptr<void> keep{};
};

struct Edge {
    TaskId producer;
    TaskId consumer;
    enum class Source : std::uint8_t { owner, data, given } source;
};

// Occupancy now and at its highest, to size the rings by.
struct Peaks {
    std::uint64_t window_now, window_peak, window_capacity;
    std::uint64_t heap_now, heap_peak, heap_capacity;
    std::uint64_t tensormap_now, tensormap_peak, tensormap_capacity;
    std::uint64_t ready_overflows;
    std::uint64_t blocked_on_window, blocked_on_heap, blocked_on_tensormap;  // times the submitter had to wait
};

struct Totals {
    std::uint64_t submitted, completed, failed, cancelled, retired, edges, spilled_fanins;
};

// Where a task is. `forgotten`: done so long ago, and so many failed since, that its outcome is not known.
enum class TaskState : std::uint8_t { waiting, running, done, failed, cancelled, forgotten };

// One task that is not done, for the watchdog.
struct Waiting {
    TaskId task;
    std::uint32_t name;
    bool running;
    unsigned worker;            // where it runs
    std::uint64_t running_ns;   // how long
    std::vector<TaskId> unmet;  // producers it waits for, at most 16
};

class Runtime {
  public:
    // Makes a runtime or says why not.
    static Status make(const Config& config, std::unique_ptr<Runtime>& runtime);
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    const Config& config() const;

    // Registers a name; the same text gives the same number.
    std::uint32_t name_task(const std::string& name);
    std::string name_of(std::uint32_t name) const;

    // Submits one task. Blocks while rings are full, running tasks meanwhile; a body of this runtime that submits runs
    // none, and is refused where only its own end could make room. With `more` the caller promises to go on
    // submitting or to call flush() at once: workers are told in groups, which is cheaper.
    Status submit(TaskSpec& task, TaskId& id, bool more = false, Watch watch = {});
    // The same if it need not wait: false otherwise, and nothing has happened. Runs no tasks.
    bool submit_at_once(TaskSpec& task, TaskId& id, Status& status);
    Status flush();
    // Submits in order; `first` is the id of the first, ids are consecutive. On an error `submitted` tells how many
    // went in. `dependencies` may name tasks of the same call by the ids they will get: next_id() + index. If another
    // thread's task came in between, it ends there, without an error. `more` as in submit().
    Status submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more = false,
                       Watch watch = {});
    TaskId next_id() const;

    // Many calls of one thread in a row, which then pay for the lock once.
    class Turn {
      public:
        explicit Turn(Runtime& runtime, Watch watch = {});
        ~Turn();
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

        Status submit(TaskSpec& task, TaskId& id, bool more = true);
        Status submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more = true);
        void flush();
        Status scope_begin(ScopeMode mode);
        Status scope_end();
        std::size_t scope_depth() const;
        TaskId next_id() const;
        // Lets others go first who wait, and asks the watch, about every 20 ms; true after an interrupt.
        bool let_others_or_interrupted();

      private:
        Runtime& runtime_;
        const Watch watch_;
        Code refused_;
        std::uint64_t asked_ns_ = 0;
    };

    // Completed heap allocation without a task body: `bytes[i]` into `tensors[i]`.
    Status alloc(std::span<TensorArg> tensors, TaskId& id);

    // `number` names the scope. 0 ends the innermost one of this thread.
    Status scope_begin(ScopeMode mode, std::uint32_t* number = nullptr);
    Status scope_end(std::uint32_t number = 0);
    std::size_t scope_depth() const;  // of this thread

    // Both run tasks meanwhile. timeout_ns 0: no limit. wait_all returns the first error since the last wait_all and
    // clears it; wait returns what became of that task, now and later: task_failed, cancelled or ok. `collected`
    // becomes the number of tasks whose errors this call has cleared, those before it.
    Status wait_all(std::uint64_t timeout_ns = 0, Watch watch = {}, TaskId* collected = nullptr);
    Status wait(TaskId task, std::uint64_t timeout_ns = 0, Watch watch = {});
    // The same until every task is done, and leaves errors where they are.
    Status settle(std::uint64_t timeout_ns = 0, Watch watch = {});
    bool done(TaskId task) const;
    // Until all of the tasks are done, or any of them. Leaves their errors where they are.
    Status wait_all_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns = 0, Watch watch = {});
    Status wait_any_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns = 0, Watch watch = {});
    // `states[i]` becomes that of `tasks[i]`.
    void look(std::span<const TaskId> tasks, TaskState* states) const;

    // For threads that serve somebody who does not wait here, such as an event loop; both may come back early.
    // listen() takes no part: until any of the tasks is done, or the runtime is shut down, which it then returns.
    // help() runs tasks as worker 0 until all are done. Errors and interrupts are left to those who wait.
    Status listen(std::span<const TaskId> tasks, std::uint64_t timeout_ns);
    void help(std::uint64_t timeout_ns);

    // Tasks that are there and have not begun are cancelled; running ones finish.
    void cancel();
    // The same for these alone. A body that begins meanwhile runs.
    void cancel_these(std::span<const TaskId> tasks);
    // True if this task has not begun and never will; what depends on it does not run either.
    bool cancel_one(TaskId task);

    // Ends all workers. Tasks that have not begun are cancelled. If a body does not return within timeout_ns (0: no
    // limit) its thread is left behind with what it needs and the result is timed_out. After an interrupt it may be
    // called again. The destructor waits without limit unless this was called; in a body of this runtime it leaves
    // that to a thread of its own.
    Status shutdown(std::uint64_t timeout_ns = 0, Watch watch = {});
    // Code::forked in a child of the process that made it, where nothing else may be called.
    Code usable() const;

    Peaks peaks() const;
    Totals totals() const;
    std::vector<Waiting> watchdog(std::size_t most = 16) const;
    std::vector<PhaseCounters> phases() const;
    // These after wait_all() alone.
    std::vector<TraceRecord> trace(unsigned worker) const;
    std::vector<Edge> edges() const;

  private:
    class Impl;
    explicit Runtime(std::shared_ptr<Impl> impl);
    std::shared_ptr<Impl> impl_;
};

}  // namespace whet::graph
