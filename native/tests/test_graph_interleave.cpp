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
#include "graph/protocol/core.hpp"
#include "interleave_model.hpp"
#include "sanitizer.hpp"

using namespace whet::graph;
using namespace whet::test;

namespace {

class RandomChoices : public Choices {
  public:
    explicit RandomChoices(std::uint64_t seed) : state_(seed * 2 + 1) {}
    unsigned choose(unsigned count, bool costs) override {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        const auto draw = static_cast<std::uint32_t>(state_ >> 32);
        // Deviate in one of four places; long stretches of one thread reach further into the protocol.
        if (costs && (draw & 3) != 0) return 0;
        return (draw >> 8) % count;
    }

  private:
    std::uint64_t state_;
};

// Depth-first over all choice sequences with at most `budget` deviations.
class AllChoices : public Choices {
  public:
    explicit AllChoices(unsigned budget) : budget_(budget) {}
    unsigned choose(unsigned count, bool costs) override {
        if (depth_ == path_.size()) {
            const bool free = !costs || spent_ < budget_;
            path_.push_back({0, free ? count : 1U, costs});
        }
        const Point& point = path_[depth_++];
        spent_ += point.costs && point.chosen != 0;
        return point.chosen;
    }
    // The next sequence; false when all have been tried.
    bool next() {
        depth_ = 0;
        spent_ = 0;
        while (!path_.empty()) {
            if (++path_.back().chosen < path_.back().count) return true;
            path_.pop_back();
        }
        return false;
    }

  private:
    struct Point {
        unsigned chosen;
        unsigned count;
        bool costs;
    };
    const unsigned budget_;
    unsigned spent_ = 0;
    std::size_t depth_ = 0;
    std::vector<Point> path_;
};

struct Scenario {
    const char* name;
    CoreShape shape;
    std::vector<std::vector<std::uint32_t>> producers;
    bool submitter_helps = true;
    // Bodies of these two wait for each other: both must be running at once, on two workers.
    std::uint32_t meet[2] = {0, 0};
};

// One run of a scenario: thread 0 submits, helps and waits; the others serve. The data cell of a task belongs to its
// slot, so that a slot reclaimed too early shows as a race between the next owner and a late reader.
struct Run {
    using Data = ModelSeam::Plain<std::uint64_t>;

    const Scenario& scenario;
    Core<ModelSeam> core;
    std::vector<Data> cells;
    std::vector<unsigned> begun;
    std::vector<unsigned> runs;
    std::uint64_t executed = 0;
    std::vector<std::uint64_t> last_consumer;
    std::vector<std::uint64_t> slot_task;
    ModelSeam::Atomic<std::uint32_t> stop;

    explicit Run(const Scenario& from)
        : scenario(from),
          core(from.shape),
          cells(from.shape.window),
          begun(from.producers.size()),
          runs(from.producers.size()),
          last_consumer(from.producers.size()),
          slot_task(from.shape.window) {
        // As under retain=scope: a producer stays until its last consumer of all is done.
        for (std::size_t task = 0; task < from.producers.size(); ++task) {
            last_consumer[task] = task;
            for (const std::uint32_t producer : from.producers[task]) last_consumer[producer] = task;
        }
    }

    Progress execute(std::uint32_t slot) {
        Machine& machine = *Machine::active;
        const std::uint64_t task = slot_task[slot];
        for (const std::uint32_t producer : scenario.producers[task]) {
            if (runs[producer] != 1) machine.fail("a task ran before its producer");
            if (cells[core.table().slot_of(producer)].get() != producer + 1)
                machine.fail("a producer's data was overwritten");
        }
        if (begun[task] != 0) machine.fail("a task ran twice");
        ++begun[task];
        cells[slot].set(task + 1);
        machine.step();
        if (scenario.meet[0] != scenario.meet[1] && (task == scenario.meet[0] || task == scenario.meet[1])) {
            while (begun[scenario.meet[0]] == 0 || begun[scenario.meet[1]] == 0) machine.yield();
        }
        ++runs[task];
        ++executed;
        return Progress::done;
    }

    bool step(unsigned worker) {
        return core.step(worker, 2, [this](std::uint32_t slot) { return execute(slot); });
    }

    // Mirrors the submitter's loop in submit.cpp: reclaim in order, prepare, publish.
    void submit_all() {
        const std::uint64_t count = scenario.producers.size();
        std::uint64_t tail = 0;
        std::uint64_t watermark = 0;
        std::vector<std::uint32_t> slots;
        for (std::uint64_t task = 0; task < count; ++task) {
            while (task - tail >= scenario.shape.window) {
                watermark = core.watermark(watermark, task);
                const std::uint64_t before = tail;
                while (tail < watermark &&
                       core.reclaimable(core.table().slot_of(tail), last_consumer[tail], watermark)) {
                    ++tail;
                }
                core.recycle(before, tail);
                if (tail == before && !(scenario.submitter_helps && step(0))) Machine::active->yield();
            }
            const std::uint32_t slot = core.table().slot_of(task);
            slots.clear();
            for (const std::uint32_t producer : scenario.producers[task]) {
                if (producer < watermark && scenario.shape.policy != Policy::wired) continue;
                slots.push_back(core.table().slot_of(producer));
            }
            slot_task[slot] = task;
            core.prepare(slot, slots.data(), static_cast<std::uint32_t>(slots.size()), false, false);
            core.publish(task + 1);
        }
        while ((watermark = core.watermark(watermark, count)) != count) {
            if (!(scenario.submitter_helps && step(0))) Machine::active->yield();
        }
        stop.store(1, Site::head_publish);
        core.sleeping().announce_all();
    }

    void serve(unsigned worker) {
        const auto stopped = [this] { return stop.newest() != 0; };
        while (!stopped()) {
            if (step(worker)) continue;
            const auto leave = [&] {
                Machine::active->step();
                return stopped();
            };
            core.sleep(1000, leave, [this] { return executed != core.stream().submitted(); });
        }
    }
};

std::uint64_t schedules = 0;
std::uint64_t steps = 0;

bool run_once(const Scenario& scenario, Choices& choices, Machine::Weakening weakening, std::string& what) {
    Machine machine(choices);
    machine.weakening = weakening;
    Machine::active = &machine;
    Run run(scenario);
    std::vector<std::function<void()>> bodies{[&run] { run.submit_all(); }};
    for (unsigned worker = 1; worker < scenario.shape.workers; ++worker) {
        bodies.push_back([&run, worker] { run.serve(worker); });
    }
    bool right = machine.run(bodies);
    what = machine.what();
    for (std::size_t task = 0; right && task < run.runs.size(); ++task) {
        if (run.runs[task] == 1) continue;
        what = "a task did not run";
        right = false;
    }
    ++schedules;
    steps += machine.steps();
    return right;
}

const std::vector<std::vector<std::uint32_t>> kPair = {{}, {0}};
const std::vector<std::vector<std::uint32_t>> kJoin = {{}, {}, {0, 1}};
const std::vector<std::vector<std::uint32_t>> kDiamond = {{}, {0}, {0}, {1, 2}, {3}, {3, 4}};
const std::vector<std::vector<std::uint32_t>> kLoose = {{}, {}, {}, {0}, {1, 2}, {}, {4}, {5, 6}};
const std::vector<std::vector<std::uint32_t>> kSlowFirst = {{}, {}, {}, {0}, {}, {}, {}};

// Every policy and wake target over the same shapes. Windows of 2 and 4; edges reach less far than the window, as a
// producer must still be there when its consumer is submitted.
std::vector<Scenario> scenarios(bool small) {
    std::vector<Scenario> all;
    struct Kind {
        const char* name;
        Policy policy;
        WakeTarget target;
    };
    const Kind kinds[] = {{"wired", Policy::wired, WakeTarget::last},
                          {"polling", Policy::polling, WakeTarget::last},
                          {"hybrid", Policy::hybrid, WakeTarget::last},
                          {"hybrid-single", Policy::hybrid, WakeTarget::single}};
    for (const Kind& kind : kinds) {
        const auto shape = [&kind](unsigned workers, std::uint32_t window, std::uint32_t capacity, std::uint32_t run) {
            return CoreShape{kind.policy, kind.target, workers, window, capacity, run, 1};
        };
        if (small) {
            all.push_back({kind.name, shape(2, 2, 1, 1), kPair});
            all.push_back({kind.name, shape(2, 4, 1, 2), kJoin});
            all.push_back({kind.name, shape(3, 2, 1, 1), kPair, false});
            continue;
        }
        all.push_back({kind.name, shape(2, 4, 1, 2), kDiamond});
        all.push_back({kind.name, shape(3, 4, 1, 2), kDiamond});
        all.push_back({kind.name, shape(3, 4, 2, 4), kLoose, false});
        all.push_back({kind.name, shape(4, 4, 1, 1), kLoose});
        all.push_back({kind.name, shape(3, 2, 1, 1), {{}, {0}, {1}, {}, {3}, {4}}, false});
        all.push_back({kind.name, shape(2, 4, 1, 4), kSlowFirst});
        all.push_back({kind.name, shape(3, 4, 1, 1), {{}, {0}, {0}, {0}, {}, {4}, {4}, {4}}, false});
        all.push_back({kind.name, shape(3, 4, 1, 4), {{}, {}, {}, {}}, false, {1, 2}});
        all.push_back({kind.name, shape(3, 4, 1, 1), {{}, {0}, {0}, {1}}, false, {1, 2}});
        all.push_back({kind.name, shape(3, 4, 1, 4), {{}, {0}, {0}, {}, {2, 3}}, false, {1, 2}});
    }
    return all;
}

// Every run of the smallest cases within the budget of deviations. Three threads have thirty times as many runs as two,
// so they get one deviation less unless `deep`.
void exhaustive(bool deep) {
    for (const Scenario& scenario : scenarios(true)) {
        const unsigned budget = scenario.shape.workers == 2 || deep ? 3 : 2;
        AllChoices choices(budget);
        std::uint64_t tried = 0;
        do {
            std::string what;
            const bool right = run_once(scenario, choices, {}, what);
            if (!right) std::fprintf(stderr, "%s: %s\n", scenario.name, what.c_str());
            CHECK(right);
            ++tried;
        } while (choices.next());
        std::printf("exhaustive to %u deviations: %-14s %zu tasks, window %u, %u threads: %llu runs\n", budget,
                    scenario.name, scenario.producers.size(), scenario.shape.window, scenario.shape.workers,
                    static_cast<unsigned long long>(tried));
    }
}

void random_runs(std::uint64_t count, std::uint64_t seed) {
    const std::vector<Scenario> all = scenarios(false);
    for (std::uint64_t number = 0; number < count; ++number) {
        const Scenario& scenario = all[number % all.size()];
        RandomChoices choices(seed * 0x9e3779b97f4a7c15 + number);
        std::string what;
        const bool right = run_once(scenario, choices, {}, what);
        if (!right) {
            std::fprintf(stderr, "%s (schedule %llu): %s\n", scenario.name, static_cast<unsigned long long>(number),
                         what.c_str());
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
    {Site::ring_claim, std::memory_order_relaxed},
    {Site::ring_clear, std::memory_order_relaxed},
    {Site::idle_ticket, std::memory_order_relaxed},
    {Site::idle_ring, std::memory_order_relaxed},
};

// Each order weakened by itself must break some run.
void weakened(std::uint64_t most, std::uint64_t seed) {
    const std::vector<Scenario> all = scenarios(false);
    int caught = 0;
    int missed = 0;
    for (std::size_t site = 0; site < static_cast<std::size_t>(Site::count_); ++site) {
        for (const std::memory_order order : weaker_than(kSites[site].order)) {
            const Machine::Weakening weakening{static_cast<Site>(site), order};
            std::string what;
            std::uint64_t number = 0;
            bool right = true;
            for (; right && number < most; ++number) {
                RandomChoices choices(seed * 0xbf58476d1ce4e5b9 + number);
                right = run_once(all[number % all.size()], choices, weakening, what);
            }
            bool excused = false;
            for (const Excused& excuse : kExcused) {
                excused = excused || (excuse.site == weakening.site && excuse.order == order);
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
        }
    }
    const bool everything = !only_weaken && !only_exhaustive && !only_random;
    if (everything || only_exhaustive) exhaustive(deep);
    if (everything || only_random) random_runs(random_count, seed);
    if (everything || only_weaken) weakened(30'000, seed);
    std::printf("interleavings: %llu schedules, %llu steps\n", static_cast<unsigned long long>(schedules),
                static_cast<unsigned long long>(steps));
    return finish("test_graph_interleave");
}
