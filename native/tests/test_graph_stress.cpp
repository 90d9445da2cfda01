// Random task graphs under every policy: each task once, after all its producers, and the same results everywhere.
//
//   test_graph_stress [tasks per policy] [seed]
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "check.hpp"
#include "graph/runtime.hpp"

using namespace whet::graph;

namespace {

struct Random {
    std::uint64_t state;
    std::uint64_t next() {
        state += 0x9e3779b97f4a7c15;
        std::uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    std::uint64_t below(std::uint64_t bound) { return next() % bound; }
};

// What the bodies write; the values are checked against a serial evaluation that knows nothing of the runtime.
struct Case {
    std::vector<std::vector<std::uint32_t>> producers;
    std::vector<std::uint64_t> value;  // written by the body of task i alone
    std::unique_ptr<std::atomic<std::uint32_t>[]> runs;
    std::atomic<std::uint64_t> early{0};

    explicit Case(std::size_t tasks) : producers(tasks), value(tasks), runs(new std::atomic<std::uint32_t>[tasks]()) {}
};

std::uint64_t combine(std::size_t task, const std::vector<std::uint32_t>& producers,
                      const std::vector<std::uint64_t>& value) {
    std::uint64_t result = task * 0x9e3779b97f4a7c15 + 1;
    for (const std::uint32_t producer : producers) result = result * 31 + (value[producer] ^ (value[producer] >> 17));
    return result;
}

int body(void* const*, const std::uint64_t* scalars, void* user) {
    Case& own = *static_cast<Case*>(user);
    const std::size_t task = scalars[0];
    for (const std::uint32_t producer : own.producers[task]) {
        if (own.runs[producer].load(std::memory_order_relaxed) != 1) own.early.fetch_add(1);
    }
    own.value[task] = combine(task, own.producers[task], own.value);
    own.runs[task].fetch_add(1, std::memory_order_relaxed);
    return 0;
}

const char* name_of(Policy policy) {
    return policy == Policy::wired ? "wired" : policy == Policy::polling ? "polling" : "hybrid";
}

// One graph: fan-in mostly small, now and then wide; producers near or far.
void random_graph(Config config, std::size_t tasks, Random& random) {
    Case own(tasks);
    for (std::size_t task = 1; task < tasks; ++task) {
        const std::uint64_t dice = random.below(100);
        std::uint64_t fanin = dice < 30   ? random.below(2)
                              : dice < 95 ? random.below(6)
                              : dice < 99 ? random.below(20)
                                          : random.below(200);
        const std::uint64_t reach = random.below(3) == 0 ? task : std::min<std::uint64_t>(task, 1 + random.below(64));
        fanin = std::min<std::uint64_t>(fanin, reach);
        for (std::uint64_t edge = 0; edge < fanin; ++edge) {
            own.producers[task].push_back(static_cast<std::uint32_t>(task - 1 - random.below(reach)));
        }
    }
    std::vector<std::uint64_t> expected(tasks);
    for (std::size_t task = 0; task < tasks; ++task) expected[task] = combine(task, own.producers[task], expected);

    std::unique_ptr<Runtime> runtime;
    CHECK(Runtime::make(config, runtime).ok());
    std::vector<TaskId> dependencies;
    for (std::size_t task = 0; task < tasks; ++task) {
        dependencies.assign(own.producers[task].begin(), own.producers[task].end());
        const std::uint64_t number = task;
        TaskSpec spec;
        spec.body = body;
        spec.user = &own;
        spec.kind = Kind::native;
        spec.scalars = {&number, 1};
        spec.dependencies = dependencies;
        TaskId id = 0;
        const Status status = runtime->submit(spec, id);
        if (!status.ok()) std::fprintf(stderr, "%s: %s\n", text_of(status.code).name, status.detail.c_str());
        CHECK(status.ok() && id == task);
        if (random.below(2000) == 0) CHECK(runtime->wait(random.below(task + 1)).ok());
    }
    const Status status = runtime->wait_all();
    if (!status.ok()) std::fprintf(stderr, "%s: %s\n", text_of(status.code).name, status.detail.c_str());
    CHECK(status.ok());
    CHECK(own.early.load() == 0);
    std::size_t wrong = 0;
    for (std::size_t task = 0; task < tasks; ++task) {
        wrong += own.runs[task].load() != 1;
        wrong += own.value[task] != expected[task];
    }
    if (wrong != 0) std::fprintf(stderr, "%s: %zu wrong of %zu\n", name_of(config.policy), wrong, tasks);
    CHECK(wrong == 0);
    CHECK(runtime->totals().completed == tasks);
    CHECK(runtime->peaks().window_now == 0);
}

}  // namespace

int main(int count, char** arguments) {
    const std::uint64_t per_policy = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 100'000;
    const std::uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 20260101;
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    for (const Policy policy : {Policy::wired, Policy::polling, Policy::hybrid}) {
        Random random{seed};
        std::uint64_t done = 0;
        int round = 0;
        while (done < per_policy) {
            Config config;
            config.policy = policy;
            config.wake_target = static_cast<WakeTarget>(round % 3);
            config.workers = 1 + static_cast<unsigned>(random.below(round % 8 == 7 ? 16 : 4));
            config.window = 4U << (random.below(15));
            config.ready_capacity = 1U << random.below(8);
            config.longest_run = 1U << random.below(6);
            config.retain = random.below(2) == 0 ? Retain::scope : Retain::consumers;
            config.heap_bytes = 4096;
            const std::uint64_t tasks = std::min<std::uint64_t>(per_policy - done, 1 + random.below(20'000));
            random_graph(config, tasks, random);
            done += tasks;
            ++round;
        }
        std::printf("%s: %llu tasks in %d graphs\n", name_of(policy), static_cast<unsigned long long>(done), round);
    }
    return whet::test::finish("test_graph_stress");
}
