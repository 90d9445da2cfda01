// Bodies that fail while consumers wait, and memory of the caller that a failed task was to write: whoever touches it
// later does not run until the error has been collected, in every policy and with every wake target.
#include <cstring>
#include <string>

#include "graph/plants.hpp"
#include "graph_fixture.hpp"

using namespace whet;
using namespace whet::test;

namespace {

struct Way {
    Policy policy;
    WakeTarget target;
};
constexpr Way kWays[] = {{Policy::wired, WakeTarget::last},
                         {Policy::polling, WakeTarget::last},
                         {Policy::hybrid, WakeTarget::last},
                         {Policy::hybrid, WakeTarget::first},
                         {Policy::hybrid, WakeTarget::single}};

Config config_of(const Way& kind) {
    Config config = hands_off(small(kind.policy, 64, 3));
    config.wake_target = kind.target;
    return config;
}

// The producer fails only when its consumers have been claimed and wait.
void consumers_that_wait(const Way& kind) {
    Bench bench(config_of(kind));
    Gate gate;
    std::atomic<int> ran{0};
    const auto body = [&ran](void* const*, const std::uint64_t*) { return ran.fetch_add(1), 0; };
    const TaskId right = bench.submit([&gate](void* const*, const std::uint64_t*) { return gate.wait(); });
    const TaskId wrong = bench.submit([&gate](void* const*, const std::uint64_t*) { return gate.wait() + 7; });
    std::vector<TaskId> lost;
    for (int index = 0; index < 8; ++index) lost.push_back(bench.submit(body, {wrong, right}));
    for (int index = 0; index < 8; ++index) lost.push_back(bench.submit(body, {lost[static_cast<std::size_t>(index)]}));
    const TaskId fine = bench.submit(body, {right});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    gate.open();
    check_ok(bench.runtime->settle());
    CHECK(ran.load() == 1);
    check_ok(bench.runtime->wait(fine));
    CHECK(bench.runtime->wait(wrong).code == Code::task_failed);
    for (const TaskId task : lost) CHECK(bench.runtime->wait(task).code == Code::cancelled);
    const Status status = bench.runtime->wait_all();
    CHECK(status.code == Code::task_failed && status.task == wrong && status.body_result == 7);
}

// The failed write has left the tensor map when somebody reads the bytes.
void memory_that_was_not_written(const Way& kind) {
    Bench bench(config_of(kind));
    std::vector<std::uint64_t> memory(64);
    std::vector<std::uint64_t> other(64);
    std::atomic<int> ran{0};
    // Several regions of one buffer: the map keeps them one by one and drops them when they are done.
    for (std::uint64_t begin = 128; begin < 512; begin += 64) {
        std::vector<TensorArg> region{region_of(memory.data(), begin, begin + 32, Direction::inout)};
        bench.submit([](void* const*, const std::uint64_t*) { return 0; }, region);
    }
    std::vector<TensorArg> written{region_of(memory.data(), 0, 64, Direction::inout)};
    bench.submit([](void* const*, const std::uint64_t*) { return 3; }, written);
    check_ok(bench.runtime->settle());
    // Enough for the map to be cleared of what is done.
    for (int index = 0; index < 300; ++index) {
        std::vector<TensorArg> elsewhere{region_of(other.data(), 0, 8, Direction::inout)};
        bench.submit([](void* const*, const std::uint64_t*) { return 0; }, elsewhere);
        if (index % 50 == 0) check_ok(bench.runtime->settle());
    }
    const auto body = [&ran](void* const*, const std::uint64_t*) { return ran.fetch_add(1), 0; };
    std::vector<TensorArg> reads{region_of(memory.data(), 32, 40, Direction::in)};
    const TaskId reader = bench.submit(body, reads);
    std::vector<TensorArg> apart{region_of(memory.data(), 64, 72, Direction::in)};
    const TaskId beside = bench.submit(body, apart);
    CHECK(bench.runtime->wait(reader).code == Code::cancelled);
    check_ok(bench.runtime->wait(beside));
    CHECK(ran.load() == 1);
    CHECK(bench.runtime->wait_all().code == Code::task_failed);
    // Collected: the memory counts as any other again.
    const TaskId again = bench.submit(body, reads);
    check_ok(bench.runtime->wait(again));
    check_ok(bench.runtime->wait_all());
}

}  // namespace

int main(int count, char** arguments) {
#ifdef WHET_FAULTS
    constexpr const char* kNames[] = {"none", WHET_GRAPH_PLANT_LIST(WHET_PLANT_TEXT)};
    for (int plant = 0;
         count == 3 && !std::strcmp(arguments[1], "--plant") && plant < static_cast<int>(std::size(kNames)); ++plant) {
        if (!std::strcmp(arguments[2], kNames[plant])) Planted<Plant>::active = static_cast<Plant>(plant);
    }
#else
    (void)count, (void)arguments;
#endif
    for (const Way& kind : kWays) {
        consumers_that_wait(kind);
        memory_that_was_not_written(kind);
    }
    return finish("test_graph_failed_memory");
}
