// The task-graph runtime: submit tasks while earlier ones run, dependencies given or inferred from the data.
//
// Any thread may call anything at any time, also from the body of a task of another runtime; what the submitter owns is
// behind one lock that is never held while a body runs or a thread waits. A thread that waits runs tasks meanwhile: one
// at a time does, as worker 0. A scope belongs to the thread that opened it. The core never prints and never aborts:
// every call returns a Status.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/task.hpp"

namespace whet::graph {

class Runtime {
    class Impl;

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

    // Many calls of one thread in a row, which then pay for the lock once. A code other than ok has its details in
    // refusal(), which is asked before the next call.
    class Turn {
      public:
        explicit Turn(Runtime& runtime, Watch watch = {});
        ~Turn();
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

        Code submit(TaskSpec& task, TaskId& id, bool more = true);
        Code submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more = true);
        void flush();
        Code scope_begin(ScopeMode mode);
        Code scope_end();
        Status refusal();
        std::size_t scope_depth() const;
        TaskId next_id() const;
        // Lets others go first who wait, and asks the watch, about every 20 ms; true after an interrupt.
        bool let_others_or_interrupted();

      private:
        friend class Runtime;
        Impl& impl_;
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
    explicit Runtime(std::shared_ptr<Impl> impl);
    std::shared_ptr<Impl> impl_;
};

}  // namespace whet::graph
