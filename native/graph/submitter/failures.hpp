// What became of tasks that failed or were cancelled. A task's outcome stays after its slot is reused and after the
// first error has been collected: whoever asks for the task later gets its own error, and whoever consumes its output
// is cancelled. Workers write before they publish the task as failed; anybody may read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace whet::graph {

struct Failure {
    int result = 0;          // what the body returned
    std::uint32_t name = 0;  // of the task
    bool cancelled = false;  // it did not run
    std::string message{};   // instead of a result
};

class Failures {
  public:
    // The oldest beyond these are forgotten, so that a runtime that fails for ever does not grow for ever.
    static constexpr std::size_t kMost = std::size_t{1} << 20;

    void add(std::uint64_t task, Failure failure) {
        const std::lock_guard<std::mutex> guard(lock_);
        known_.insert_or_assign(task, std::move(failure));
        if (known_.size() > kMost) {
            forgotten_.store(known_.begin()->first + 1, std::memory_order_relaxed);
            known_.erase(known_.begin());
        }
        if (task + 1 > end_.load(std::memory_order_relaxed)) end_.store(task + 1, std::memory_order_release);
    }

    // For tasks that are done.
    bool has(std::uint64_t task) const {
        if (task >= end_.load(std::memory_order_acquire)) return false;
        const std::lock_guard<std::mutex> guard(lock_);
        return known_.count(task) != 0;
    }
    bool find(std::uint64_t task, Failure& failure) const {
        if (task >= end_.load(std::memory_order_acquire)) return false;
        const std::lock_guard<std::mutex> guard(lock_);
        const auto place = known_.find(task);
        if (place == known_.end()) return false;
        failure = place->second;
        return true;
    }

    // Tasks from here on have not failed.
    std::uint64_t end() const { return end_.load(std::memory_order_relaxed); }
    bool forgot(std::uint64_t task) const { return task < forgotten_.load(std::memory_order_relaxed); }

  private:
    mutable std::mutex lock_;
    std::map<std::uint64_t, Failure> known_;
    std::atomic<std::uint64_t> end_{0};
    std::atomic<std::uint64_t> forgotten_{0};
};

}  // namespace whet::graph
