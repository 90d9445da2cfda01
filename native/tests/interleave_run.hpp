// One run of a scenario under the checker: thread 0 submits through the runtime's own Reclaimer, helps and waits; the
// others serve. The data cell of a task belongs to its slot, so that a slot reclaimed too early shows as a race between
// the next owner and a late reader, or as data that was overwritten.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "graph/protocol/core.hpp"
#include "graph/protocol/outcomes.hpp"
#include "graph/submitter/reclaimer.hpp"
#include "interleave_model.hpp"

namespace whet::test {

using namespace whet::graph;

using Tasks = std::vector<std::uint32_t>;

struct Scenario {
    std::string name;
    CoreShape shape;
    std::vector<Tasks> producers;
    bool submitter_helps = true;
    // Bodies of these two wait for each other: both must be running at once, on two workers.
    std::uint32_t meet[2] = {0, 0};
    Tasks fails{};             // their bodies fail
    Tasks ends_thread{};       // their bodies end the thread they run on, which counts as a failure; another takes over
    std::uint32_t group = 1;   // tasks that are published together
    bool keeps_scope = false;  // retain=scope
    std::vector<std::pair<std::uint32_t, std::uint32_t>> scopes{};  // begin before the one task, end before the other
    std::vector<std::pair<std::uint32_t, std::uint32_t>> uses{};    // consumer, producer: memory in use without an edge
    std::uint32_t settle_before = ~0U;      // before submitting this one, all that are there are waited for
    std::uint32_t cancel_before = ~0U;      // before submitting this one, all that are there are cancelled
    std::uint32_t cancel_one = ~0U;         // this one is, as soon as it is there
    unsigned most = 2;                      // tasks per step
    bool holds_back = false;                // a worker leaves a task once, while another runs one
    std::uint32_t leaves_after = ~0U;       // when this one is done, the submitter leaves the rest to the others
    std::function<bool(Machine&)> drive{};  // given: this is run instead of tasks
};

inline Config config_of(const Scenario& scenario) {
    Config config;
    config.policy = scenario.shape.policy;
    config.wake_target = scenario.shape.wake_target;
    config.window = scenario.shape.window;
    config.retain = scenario.keeps_scope ? Retain::scope : Retain::consumers;
    return config;
}

struct Run {
    using Data = ModelSeam::Plain<std::uint64_t>;
    enum class End : std::uint8_t { none, ran, failed, barred };

    const Scenario& scenario;
    const Config config;
    Core<ModelSeam> core;
    Outcomes<ModelSeam> outcomes;
    Reclaimer<ModelSeam> tasks;
    std::vector<Data> cells;
    std::vector<unsigned> begun;
    std::vector<End> ends;
    std::vector<Tasks> held;  // producers that were not retired when the task came: their data is there
    std::uint64_t executed = 0;
    std::uint64_t cancelled_below = 0;
    std::vector<std::uint64_t> slot_task;
    ModelSeam::Atomic<std::uint32_t> stop;
    unsigned inside = 0;           // workers in a body
    std::vector<bool> has_left{};  // by worker: it has left a task and run none since

    explicit Run(const Scenario& from)
        : scenario(from),
          config(config_of(from)),
          core(from.shape),
          tasks(core, outcomes, config),
          cells(from.shape.window),
          begun(from.producers.size()),
          ends(from.producers.size()),
          held(from.producers.size()),
          slot_task(from.shape.window),
          has_left(from.shape.workers) {}

    static bool among(const Tasks& tasks, std::uint64_t task) {
        return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
    }

    void check_producers(std::uint64_t task, bool barred) {
        Machine& machine = *Machine::active;
        bool lost = false;
        for (const std::uint32_t producer : scenario.producers[task]) {
            if (ends[producer] == End::none) machine.fail("a task ran before its producer");
            lost = lost || ends[producer] != End::ran;
        }
        const bool cancelled = task < cancelled_below || task == scenario.cancel_one;
        if (lost && !barred) machine.fail("a task ran though its producer failed");
        if (barred && !lost && !cancelled) machine.fail("a task was cancelled for no reason");
        // It is asked for in the turn of the submitter, so nothing of it can have begun.
        if (task == scenario.cancel_one && scenario.group > 1 && !barred) machine.fail("a cancelled task ran");
    }

    Progress execute(unsigned worker, std::uint32_t slot) {
        Machine& machine = *Machine::active;
        const std::uint64_t task = slot_task[slot];
        const bool barred = outcomes.bars(core, slot, core.table()[slot]);
        if (core.table().task_in(slot, core.stream().submitted()) != task) machine.fail("a slot of the wrong task");
        check_producers(task, barred);
        if (begun[task] != 0) machine.fail("a task ran twice");
        ++begun[task];
        for (const std::uint32_t producer : held[task]) {
            if (slot_task[core.table().slot_of(producer)] != producer) machine.fail("memory in use was given away");
        }
        if (barred) {
            outcomes.cancel_one(task, 0);
            return finish(task, End::barred);
        }
        for (const std::uint32_t producer : scenario.producers[task]) {
            if (!among(held[task], producer)) continue;
            if (cells[core.table().slot_of(producer)].get() != producer + 1)
                machine.fail("a producer's data was overwritten");
        }
        cells[slot].set(task + 1);
        machine.step();
        if (scenario.meet[0] != scenario.meet[1] && (task == scenario.meet[0] || task == scenario.meet[1])) {
            while (begun[scenario.meet[0]] == 0 || begun[scenario.meet[1]] == 0) machine.yield();
        }
        if (among(scenario.ends_thread, task)) {
            outcomes.fail(task, {0, 0, false, "ended"});
            finish(task, End::failed);
            core.abandon(worker, slot);
            throw EndOfThread{};
        }
        if (!among(scenario.fails, task)) return finish(task, End::ran);
        outcomes.fail(task, {-1, 0, false, {}});
        return finish(task, End::failed);
    }

    Progress finish(std::uint64_t task, End end) {
        ends[task] = end;
        ++executed;
        return end == End::ran ? Progress::done : Progress::failed;
    }

    struct EndOfThread {};

    struct Within {
        unsigned& count;
        explicit Within(unsigned& of) : count(of) { ++count; }
        ~Within() { --count; }
        Within(const Within&) = delete;
        Within& operator=(const Within&) = delete;
    };

    bool holds_back(unsigned worker) {
        has_left[worker] = scenario.holds_back && inside != 0 && !has_left[worker];
        return has_left[worker];
    }

    bool step(unsigned worker) {
        try {
            return core.step(
                worker, scenario.most,
                [this, worker](std::uint32_t slot) {
                    const Within within(inside);
                    return execute(worker, slot);
                },
                [] { return false; }, [this, worker](std::uint32_t) { return holds_back(worker); });
        } catch (const EndOfThread&) {
            return true;  // the thread that takes over goes on from here
        }
    }

    // What the submitter does between two looks at what it waits for.
    void help(bool helps) {
        tasks.flush();
        if (!(helps && step(0))) Machine::active->yield();
    }

    void reclaim() {
        tasks.reclaim([this](std::uint64_t from, std::uint64_t to) {
            if (from > to || to > tasks.watermark()) Machine::active->fail("a task was retired before it was done");
        });
    }

    void submit(std::uint32_t task) {
        const std::uint32_t slot = tasks.begin(0);
        Reclaimer<ModelSeam>::Producers producers(tasks);
        for (const std::uint32_t producer : scenario.producers[task]) {
            if (tasks.is_in_window(producer)) held[task].push_back(producer);
            producers.add(producer, Edge::Source::given);
        }
        for (const auto& [consumer, producer] : scenario.uses) {
            if (consumer != task || !tasks.is_in_window(producer)) continue;
            held[task].push_back(producer);
            producers.hold(producer);
        }
        slot_task[slot] = task;
        tasks.enter(slot, producers);
        if (task == scenario.cancel_one) {
            const std::uint64_t one = task;
            outcomes.cancel_these({&one, 1}, [this](std::uint64_t other) { return tasks.done(other); });
        }
        tasks.flush_some(scenario.group);
    }

    void submit_all() {
        const auto count = static_cast<std::uint32_t>(scenario.producers.size());
        std::vector<std::uint32_t> open(scenario.scopes.size());
        for (std::uint32_t task = 0; task < count; ++task) {
            for (std::size_t scope = 0; scope < open.size(); ++scope) {
                if (scenario.scopes[scope].first == task) {
                    (void)tasks.scope_begin(ScopeMode::automatic, &open[scope]);
                    scope_floor.push_back(task);
                }
                if (scenario.scopes[scope].second == task) end_scope(open[scope], scenario.scopes[scope].first);
            }
            if (task == scenario.settle_before) {
                while (!tasks.all_done()) help(scenario.submitter_helps);
                reclaim();
                check_scopes();
            }
            if (task == scenario.cancel_before) {
                tasks.flush();
                cancelled_below = core.stream().submitted();
                outcomes.cancel_below(cancelled_below);
            }
            const bool full = !tasks.has_room();
            while (!tasks.has_room()) {
                reclaim();
                check_scopes();
                if (!tasks.has_room()) help(scenario.submitter_helps);
            }
            if (full && scenario.submitter_helps) core.step_aside(0);
            submit(task);
        }
        tasks.flush();
        const bool leaves = scenario.leaves_after != ~0U;
        while (leaves && !tasks.done(scenario.leaves_after)) help(scenario.submitter_helps);
        if (leaves) core.step_aside(0);
        while (!tasks.all_done()) help(scenario.submitter_helps && !leaves);
        for (std::size_t scope = 0; scope < open.size(); ++scope) {
            if (scenario.scopes[scope].second >= count) end_scope(open[scope], scenario.scopes[scope].first);
        }
        // Under `wired` the last references may still be on their way.
        for (reclaim(); tasks.tail() != count; reclaim()) Machine::active->yield();
        check_first();
        stop.store(1, Site::head_publish);
        core.sleeping().wake_everybody();
    }

    // The error that a wait for all returns: one that happened; where all were waited for in between, one of before.
    void check_first() {
        std::uint64_t task = 0;
        Failure failure;
        const bool told = outcomes.collect(task, failure);
        const auto failed = [this](std::uint64_t from, std::uint64_t to) {
            return std::find(ends.begin() + static_cast<std::ptrdiff_t>(from),
                             ends.begin() + static_cast<std::ptrdiff_t>(to),
                             End::failed) != ends.begin() + static_cast<std::ptrdiff_t>(to);
        };
        const std::uint64_t count = ends.size();
        if (told != failed(0, count)) Machine::active->fail("an error was not told, or was none");
        if (!told) return;
        std::uint64_t again = 0;
        if (outcomes.collect(again, failure)) Machine::active->fail("an error was told twice");
        if (ends[task] != End::failed) Machine::active->fail("an error that was none");
        const std::uint64_t settled = std::min<std::uint64_t>(scenario.settle_before, count);
        if (settled != count && failed(0, settled) && task >= settled) Machine::active->fail("not the first error");
    }

    void end_scope(std::uint32_t number, std::uint32_t begin) {
        if (!tasks.scope_end(number)) Machine::active->fail("a scope was not there to end");
        scope_floor.erase(std::find(scope_floor.begin(), scope_floor.end(), begin));
    }

    // Nothing of an open scope is retired.
    void check_scopes() {
        if (!scenario.keeps_scope) return;
        for (const std::uint32_t begin : scope_floor) {
            if (tasks.tail() > begin) Machine::active->fail("a task of an open scope was retired");
        }
    }
    Tasks scope_floor;

    void serve(unsigned worker) {
        const auto stopped = [this] { return stop.newest() != 0; };
        while (!stopped()) {
            if (step(worker)) continue;
            const auto leave = [&] {
                Machine::active->step();
                return stopped();
            };
            core.sleep(worker, 1000, leave, [this] { return executed != core.stream().submitted(); });
        }
    }
};

}  // namespace whet::test
