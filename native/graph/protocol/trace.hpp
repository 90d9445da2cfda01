// What each thread did: times per phase, and one record per task for a swimlane. Off means one predictable branch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace whet::graph {

enum class TraceLevel : std::uint8_t { off, phases, tasks };

// Times are taken for submit, dispatch (finding a task and resolving it), body, completion (of the task before the
// worker looks around) and idle. poll and wake are parts of these: rounds through pending lists, which fall into
// dispatch and idle, and what a completion sets off. Their counts (pending tasks looked at, tasks woken) are kept also
// when tracing is off.
enum class Phase : std::uint8_t { submit, dispatch, body, completion, wake, poll, idle, count_ };
inline constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::count_);
const char* name_of(Phase phase);

struct PhaseCounters {
    std::uint64_t ns[kPhases] = {};
    std::uint64_t count[kPhases] = {};
};

struct TraceRecord {
    std::uint64_t task;
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
    std::uint32_t name;
    std::uint32_t slot;
};

inline std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

// A number that one thread counts up and any thread may read.
class Tally {
  public:
    void add(std::uint64_t amount) {
        // One writer, so no read-modify-write is needed.
        value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
    std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};

// One thread's log. Written by its thread alone. Others may read the times at any time, and the records when every task
// is done.
class ThreadTrace {
  public:
    ThreadTrace(TraceLevel level, std::uint32_t capacity) : level_(level), capacity_(capacity) {}

    bool on() const { return level_ != TraceLevel::off; }

    // Closes the phase that began at the last mark.
    void mark(Phase phase) {
        if (!on()) return;
        const std::uint64_t now = now_ns();
        ns_[static_cast<std::size_t>(phase)].add(now - last_);
        count_[static_cast<std::size_t>(phase)].add(1);
        last_ = now;
    }
    void begin() {
        if (on()) last_ = now_ns();
    }
    std::uint64_t last() const { return last_; }

    // A full log overwrites its oldest record.
    void record(const TraceRecord& record) {
        if (level_ != TraceLevel::tasks) return;
        if (records_.size() < capacity_) {
            records_.push_back(record);
        } else if (capacity_ != 0) {
            records_[written_ % capacity_] = record;
        }
        ++written_;
    }

    PhaseCounters counters() const;
    std::vector<TraceRecord> records() const;

  private:
    const TraceLevel level_;
    const std::uint32_t capacity_;
    std::uint64_t last_ = 0;
    std::uint64_t written_ = 0;
    Tally ns_[kPhases];
    Tally count_[kPhases];
    std::vector<TraceRecord> records_{};
};

}  // namespace whet::graph
