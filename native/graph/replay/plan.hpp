// A task graph laid out for replays: one topological order, one successor list, whole components that one worker may
// run alone. Made once from the caller's arrays, then only read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// Sizes that tests make small.
struct PlanShape {
    // Components smaller than this are run in groups, so that a claim is paid once per group.
    std::uint32_t run_tasks = 256;
    // From this many successors on, a range is handed on instead of single tasks.
    std::uint32_t wide = 16;
    // Components larger than one part in so many stay shared, and so does the last part of the work, so that no worker
    // sits idle while another ends a long component.
    std::uint32_t parts = 16;
};

struct ReplayPlan {
    static constexpr std::int64_t kMostTasks = (std::int64_t{1} << 31) - 2;

    // Places are positions in the stored order: components one after the other, each in topological order.
    struct Node {
        std::uint32_t first_successor = 0;
        std::uint32_t successors = 0;
        std::uint32_t fan_in = 0;
        std::int32_t task = 0;
    };
    struct Arguments {
        void* const* tensors;
        const std::uint64_t* scalars;
    };

    // Checks and stores the graph. On failure the plan stays empty and the report says why.
    BuildReport build(const ReplayInput& input, std::vector<ReplayBody> table, PlanShape shape = {});

    std::uint32_t tasks() const { return static_cast<std::uint32_t>(nodes.size()); }

    std::vector<Node> nodes;
    std::vector<std::uint16_t> kinds;
    std::vector<Arguments> arguments;  // by place; empty when no task has any
    // Successor places by node; then the roots of the solo part; then the roots of the shared part.
    std::vector<std::uint32_t> successors;
    // Bit set: the node has many successors and each of them waits for it alone, so they are handed on as one range.
    std::vector<bool> wide;
    std::vector<std::uint32_t> run_start;  // solo runs: whole components, at least PlanShape::run_tasks tasks together
    std::vector<ReplayBody> bodies;
    std::uint32_t solo_end = 0;  // tasks in components that one worker runs alone when the replay may coarsen
    std::uint32_t solo_roots = 0;
    std::uint32_t shared_roots = 0;
    std::int64_t edges = 0;
    std::int64_t components = 0;

  private:
    void lay_out(const ReplayInput& input, const std::vector<std::int32_t>& order, const PlanShape& shape);
};

}  // namespace whet::graph
