// What a runtime is told and what it tells: tasks, the data they touch, its configuration, what became of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/errors.hpp"
#include "graph/protocol/slots.hpp"
#include "graph/protocol/trace.hpp"
#include "graph/region.hpp"

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

}  // namespace whet::graph
