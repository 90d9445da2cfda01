// What the graph tests share: runtimes made in one line, bodies from lambdas, gates that hold a body until opened.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "check.hpp"
#include "graph/runtime.hpp"

namespace whet::test {

using namespace whet::graph;

inline constexpr Policy kPolicies[] = {Policy::wired, Policy::polling, Policy::hybrid};

inline void say(const char* name) { std::printf("  %s\n", name); }

inline void check_ok(const Status& status) {
    if (!status.ok()) std::fprintf(stderr, "%s: %s\n", text_of(status.code).name, status.detail.c_str());
    CHECK(status.ok());
}

inline Config small(Policy policy, std::uint32_t window = 16, unsigned workers = 2) {
    Config config;
    config.policy = policy;
    config.window = window;
    config.workers = workers;
    config.heap_bytes = 1 << 20;
    config.tensormap_capacity = 1024;
    return config;
}

// For tests in which the submitting thread opens the gate that bodies wait for: it must not run such a body itself.
inline Config hands_off(Config config) {
    config.submitter_helps = false;
    return config;
}

// A runtime whose bodies are lambdas. They live until the end, so `user` pointers stay good.
class Bench {
  public:
    using Lambda = std::function<int(void* const*, const std::uint64_t*)>;

    explicit Bench(const Config& config) { check_ok(Runtime::make(config, runtime)); }

    Status try_submit(Lambda body, std::vector<TensorArg>& tensors, const std::vector<TaskId>& dependencies, TaskId& id,
                      std::vector<std::uint64_t> scalars = {}, std::uint32_t name = 0) {
        TaskSpec spec;
        if (body) {
            bodies_.push_back(std::move(body));
            spec.user = &bodies_.back();
            spec.body = [](void* const* addresses, const std::uint64_t* words, void* user) {
                return (*static_cast<Lambda*>(user))(addresses, words);
            };
            spec.kind = Kind::callable;
        }
        spec.tensors = tensors;
        spec.scalars = scalars;
        spec.dependencies = dependencies;
        spec.name = name;
        return runtime->submit(spec, id);
    }
    TaskId submit(Lambda body, std::vector<TensorArg>& tensors, const std::vector<TaskId>& dependencies = {}) {
        TaskId id = 0;
        check_ok(try_submit(std::move(body), tensors, dependencies, id));
        return id;
    }
    TaskId submit(Lambda body, const std::vector<TaskId>& dependencies = {}) {
        std::vector<TensorArg> none;
        return submit(std::move(body), none, dependencies);
    }

  private:
    std::deque<Lambda> bodies_;  // before the runtime, whose destruction may still run them

  public:
    std::unique_ptr<Runtime> runtime;
};

// Bodies wait here until somebody opens.
class Gate {
  public:
    void open() { open_.store(true); }
    int wait() const {
        while (!open_.load()) std::this_thread::yield();
        return 0;
    }

  private:
    std::atomic<bool> open_{false};
};

inline TensorArg region_of(void* base, std::uint64_t begin, std::uint64_t end, Direction direction) {
    TensorArg tensor;
    tensor.base = base;
    tensor.region = {begin, end, nullptr};
    tensor.direction = direction;
    return tensor;
}

inline TensorArg output(std::uint64_t bytes) {
    TensorArg tensor;
    tensor.bytes = bytes;
    tensor.direction = Direction::out;
    return tensor;
}

inline TensorArg as(TensorArg tensor, Direction direction) {
    tensor.direction = direction;
    return tensor;
}

}  // namespace whet::test
