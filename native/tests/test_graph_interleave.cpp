// Drives the core through interleavings: the very code of graph/protocol/core.hpp over the model of
// interleave_model.hpp, with windows of 2 and 4, so that slots are reused, lists wrap and workers fall asleep within a
// few tasks.
//
//   test_graph_interleave [--schedules N] [--seed S] [--weaken] [--exhaustive] [--deep]
//
// Without options: an exhaustive part (every run with at most three preemptions or stale loads of the smallest cases),
// random schedules, and every memory order weakened once. --deep gives three threads the whole budget, too.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "interleave_choices.hpp"
#include "interleave_deque.hpp"
#include "interleave_pool.hpp"
#include "interleave_replay.hpp"
#include "interleave_run.hpp"
#include "sanitizer.hpp"

using namespace whet;
using namespace whet::test;

namespace {

std::uint64_t schedules = 0;
std::uint64_t steps = 0;

bool run_tasks(const Scenario& scenario, Machine& machine, std::string& what) {
    Run run(scenario);
    std::vector<std::function<void()>> bodies{[&run] { run.submit_all(); }};
    for (unsigned worker = 1; worker < scenario.shape.workers; ++worker) {
        bodies.push_back([&run, worker] { run.serve(worker); });
    }
    if (!machine.run(bodies)) return false;
    for (const Run::End end : run.ends) {
        if (end != Run::End::none) continue;
        what = "a task did not run";
        return false;
    }
    return true;
}

bool run_once(const Scenario& scenario, Choices& choices, Machine::Weakening weakening, std::string& what) {
    Machine machine(choices);
    machine.weakening = weakening;
    Machine::active = &machine;
    const bool right = scenario.drive ? scenario.drive(machine) : run_tasks(scenario, machine, what);
    if (!machine.what().empty()) what = machine.what();
    ++schedules;
    steps += machine.steps();
    return right;
}

using Graph = std::vector<Tasks>;

const Graph kPair = {{}, {0}};
const Graph kJoin = {{}, {}, {0, 1}};
const Graph kDiamond = {{}, {0}, {0}, {1, 2}, {3}, {3, 4}};
const Graph kLoose = {{}, {}, {}, {0}, {1, 2}, {}, {4}, {5, 6}};
const Graph kSlowFirst = {{}, {}, {}, {0}, {}, {}, {}};
const Graph kSpread = {{}, {0}, {0}, {0}, {}, {4}, {4}, {4}};
const Graph kWideJoin = {{}, {}, {}, {0, 1, 2}, {3}, {3}, {3, 4, 5}};
const Graph kChains = {{}, {0}, {1}, {}, {3}, {4}};

// One policy and wake target.
struct Kind {
    const char* name;
    Policy policy;
    WakeTarget target;

    // Every limit is one or two, so that a few tasks reach what lies beyond it.
    CoreShape shape(unsigned workers, std::uint32_t window, std::uint32_t capacity, std::uint32_t run) const {
        return {policy, target, workers, window, capacity, run, 1, 1, 1, 1};
    }
};
const Kind kKinds[] = {{"wired", Policy::wired, WakeTarget::last},
                       {"polling", Policy::polling, WakeTarget::last},
                       {"hybrid", Policy::hybrid, WakeTarget::last},
                       {"hybrid-first", Policy::hybrid, WakeTarget::first},
                       {"hybrid-single", Policy::hybrid, WakeTarget::single}};

Scenario scenario_of(const Kind& kind, const char* name, const CoreShape& shape, const Graph& graph, bool helps) {
    Scenario scenario;
    scenario.name = std::string(kind.name) + " " + name;
    scenario.shape = shape;
    scenario.producers = graph;
    scenario.submitter_helps = helps;
    return scenario;
}

// Windows of 2 and 4; edges reach less far than the window, unless what is retired is to be met.
void add_right_ones(std::vector<Scenario>& all, const Kind& kind) {
    const auto add = [&](const char* name, const CoreShape& shape, const Graph& graph, bool helps) -> Scenario& {
        all.push_back(scenario_of(kind, name, shape, graph, helps));
        return all.back();
    };
    const auto meeting = [&](const CoreShape& shape, const Graph& graph) {
        Scenario& scenario = add("meeting", shape, graph, false);
        scenario.meet[0] = 1;
        scenario.meet[1] = 2;
    };
    add("diamond", kind.shape(2, 4, 1, 2), kDiamond, true);
    add("diamond", kind.shape(3, 4, 1, 2), kDiamond, true);
    add("loose", kind.shape(3, 4, 2, 4), kLoose, false);
    add("loose", kind.shape(4, 4, 1, 1), kLoose, true);
    add("chains", kind.shape(3, 2, 1, 1), kChains, false);
    add("slow first", kind.shape(2, 4, 1, 4), kSlowFirst, true);
    add("spread", kind.shape(3, 4, 1, 1), kSpread, false);
    add("wide join", kind.shape(3, 4, 1, 2), kWideJoin, true);
    meeting(kind.shape(3, 4, 1, 4), {{}, {}, {}, {}});
    meeting(kind.shape(3, 4, 1, 2), {{}, {0}, {}});
    meeting(kind.shape(3, 4, 1, 1), {{}, {0}, {0}, {1}});
    meeting(kind.shape(3, 4, 1, 4), {{}, {0}, {0}, {}, {2, 3}});
    // Woken in batches of two, polled one at a time.
    CoreShape wide = kind.shape(3, 8, 2, 2);
    wide.woken_batch = 2;
    wide.poll_every = 2;
    add("wide spread", wide, {{}, {0}, {0}, {0}, {0}, {0}, {0}, {1, 2, 3, 4, 5, 6}}, false);
    // The submitter waits for one task, helps meanwhile and goes away.
    Scenario& leaving = add("left alone", kind.shape(2, 4, 1, 1), {{}, {0}, {1}}, true);
    leaving.leaves_after = 0;
    leaving.most = 1;
    add("holding back", kind.shape(2, 4, 1, 2), kDiamond, true).holds_back = true;
    add("holding back", kind.shape(3, 4, 1, 1), kLoose, false).holds_back = true;
}

void add_failing_ones(std::vector<Scenario>& all, const Kind& kind) {
    const auto add = [&](const char* name, const CoreShape& shape, const Graph& graph, bool helps,
                         Tasks fails) -> Scenario& {
        all.push_back(scenario_of(kind, name, shape, graph, helps));
        all.back().fails = std::move(fails);
        return all.back();
    };
    add("failing first", kind.shape(3, 4, 1, 1), kDiamond, false, {0});
    add("failing branch", kind.shape(3, 4, 1, 2), kDiamond, true, {2});
    add("failing join", kind.shape(2, 4, 1, 2), {{}, {}, {0, 1}, {1}, {2, 3}, {}}, true, {1});
    add("failing one of three", kind.shape(3, 4, 1, 2), kWideJoin, false, {1});
    // Its consumer comes when it is retired, and the slot's next task has nothing to do with it.
    add("failing long ago", kind.shape(2, 2, 1, 1), {{}, {0}, {}, {0}, {2}, {}}, true, {0});
    add("failing pair", kind.shape(2, 2, 1, 1), kPair, true, {0});
    // Done and failed, but held by a scope when its consumer comes.
    Scenario& kept = add("failing in a scope", kind.shape(2, 4, 1, 1), {{}, {}, {0}, {2}}, true, {0});
    kept.keeps_scope = true;
    kept.scopes = {{0, 4}};
    kept.settle_before = 2;
    Scenario& twice = add("failing twice", kind.shape(2, 4, 1, 1), {{}, {0}, {}, {2}}, true, {0, 2});
    twice.settle_before = 2;
    Scenario& ending = add("ending its thread", kind.shape(3, 4, 1, 2), {{}, {0}, {0}, {}, {3}}, false, {});
    ending.ends_thread = {0};
    Scenario& all_cancelled = add("cancelled", kind.shape(3, 4, 1, 2), {{}, {0}, {1}, {}, {3}, {2, 4}}, true, {});
    all_cancelled.cancel_before = 3;
    Scenario& one = add("cancelled one", kind.shape(2, 4, 1, 2), {{}, {}, {1}, {0}}, true, {});
    one.cancel_one = 1;
    one.group = 4;
}

void add_reclaiming_ones(std::vector<Scenario>& all, const Kind& kind) {
    const auto add = [&](const char* name, const CoreShape& shape, const Graph& graph) -> Scenario& {
        all.push_back(scenario_of(kind, name, shape, graph, true));
        return all.back();
    };
    add("groups of two", kind.shape(3, 4, 1, 2), kLoose).group = 2;
    add("groups beyond the window", kind.shape(2, 4, 1, 4), kDiamond).group = 8;
    Scenario& scope = add("scope", kind.shape(2, 4, 1, 1), {{}, {}, {}, {1}, {}, {4}, {}});
    scope.keeps_scope = true;
    scope.scopes = {{1, 4}};
    Scenario& nested = add("nested scopes", kind.shape(3, 4, 1, 2), {{}, {}, {}, {2}, {}, {4}, {}});
    nested.keeps_scope = true;
    nested.scopes = {{1, 5}, {2, 4}};
    nested.settle_before = 3;
    Scenario& manual = add("used without an edge", kind.shape(3, 2, 1, 1), {{}, {}, {}, {}, {}});
    manual.uses = {{1, 0}, {3, 2}};
}

template <class Run, class Case>
void add_driven(std::vector<Scenario>& all, const Case& one) {
    Scenario scenario;
    scenario.name = one.name;
    scenario.drive = [one](Machine& machine) {
        Run run(one);
        return run.drive(machine);
    };
    all.push_back(std::move(scenario));
}

std::vector<Scenario> scenarios() {
    std::vector<Scenario> all;
    for (const DequeCase& one : deque_cases()) add_driven<DequeRun>(all, one);
    for (const PoolCase& one : pool_cases()) add_driven<PoolRun>(all, one);
    for (const ReplayCase& one : replay_cases()) add_driven<ReplayRun>(all, one);
    for (const Kind& kind : kKinds) {
        add_right_ones(all, kind);
        add_failing_ones(all, kind);
        add_reclaiming_ones(all, kind);
    }
    return all;
}

std::vector<Scenario> small_scenarios() {
    std::vector<Scenario> all;
    for (const Kind& kind : kKinds) {
        all.push_back(scenario_of(kind, "pair", kind.shape(2, 2, 1, 1), kPair, true));
        all.push_back(scenario_of(kind, "join", kind.shape(2, 4, 1, 2), kJoin, true));
        all.push_back(scenario_of(kind, "pair", kind.shape(3, 2, 1, 1), kPair, false));
        all.push_back(scenario_of(kind, "failing pair", kind.shape(2, 2, 1, 1), kPair, true));
        all.back().fails = {0};
    }
    return all;
}

// Every run of the smallest cases within the budget of deviations: three for two threads and two tasks, two for the
// others, which have many times as many runs, unless `deep`.
void exhaustive(bool deep) {
    for (const Scenario& scenario : small_scenarios()) {
        const bool pair = scenario.shape.workers == 2 && scenario.producers.size() == 2 && scenario.fails.empty();
        const unsigned budget = pair || deep ? 3 : 2;
        AllChoices choices(budget);
        std::uint64_t tried = 0;
        do {
            std::string what;
            const bool right = run_once(scenario, choices, {}, what);
            if (!right) std::fprintf(stderr, "%s: %s\n", scenario.name.c_str(), what.c_str());
            CHECK(right);
            ++tried;
        } while (choices.next());
        std::printf("exhaustive to %u deviations: %-26s %zu tasks, window %u, %u threads: %llu runs\n", budget,
                    scenario.name.c_str(), scenario.producers.size(), scenario.shape.window, scenario.shape.workers,
                    static_cast<unsigned long long>(tried));
    }
}

void random_runs(std::uint64_t count, std::uint64_t seed) {
    const std::vector<Scenario> all = scenarios();
    for (std::uint64_t number = 0; number < count; ++number) {
        const Scenario& scenario = all[number % all.size()];
        RandomChoices choices(seed * 0x9e3779b97f4a7c15 + number);
        std::string what;
        const bool right = run_once(scenario, choices, {}, what);
        if (!right) {
            std::fprintf(stderr, "%s (schedule %llu): %s\n", scenario.name.c_str(),
                         static_cast<unsigned long long>(number), what.c_str());
        }
        CHECK(right);
    }
    std::printf("random: %llu schedules, seed %llu\n", static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(seed));
}

const char* text_of(std::memory_order order) {
    switch (order) {
        case std::memory_order_relaxed:
            return "relaxed";
        case std::memory_order_acquire:
            return "acquire";
        case std::memory_order_release:
            return "release";
        case std::memory_order_acq_rel:
            return "acq_rel";
        default:
            return "seq_cst";
    }
}

std::vector<std::memory_order> weaker_than(std::memory_order order) {
    switch (order) {
        case std::memory_order_seq_cst:
            return {std::memory_order_acq_rel};
        case std::memory_order_acq_rel:
            return {std::memory_order_acquire, std::memory_order_release};
        case std::memory_order_relaxed:
            return {};
        default:
            return {std::memory_order_relaxed};
    }
}

// Orders that may be weakened without a failing run, each for the reason given in graph/README.md.
struct Excused {
    Site site;
    std::memory_order order;
};
const std::vector<Excused> kExcused = {
    {Site::rouse_claim, std::memory_order_relaxed}, {Site::rouse_clear, std::memory_order_relaxed},
    {Site::crew_count, std::memory_order_relaxed},  {Site::crew_count_look, std::memory_order_relaxed},
    {Site::deque_last, std::memory_order_acq_rel},  {Site::deque_steal_top, std::memory_order_acq_rel},
};

// Each order weakened by itself must break some run.
void weakened(std::uint64_t most, std::uint64_t seed) {
    const std::vector<Scenario> all = scenarios();
    int caught = 0;
    int missed = 0;
    for (std::size_t site = 0; site < static_cast<std::size_t>(Site::count_); ++site) {
        for (const std::memory_order order : weaker_than(kSites[site].order)) {
            const Machine::Weakening weakening{static_cast<Site>(site), order};
            bool excused = false;
            for (const Excused& excuse : kExcused) {
                excused = excused || (excuse.site == weakening.site && excuse.order == order);
            }
            const std::uint64_t limit = excused ? most / 20 : most;  // most of them break within a few hundred
            std::string what;
            std::uint64_t number = 0;
            bool right = true;
            for (; right && number < limit; ++number) {
                RandomChoices choices(seed * 0xbf58476d1ce4e5b9 + number);
                right = run_once(all[number % all.size()], choices, weakening, what);
            }
            std::printf("%-14s %s -> %s: %s", kSites[site].name, text_of(kSites[site].order), text_of(order),
                        right ? "not caught" : "caught");
            if (!right) std::printf(" after %llu: %s", static_cast<unsigned long long>(number), what.c_str());
            std::printf("%s\n", right && excused ? " (explained)" : "");
            caught += !right;
            missed += right && !excused;
        }
    }
    std::printf("memory orders: %d weakenings caught, %d not\n", caught, missed);
    CHECK(missed == 0);
    CHECK(caught > 0);
}

#ifdef WHET_FAULTS
// Each planted fault must break some run. Names that no run broke are printed for whoever has other programs to try.
void planted(std::uint64_t most, std::uint64_t seed, const char* only) {
    constexpr const char* kNames[] = {"none", WHET_GRAPH_PLANT_LIST(WHET_PLANT_TEXT)};
    const std::vector<Scenario> all = scenarios();
    for (std::size_t plant = 1; plant < std::size(kNames); ++plant) {
        if (only != nullptr && std::strcmp(only, kNames[plant]) != 0) continue;
        Planted<Plant>::active = static_cast<Plant>(plant);
        std::string what;
        std::uint64_t number = 0;
        bool right = true;
        for (; right && number < most; ++number) {
            RandomChoices choices(seed * 0x94d049bb133111eb + number);
            right = run_once(all[number % all.size()], choices, {}, what);
            CHECK(true);
        }
        if (right) {
            std::printf("survives %s\n", kNames[plant]);
        } else {
            std::printf("killed %s after %llu, %s: %s\n", kNames[plant], static_cast<unsigned long long>(number),
                        all[(number - 1) % all.size()].name.c_str(), what.c_str());
        }
        std::fflush(stdout);
    }
    Planted<Plant>::active = Plant::none;
}
#endif

}  // namespace

int main(int count, char** arguments) {
    if (WHET_SANITIZED) {
        // The stacks are switched by hand; what can be checked here is that each order stands in the table with a name.
        for (const SiteOrder& site : kSites) CHECK(site.name != nullptr);
        std::printf("no interleavings under a sanitizer, which cannot follow switched stacks\n");
        return finish("test_graph_interleave");
    }
    std::uint64_t random_count = 60'000;
    std::uint64_t seed = 1;
    bool only_weaken = false;
    bool only_exhaustive = false;
    bool only_random = false;
    bool deep = false;
    for (int index = 1; index < count; ++index) {
        if (!std::strcmp(arguments[index], "--schedules") && index + 1 < count) {
            random_count = std::strtoull(arguments[++index], nullptr, 10);
            only_random = true;
        } else if (!std::strcmp(arguments[index], "--seed") && index + 1 < count) {
            seed = std::strtoull(arguments[++index], nullptr, 10);
        } else if (!std::strcmp(arguments[index], "--weaken")) {
            only_weaken = true;
        } else if (!std::strcmp(arguments[index], "--exhaustive")) {
            only_exhaustive = true;
        } else if (!std::strcmp(arguments[index], "--deep")) {
            only_exhaustive = deep = true;
#ifdef WHET_FAULTS
        } else if (!std::strcmp(arguments[index], "--plants")) {
            planted(60'000, seed, index + 1 < count ? arguments[index + 1] : nullptr);
            return finish("test_graph_interleave --plants");
#endif
        }
    }
    const bool everything = !only_weaken && !only_exhaustive && !only_random;
    if (everything || only_exhaustive) exhaustive(deep);
    if (everything || only_random) random_runs(random_count, seed);
    if (everything || only_weaken) weakened(200'000, seed);
    std::printf("interleavings: %llu schedules, %llu steps\n", static_cast<unsigned long long>(schedules),
                static_cast<unsigned long long>(steps));
    return finish("test_graph_interleave");
}
