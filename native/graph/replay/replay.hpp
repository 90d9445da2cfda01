// A task graph that is built once and run many times: arrays in, one topological order and one successor list out.
//
// What a replay pays per task: the call of its body. Edges cost an atomic decrement only inside components that several
// workers share; a component that one worker runs alone needs no counters at all, its stored order is enough.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/pool/pool.hpp"

namespace whet::graph {

// The same body as a submitted task has: tensor addresses, scalar words, the pointer of its table row. Nonzero fails
// the task. A body must not throw. A null call is a barrier.
struct ReplayBody {
    int (*call)(void* const* tensors, const std::uint64_t* scalars, void* user) = nullptr;
    void* user = nullptr;
};

// Arrays as the caller has them. Predecessors of task t: preds[start[t]] .. preds[start[t + 1]]; they and `kind` are
// read during build only. Tensor addresses and scalar words are laid out the same way, stay the caller's and are read
// at every replay; without them a body gets no tensors, and its own task number as the only scalar.
struct ReplayInput {
    std::int64_t tasks = 0;
    const std::int64_t* start = nullptr;
    const std::int64_t* preds = nullptr;
    const std::uint16_t* kind = nullptr;  // index into the body table; null: all 0
    void* const* tensors = nullptr;
    const std::int64_t* tensor_start = nullptr;
    const std::uint64_t* scalars = nullptr;
    const std::int64_t* scalar_start = nullptr;
};

struct BuildReport {
    bool ok = true;
    std::string message;              // empty when ok
    std::int64_t index = -1;          // first bad element
    std::vector<std::int32_t> cycle;  // t0 -> t1 -> .. -> t0, each the predecessor of the next
};

struct ReplaySpan {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::int32_t worker = -1;
};

// The first task that failed, and how: by the status it returned, or in words where it threw or ended its thread.
struct ReplayFailure {
    std::int32_t task = -1;
    std::int32_t status = 0;
    std::string message;
};

// A body that was running when the replay ran out of time.
struct ReplayRunning {
    std::int32_t task = -1;
    unsigned seat = 0;
    std::uint64_t seen_ns = 0;  // for how long it had been seen running
};

struct ReplayReport {
    std::int64_t executed = 0;   // bodies called
    std::int64_t cancelled = 0;  // bodies not called: a predecessor failed, or the replay was stopped
    ReplayFailure failure;
    bool stopped = false;    // by `poll`
    bool timed_out = false;  // and by `timeout_ns`
    bool stalled = false;    // and because no thread was left to run the rest
    // Bodies are still running, so nothing was counted. Until they return the graph must stay, and refuses replays.
    bool left = false;
    bool refused = false;  // nothing was done: such bodies of an earlier replay have not returned
    std::vector<ReplayRunning> running;
};

struct ReplayOptions {
    // Asked by the calling thread now and then; true ends the replay without calling further bodies.
    std::function<bool()> poll;
    // One span per task when given (size: tasks()). Stays the caller's until no body is running.
    ReplaySpan* spans = nullptr;
    // Runs whole components on one worker where there are enough of them. Off: every edge is counted.
    bool coarsen = true;
    // Not 0: the calling thread runs no body itself, so that it can return when this time is over, or when bodies end
    // the threads they run on.
    std::uint64_t timeout_ns = 0;
};

class ReplayGraph {
  public:
    static constexpr std::int64_t kMostTasks = (std::int64_t{1} << 31) - 2;

    ReplayGraph();
    ~ReplayGraph();
    ReplayGraph(const ReplayGraph&) = delete;
    ReplayGraph& operator=(const ReplayGraph&) = delete;

    // Checks and stores the graph. On failure the object stays empty and the report says why.
    BuildReport build(const ReplayInput& input, std::vector<ReplayBody> bodies);

    // Runs every task once, each after its predecessors. One replay of a graph at a time; the caller sees to that.
    // After `poll` or the time has stopped it, bodies that are running have kGrace_ns to return.
    static constexpr std::uint64_t kGrace_ns = 200'000'000;
    ReplayReport replay(Pool& pool, const ReplayOptions& options = {});

    std::int64_t tasks() const { return static_cast<std::int64_t>(nodes_.size()); }
    std::int64_t edges() const { return edges_; }
    std::int64_t components() const { return components_; }
    // Tasks in components that one worker runs alone when the replay may coarsen.
    std::int64_t solo_tasks() const { return solo_end_; }

  private:
    struct Worker;
    struct Session;
    // Places are positions in the stored order: components one after the other, each in topological order.
    struct Node {
        std::uint32_t first_successor = 0;
        std::uint32_t successors = 0;
        std::uint32_t fan_in = 0;
        std::int32_t task = 0;
    };

    ReplayGraph& operator=(ReplayGraph&&) noexcept;
    class Watchman;
    void seat_workers(unsigned count, std::size_t capacity);
    Session& begin_session(const ReplayOptions& options, unsigned count, bool solo);
    void set_out(Session& session);
    bool settle();
    void finish(ReplayReport& report);
    void lay_out(const ReplayInput& input, const std::vector<std::int32_t>& order);

    std::vector<Node> nodes_;
    std::vector<std::uint16_t> kinds_;
    struct Arguments {
        void* const* tensors;
        const std::uint64_t* scalars;
    };
    std::vector<Arguments> arguments_;  // by place; empty when no task has any
    // Successor places by node; then the roots of the solo part; then the roots of the shared part.
    std::vector<std::uint32_t> successors_;
    // Bit set: the node has many successors and each of them waits for it alone, so they are handed on as one range.
    std::vector<bool> wide_;
    std::vector<std::uint32_t> run_start_;  // solo runs: whole components, at least kRunTasks tasks together
    std::vector<ReplayBody> bodies_;
    // Arrivals. They go up in one replay and down in the next, so that nothing is reset in between.
    std::unique_ptr<std::atomic<std::uint32_t>[]> arrivals_;
    std::unique_ptr<std::atomic<std::uint8_t>[]> poisoned_;
    std::vector<std::unique_ptr<Worker>> workers_;  // kept between replays: their deques are large
    std::size_t deque_capacity_ = 0;
    std::unique_ptr<Session> session_;
    bool in_session_ = false;  // while a replay runs, and as long as bodies of one that was left are running
    RegionEnd left_;           // how that one was left
    bool poison_left_ = false;
    bool solo_down_ = false;
    bool shared_down_ = false;
    std::uint32_t solo_end_ = 0;
    std::uint32_t solo_roots_ = 0;
    std::uint32_t shared_roots_ = 0;
    std::int64_t edges_ = 0;
    std::int64_t components_ = 0;
};

}  // namespace whet::graph
