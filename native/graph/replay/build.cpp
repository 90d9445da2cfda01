// Building a replay graph: check, order, find components, renumber. Linear in tasks and edges.
#include <algorithm>
#include <numeric>

#include "graph/replay/plan.hpp"

namespace whet::graph {

namespace {

BuildReport refuse(std::string message, std::int64_t index = -1) {
    BuildReport report;
    report.ok = false;
    report.message = std::move(message);
    report.index = index;
    return report;
}

BuildReport check(const ReplayInput& input, std::size_t bodies) {
    const std::int64_t n = input.tasks;
    if (n < 0 || n > ReplayPlan::kMostTasks) return refuse("the number of tasks does not fit 31 bits");
    if (input.start[0] != 0) return refuse("the predecessor offsets do not begin with 0", 0);
    for (std::int64_t t = 0; t < n; ++t) {
        if (input.start[t + 1] < input.start[t]) return refuse("the predecessor offsets descend", t + 1);
    }
    const std::int64_t edges = input.start[n];
    if (edges > ReplayPlan::kMostTasks - n) return refuse("tasks and edges together do not fit 31 bits");
    for (std::int64_t e = 0; e < edges; ++e) {
        if (input.preds[e] < 0 || input.preds[e] >= n) return refuse("a predecessor is not a task", e);
    }
    if (bodies == 0) return refuse("the body table is empty");
    for (std::int64_t t = 0; input.kind && t < n; ++t) {
        if (input.kind[t] >= bodies) return refuse("a task names a body that is not in the table", t);
    }
    return {};
}

// A cycle among tasks that a topological sort could not place: walk predecessors until a task comes back.
std::vector<std::int32_t> find_cycle(const ReplayInput& input, const std::vector<std::uint32_t>& waiting) {
    std::int64_t at = 0;
    while (waiting[static_cast<std::size_t>(at)] == 0) ++at;
    std::vector<std::int32_t> seen(static_cast<std::size_t>(input.tasks), -1);
    std::vector<std::int32_t> walk;
    while (seen[static_cast<std::size_t>(at)] < 0) {
        seen[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(walk.size());
        walk.push_back(static_cast<std::int32_t>(at));
        std::int64_t e = input.start[at];
        while (waiting[static_cast<std::size_t>(input.preds[e])] == 0) ++e;
        at = input.preds[e];
    }
    std::vector<std::int32_t> cycle(walk.begin() + seen[static_cast<std::size_t>(at)], walk.end());
    std::reverse(cycle.begin(), cycle.end());
    cycle.push_back(cycle.front());
    return cycle;
}

// Tasks in topological order; empty when there is a cycle. Numbers that already ascend along every edge are kept.
std::vector<std::int32_t> sort_tasks(const ReplayInput& input, std::vector<std::uint32_t>& waiting) {
    const auto n = static_cast<std::size_t>(input.tasks);
    std::vector<std::int32_t> order(n);
    bool ascending = true;
    for (std::size_t t = 0; t < n && ascending; ++t) {
        for (std::int64_t e = input.start[t]; e < input.start[t + 1]; ++e) {
            ascending = ascending && input.preds[e] < static_cast<std::int64_t>(t);
        }
    }
    std::iota(order.begin(), order.end(), 0);
    if (ascending) return order;
    std::vector<std::uint32_t> begin(n + 1, 0);
    const std::int64_t edges = input.start[n];
    for (std::int64_t e = 0; e < edges; ++e) ++begin[static_cast<std::size_t>(input.preds[e]) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::int32_t> out(static_cast<std::size_t>(edges));
    std::vector<std::uint32_t> fill(begin.begin(), begin.end() - 1);
    waiting.resize(n);
    for (std::size_t t = 0; t < n; ++t) {
        waiting[t] = static_cast<std::uint32_t>(input.start[t + 1] - input.start[t]);
        for (std::int64_t e = input.start[t]; e < input.start[t + 1]; ++e) {
            out[fill[static_cast<std::size_t>(input.preds[e])]++] = static_cast<std::int32_t>(t);
        }
    }
    order.clear();
    for (std::size_t t = 0; t < n; ++t) {
        if (waiting[t] == 0) order.push_back(static_cast<std::int32_t>(t));
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto t = static_cast<std::size_t>(order[i]);
        for (std::uint32_t e = begin[t]; e < begin[t + 1]; ++e) {
            if (--waiting[static_cast<std::size_t>(out[e])] == 0) order.push_back(out[e]);
        }
    }
    if (order.size() != n) order.clear();
    return order;
}

std::uint32_t root_of(std::vector<std::uint32_t>& parent, std::uint32_t t) {
    while (parent[t] != t) {
        parent[t] = parent[parent[t]];
        t = parent[t];
    }
    return t;
}

}  // namespace

BuildReport ReplayPlan::build(const ReplayInput& input, std::vector<ReplayBody> table, PlanShape shape) {
    *this = ReplayPlan{};
    BuildReport report = check(input, table.size());
    if (!report.ok) return report;
    std::vector<std::uint32_t> waiting;
    const std::vector<std::int32_t> order = sort_tasks(input, waiting);
    if (order.empty() && input.tasks > 0) {
        report = refuse("the graph has a cycle");
        report.cycle = find_cycle(input, waiting);
        return report;
    }
    bodies = std::move(table);
    lay_out(input, order, shape);
    return report;
}

void ReplayPlan::lay_out(const ReplayInput& input, const std::vector<std::int32_t>& order, const PlanShape& shape) {
    const auto n = static_cast<std::uint32_t>(input.tasks);
    edges = input.start[n];
    std::vector<std::uint32_t> parent(n);
    std::iota(parent.begin(), parent.end(), 0U);
    for (std::uint32_t t = 0; t < n; ++t) {
        for (std::int64_t e = input.start[t]; e < input.start[t + 1]; ++e) {
            const std::uint32_t a = root_of(parent, t);
            const std::uint32_t b = root_of(parent, static_cast<std::uint32_t>(input.preds[e]));
            if (a != b) parent[std::max(a, b)] = std::min(a, b);
        }
    }
    // Components in order of their smallest task; sizes decide which ones a single worker may run.
    std::vector<std::uint32_t> component(n);
    std::vector<std::uint32_t> size;
    for (std::uint32_t t = 0; t < n; ++t) {
        const std::uint32_t root = root_of(parent, t);
        if (root == t) {
            component[t] = static_cast<std::uint32_t>(size.size());
            size.push_back(0);
        } else {
            component[t] = component[root];
        }
        ++size[component[t]];
    }
    components = static_cast<std::int64_t>(size.size());
    std::vector<std::uint32_t> place_of_component(size.size());
    std::vector<bool> solo(size.size());
    std::uint32_t at = 0;
    run_start = {0};
    for (std::size_t c = 0; c < size.size(); ++c) {
        solo[c] = size[c] <= n / shape.parts && at + size[c] <= n - n / shape.parts;
        if (!solo[c]) continue;
        place_of_component[c] = at;
        at += size[c];
        if (at - run_start.back() >= shape.run_tasks) run_start.push_back(at);
    }
    solo_end = at;
    if (run_start.back() != at) run_start.push_back(at);
    for (std::size_t c = 0; c < size.size(); ++c) {
        if (solo[c]) continue;
        place_of_component[c] = at;
        at += size[c];
    }
    std::vector<std::uint32_t> place(n);
    for (const std::int32_t t : order) place[static_cast<std::size_t>(t)] = place_of_component[component[t]]++;

    nodes.resize(n);
    kinds.assign(n, 0);
    if (input.tensors || input.scalars) arguments.resize(n);
    for (std::uint32_t t = 0; t < n; ++t) {
        Node& node = nodes[place[t]];
        node.task = static_cast<std::int32_t>(t);
        node.fan_in = static_cast<std::uint32_t>(input.start[t + 1] - input.start[t]);
        if (input.kind) kinds[place[t]] = input.kind[t];
        if (!arguments.empty()) {
            arguments[place[t]] = {input.tensors ? input.tensors + input.tensor_start[t] : nullptr,
                                   input.scalars ? input.scalars + input.scalar_start[t] : nullptr};
        }
        for (std::int64_t e = input.start[t]; e < input.start[t + 1]; ++e) {
            ++nodes[place[static_cast<std::size_t>(input.preds[e])]].successors;
        }
    }
    std::uint32_t first = 0;
    for (Node& node : nodes) {
        node.first_successor = first;
        first += node.successors;
        node.successors = 0;
    }
    successors.resize(first);
    // In place order, so that the successors of a node ascend and lie near each other.
    for (std::uint32_t p = 0; p < n; ++p) {
        const auto t = static_cast<std::size_t>(nodes[p].task);
        for (std::int64_t e = input.start[t]; e < input.start[t + 1]; ++e) {
            Node& from = nodes[place[static_cast<std::size_t>(input.preds[e])]];
            successors[from.first_successor + from.successors++] = p;
        }
    }
    wide.assign(n, false);
    for (std::uint32_t p = 0; p < n; ++p) {
        const Node& node = nodes[p];
        if (node.successors < shape.wide) continue;
        const auto* begin = successors.data() + node.first_successor;
        wide[p] = std::all_of(begin, begin + node.successors, [this](std::uint32_t s) { return nodes[s].fan_in == 1; });
    }
    for (const bool shared : {false, true}) {
        for (std::uint32_t p = shared ? solo_end : 0; p < (shared ? n : solo_end); ++p) {
            if (nodes[p].fan_in == 0) successors.push_back(p);
        }
        (shared ? shared_roots : solo_roots) = static_cast<std::uint32_t>(successors.size()) - first;
    }
    shared_roots -= solo_roots;
}

}  // namespace whet::graph
