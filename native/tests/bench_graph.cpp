// Nanoseconds per task of the runtime with empty bodies, from the first submission to the last completion.
//
//   bench_graph [rounds] [workload] [workers] [window] [policy]
//
// Rounds of all policies are interleaved; the smallest and the median of each are printed, and the CPU time of the
// submitting thread while it submitted, which other work on the machine disturbs less.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/runtime.hpp"

using namespace whet::graph;

namespace {

int nothing(void* const*, const std::uint64_t*, void*) { return 0; }

std::uint64_t thread_cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void expect(const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s: %s\n", text_of(status.code).name, status.detail.c_str());
    std::exit(1);
}

TensorArg external(void* base, std::uint64_t begin, std::uint64_t bytes, Direction direction) {
    TensorArg tensor;
    tensor.base = base;
    tensor.region = {begin, begin + bytes, nullptr};
    tensor.direction = direction;
    return tensor;
}

TensorArg output(std::uint64_t bytes) {
    TensorArg tensor;
    tensor.bytes = bytes;
    tensor.direction = Direction::out;
    return tensor;
}

TensorArg as(TensorArg tensor, Direction direction) {
    tensor.direction = direction;
    return tensor;
}

void submit(Runtime& runtime, TaskSpec& spec) {
    TaskId id = 0;
    expect(runtime.submit(spec, id, true));
}

TaskSpec task_of(std::span<TensorArg> tensors, std::span<const std::uint64_t> scalars) {
    TaskSpec spec;
    spec.body = nothing;
    spec.kind = Kind::native;
    spec.tensors = tensors;
    spec.scalars = scalars;
    return spec;
}

struct Attention {
    std::uint64_t batches, heads, dims, block, blocks;
};
constexpr Attention kCase1{256, 16, 128, 128, 64};

// Addresses stand for the caches; with empty bodies nothing is read.
struct Caches {
    char* const query = reinterpret_cast<char*>(std::uint64_t{1} << 40);
    char* const key = reinterpret_cast<char*>(std::uint64_t{2} << 40);
    char* const value = reinterpret_cast<char*>(std::uint64_t{3} << 40);
    char* const out = reinterpret_cast<char*>(std::uint64_t{4} << 40);
};

// Paged attention, dependencies inferred from the data.
std::uint64_t attention_inferred(Runtime& runtime, const Attention& shape) {
    const Caches caches;
    const std::uint64_t q_bytes = shape.heads * shape.dims * 2;
    const std::uint64_t block_bytes = shape.block * shape.dims * 2;
    const std::uint64_t out_bytes = shape.heads * shape.dims * 4;
    const std::uint64_t scalars[2] = {0, 0};
    std::uint64_t tasks = 0;
    for (std::uint64_t batch = 0; batch < shape.batches; ++batch) {
        expect(runtime.scope_begin(ScopeMode::automatic));
        TensorArg sums[3] = {output(out_bytes), output(shape.heads * 4), output(shape.heads * 4)};
        TaskId id = 0;
        expect(runtime.alloc(sums, id));
        for (std::uint64_t block = 0; block < shape.blocks; ++block) {
            expect(runtime.scope_begin(ScopeMode::automatic));
            const std::uint64_t page = (batch * shape.blocks + block) * 7919 % (shape.batches * shape.blocks);
            TensorArg qk[3] = {external(caches.query, batch * q_bytes, q_bytes, Direction::in),
                               external(caches.key, page * block_bytes, block_bytes, Direction::in),
                               output(shape.heads * shape.block * 4)};
            TaskSpec spec = task_of(qk, {});
            submit(runtime, spec);
            TensorArg sf[4] = {as(qk[2], Direction::in), output(shape.heads * shape.block * 2), output(shape.heads * 4),
                               output(shape.heads * 4)};
            spec = task_of(sf, {scalars, 1});
            submit(runtime, spec);
            TensorArg pv[3] = {as(sf[1], Direction::in),
                               external(caches.value, page * block_bytes, block_bytes, Direction::in),
                               output(out_bytes)};
            spec = task_of(pv, {});
            submit(runtime, spec);
            TensorArg up[7] = {as(sf[2], Direction::in),
                               as(sf[3], Direction::in),
                               as(pv[2], Direction::in),
                               as(sums[1], Direction::inout),
                               as(sums[2], Direction::inout),
                               as(sums[0], Direction::inout),
                               external(caches.out, batch * out_bytes, out_bytes, Direction::inout)};
            spec = task_of(up, {scalars, 2});
            submit(runtime, spec);
            expect(runtime.scope_end());
        }
        expect(runtime.scope_end());
        tasks += 1 + 4 * shape.blocks;
    }
    return tasks;
}

// The same graph with its edges given.
std::uint64_t attention_given(Runtime& runtime, const Attention& shape) {
    std::uint64_t tasks = 0;
    for (std::uint64_t batch = 0; batch < shape.batches; ++batch) {
        TaskSpec spec = task_of({}, {});
        TaskId alloc = 0;
        TaskId update = kNoTask;
        expect(runtime.submit(spec, alloc));
        for (std::uint64_t block = 0; block < shape.blocks; ++block) {
            const TaskId qk = runtime.next_id();
            spec.dependencies = {};
            submit(runtime, spec);
            const TaskId one[1] = {qk};
            spec.dependencies = one;
            submit(runtime, spec);
            const TaskId two[1] = {qk + 1};
            spec.dependencies = two;
            submit(runtime, spec);
            const TaskId four[4] = {qk + 1, qk + 2, alloc, update};
            spec.dependencies = {four, update == kNoTask ? std::size_t{3} : std::size_t{4}};
            submit(runtime, spec);
            update = qk + 3;
        }
        tasks += 1 + 4 * shape.blocks;
    }
    return tasks;
}

std::uint64_t chain(Runtime& runtime) {
    TaskSpec spec = task_of({}, {});
    for (std::uint64_t task = 0; task < 65536; ++task) {
        const TaskId before[1] = {task == 0 ? 0 : runtime.next_id() - 1};
        spec.dependencies = {before, task == 0 ? std::size_t{0} : std::size_t{1}};
        submit(runtime, spec);
    }
    return 65536;
}

std::uint64_t fans(Runtime& runtime) {
    TaskSpec spec = task_of({}, {});
    std::vector<TaskId> all(1000);
    for (std::uint64_t round = 0; round < 64; ++round) {
        spec.dependencies = {};
        TaskId root = 0;
        expect(runtime.submit(spec, root));
        for (TaskId& middle : all) {
            spec.dependencies = {&root, 1};
            expect(runtime.submit(spec, middle));
        }
        spec.dependencies = all;
        submit(runtime, spec);
    }
    return 64 * 1002;
}

std::uint64_t random_graph(Runtime& runtime) {
    TaskSpec spec = task_of({}, {});
    std::uint64_t state = 1;
    TaskId before[16];
    const TaskId first = runtime.next_id();
    for (std::uint64_t task = 0; task < 65536; ++task) {
        state = state * 6364136223846793005 + 1442695040888963407;
        const std::size_t fanin = task == 0 ? 0 : (state >> 33) % 17;
        for (std::size_t edge = 0; edge < fanin; ++edge) {
            state = state * 6364136223846793005 + 1442695040888963407;
            before[edge] = first + task - 1 - (state >> 33) % std::min<std::uint64_t>(task, 256);
        }
        spec.dependencies = {before, std::min<std::size_t>(fanin, 16)};
        submit(runtime, spec);
    }
    return 65536;
}

struct Workload {
    const char* name;
    std::function<std::uint64_t(Runtime&)> run;
};

struct Timing {
    std::vector<double> wall;
    std::vector<double> submit_cpu;
};

}  // namespace

int main(int count, char** arguments) {
    const int rounds = count > 1 ? std::atoi(arguments[1]) : 20;
    const std::string only = count > 2 ? arguments[2] : "all";
    const unsigned workers = count > 3 ? static_cast<unsigned>(std::atoi(arguments[3])) : 2;
    const auto window = count > 4 ? static_cast<std::uint32_t>(std::atoi(arguments[4])) : 16384U;
    const std::string policy_only = count > 5 ? arguments[5] : "all";
    const Workload workloads[] = {
        {"pa-inferred", [](Runtime& runtime) { return attention_inferred(runtime, kCase1); }},
        {"pa-given", [](Runtime& runtime) { return attention_given(runtime, kCase1); }},
        {"chain", chain},
        {"fans", fans},
        {"random", random_graph},
    };
    std::printf("%-12s %-8s %10s %10s %12s\n", "workload", "policy", "best ns", "median ns", "submit cpu");
    for (const Workload& workload : workloads) {
        if (only != "all" && only != workload.name) continue;
        Timing timings[4];
        const char* const names[4] = {"wired", "polling", "hybrid", "single"};
        for (int round = 0; round < rounds; ++round) {
            for (int policy = 0; policy < 4; ++policy) {
                if (policy_only != "all" && policy_only != names[policy]) continue;
                Config config;
                config.policy = static_cast<Policy>(std::min(policy, 2));
                if (policy == 3) config.wake_target = WakeTarget::single;
                config.workers = workers;
                config.window = window;
                std::unique_ptr<Runtime> runtime;
                expect(Runtime::make(config, runtime));
                // The second pass runs in touched memory.
                for (int pass = 0; pass < 2; ++pass) {
                    const std::uint64_t begin = now_ns();
                    const std::uint64_t cpu = thread_cpu_ns();
                    const auto tasks = static_cast<double>(workload.run(*runtime));
                    const std::uint64_t submitted = thread_cpu_ns();
                    expect(runtime->wait_all());
                    const std::uint64_t end = now_ns();
                    if (pass == 0) continue;
                    timings[policy].wall.push_back(static_cast<double>(end - begin) / tasks);
                    timings[policy].submit_cpu.push_back(static_cast<double>(submitted - cpu) / tasks);
                }
            }
        }
        for (int policy = 0; policy < 4; ++policy) {
            auto& [wall, cpu] = timings[policy];
            if (wall.empty()) continue;
            std::sort(wall.begin(), wall.end());
            std::sort(cpu.begin(), cpu.end());
            std::printf("%-12s %-8s %10.1f %10.1f %12.1f\n", workload.name, names[policy], wall.front(),
                        wall[wall.size() / 2], cpu[cpu.size() / 2]);
        }
    }
    return 0;
}
