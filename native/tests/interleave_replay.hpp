// Replays under the checker: the plan of a small graph, its session and the regions that its seats are run in, all
// three as a pool runs them. Every task once, after its predecessors and with their data, and none behind one that
// failed.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "graph/replay/session.hpp"
#include "interleave_crew.hpp"

namespace whet::test {

struct ReplayCase {
    std::string name;
    unsigned threads = 2;
    std::vector<std::vector<std::int64_t>> predecessors{};
    bool solo = false;
    int fails = -1;       // this task does, in the first replay
    int ends = -1;        // this task ends its thread, likewise
    int fails_next = -1;  // this task fails in the second
    unsigned replays = 2;
};

inline std::vector<ReplayCase> replay_cases() {
    std::vector<ReplayCase> all;
    const std::vector<std::vector<std::int64_t>> diamond{{}, {0}, {0}, {1, 2}, {3}};
    const std::vector<std::vector<std::int64_t>> spread{{}, {0}, {0}, {0}, {0}, {0}, {0}, {1, 2, 3, 4, 5, 6}};
    const std::vector<std::vector<std::int64_t>> loose{{}, {}, {},           {},           {},    {},
                                                       {}, {}, {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}};
    const std::vector<std::vector<std::int64_t>> braid{{}, {}, {0, 1}, {0, 1}, {2, 3}, {2, 3}};
    const std::vector<std::vector<std::int64_t>> parts{{}, {0}, {}, {2}, {}, {4}, {}, {6}};
    for (const unsigned threads : {2U, 3U}) {
        all.push_back({.name = "replay of a diamond", .threads = threads, .predecessors = diamond, .replays = 3});
        all.push_back({.name = "replay of a spread", .threads = threads, .predecessors = spread});
        all.push_back({.name = "replay of joins", .threads = threads, .predecessors = loose});
        all.push_back({.name = "replay of a braid", .threads = threads, .predecessors = braid});
        all.push_back(
            {.name = "replay, failing twice", .threads = threads, .predecessors = parts, .fails = 0, .fails_next = 2});
        all.push_back({.name = "replay of parts", .threads = threads, .predecessors = parts, .solo = true});
        for (const int task : {0, 2}) {
            all.push_back(
                {.name = "replay, failing diamond", .threads = threads, .predecessors = diamond, .fails = task});
            all.push_back({.name = "replay, failing parts",
                           .threads = threads,
                           .predecessors = parts,
                           .solo = true,
                           .fails = task});
            all.push_back(
                {.name = "replay, ending diamond", .threads = threads, .predecessors = diamond, .ends = task});
            all.push_back({.name = "replay, ending spread", .threads = threads, .predecessors = spread, .ends = task});
            all.push_back(
                {.name = "replay, ending joins", .threads = threads, .predecessors = loose, .ends = task + 1});
            all.push_back({.name = "replay, ending parts",
                           .threads = threads,
                           .predecessors = parts,
                           .solo = true,
                           .ends = task});
        }
    }
    return all;
}

struct ReplayRun {
    using Session = graph::ReplaySession<ModelSeam>;

    const ReplayCase& scenario;
    graph::ReplayPlan plan;
    graph::ReplayState<ModelSeam> state;
    graph::ParallelRegions<ModelSeam> regions{false};
    std::unique_ptr<Session> session;
    std::vector<ModelSeam::Plain<std::uint64_t>> cells;
    std::vector<unsigned> begun;
    std::vector<bool> lost;  // failed, or behind one that did
    unsigned replay = 0;

    explicit ReplayRun(const ReplayCase& from)
        : scenario(from), state(static_cast<std::uint32_t>(from.predecessors.size())), cells(from.predecessors.size()) {
        std::vector<std::int64_t> start{0};
        std::vector<std::int64_t> all;
        for (const auto& those : from.predecessors) {
            all.insert(all.end(), those.begin(), those.end());
            start.push_back(static_cast<std::int64_t>(all.size()));
        }
        graph::ReplayInput input;
        input.tasks = static_cast<std::int64_t>(from.predecessors.size());
        input.start = start.data();
        input.preds = all.data();
        (void)plan.build(input, {{enter, this}}, {.run_tasks = 2, .wide = ModelSeam::kWide, .parts = 4});
    }

    bool drive(Machine& machine) {
        return drive_crew(machine, regions, scenario.threads, [this] { call(); });
    }

    bool goes_wrong(std::int64_t task) const {
        return replay == 0 ? task == scenario.fails || task == scenario.ends
                           : replay == 1 && task == scenario.fails_next;
    }

    static int enter(void* const*, const std::uint64_t* number, void* user) {
        return static_cast<ReplayRun*>(user)->task(static_cast<std::size_t>(*number));
    }

    std::uint64_t mark(std::size_t task) const { return (replay + 1) * 100 + task; }

    int task(std::size_t number) {
        Machine& machine = *Machine::active;
        if (begun[number]++ != 0) machine.fail("a task ran twice");
        for (const std::int64_t before : scenario.predecessors[number]) {
            const auto other = static_cast<std::size_t>(before);
            if (lost[other]) machine.fail("a task ran though its predecessor failed");
            if (cells[other].get() != mark(other)) machine.fail("a task ran before its predecessor");
        }
        machine.step();
        cells[number].set(mark(number));
        if (replay == 0 && static_cast<int>(number) == scenario.ends) throw ModelSeam::ThreadEnd{};
        return goes_wrong(static_cast<std::int64_t>(number)) ? 1 : 0;
    }

    void call() {
        const auto count = scenario.predecessors.size();
        for (replay = 0; replay < scenario.replays; ++replay) {
            begun.assign(count, 0);
            lost.assign(count, false);
            for (std::size_t task = 0; task < count; ++task) {
                bool any = goes_wrong(static_cast<std::int64_t>(task));
                for (const std::int64_t before : scenario.predecessors[task]) {
                    any = any || lost[static_cast<std::size_t>(before)];
                }
                lost[task] = any;
            }
            session =
                std::make_unique<Session>(plan, state, graph::ReplayOptions{}, scenario.threads, scenario.solo, false);
            run_seats();
            check();
        }
        regions.stop();
    }

    // As ReplayGraph::replay does.
    void run_seats() {
        while (!session->is_over()) {
            const auto seat = [](void* context, std::size_t at, unsigned worker) {
                (*static_cast<Session*>(context))(at, worker);
            };
            const std::uint64_t groups = regions.open(scenario.threads, seat, session.get(), nullptr, true);
            if (!ends_in_help(regions, groups)) regions.await_all(groups);
        }
    }

    void check() {
        Machine& machine = *Machine::active;
        graph::ReplayReport report;
        session->finish(report);
        std::int64_t ran = 0;
        for (std::size_t task = 0; task < begun.size(); ++task) {
            const bool runs = !lost[task] || goes_wrong(static_cast<std::int64_t>(task));
            if ((begun[task] != 0) != runs) machine.fail("a task did not run");
            ran += begun[task];
            if (begun[task] != 0 && cells[task].get() != mark(task)) machine.fail("a task's work is lost");
        }
        const auto count = static_cast<std::int64_t>(begun.size());
        if (report.executed != ran || report.cancelled != count - ran) machine.fail("tasks were counted wrongly");
        const bool wrong = std::find(lost.begin(), lost.end(), true) != lost.end();
        const std::int32_t told = report.failure.task;
        if ((told >= 0) != wrong || (wrong && !goes_wrong(told))) machine.fail("a failure was not told, or was none");
    }
};

}  // namespace whet::test
