// A task graph that is built once and run many times: arrays in, one topological order and one successor list out.
//
// What a replay pays per task: the call of its body. Edges cost an atomic decrement only inside components that several
// workers share; a component that one worker runs alone needs no counters at all, its stored order is enough.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/pool/pool.hpp"
#include "graph/protocol/atomics.hpp"
#include "graph/replay/plan.hpp"

namespace whet::graph {

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

template <class Seam>
struct ReplayState;
template <class Seam>
class ReplaySession;

class ReplayGraph {
  public:
    ReplayGraph();
    ~ReplayGraph();
    ReplayGraph(const ReplayGraph&) = delete;
    ReplayGraph& operator=(const ReplayGraph&) = delete;

    // Checks and stores the graph. On failure the object stays empty and the report says why. Not while a replay runs.
    BuildReport build(const ReplayInput& input, std::vector<ReplayBody> bodies);

    // Runs every task once, each after its predecessors. One replay of a graph at a time; the caller sees to that.
    // After `poll` or the time has stopped it, bodies that are running have kGrace_ns to return.
    static constexpr std::uint64_t kGrace_ns = 200'000'000;
    ReplayReport replay(Pool& pool, const ReplayOptions& options = {});

    std::int64_t tasks() const { return plan_.tasks(); }
    std::int64_t edges() const { return plan_.edges; }
    std::int64_t components() const { return plan_.components; }
    // Tasks in components that one worker runs alone when the replay may coarsen.
    std::int64_t solo_tasks() const { return plan_.solo_end; }

  private:
    using Session = ReplaySession<MachineSeam>;
    class Watchman;
    Session& begin_session(const ReplayOptions& options, unsigned count, bool solo, bool may_spin);
    bool settle();
    void finish(ReplayReport& report);

    ReplayPlan plan_;
    std::unique_ptr<ReplayState<MachineSeam>> state_;
    // Belongs to the graph, because a body that does not return may hold it longer than the caller waits.
    std::unique_ptr<Session> session_;
    bool in_session_ = false;  // while a replay runs, and as long as bodies of one that was left are running
    RegionEnd left_;           // how that one was left
};

}  // namespace whet::graph
