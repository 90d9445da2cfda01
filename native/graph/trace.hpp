// What each thread did: times per phase, and one record per task for a swimlane. Off means one predictable branch.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace whet::graph {

enum class TraceLevel : std::uint8_t { off, phases, tasks };

// Times are taken for submit, dispatch (finding a task and resolving it, polling included), body, completion (waking
// included) and idle; of poll and wake there are only counts, which are kept also when tracing is off.
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

// One thread's log. Written by its thread alone; read by others only when the runtime is quiet.
class ThreadTrace {
  public:
    ThreadTrace(TraceLevel level, std::uint32_t capacity) : level_(level), capacity_(capacity) {}

    bool on() const { return level_ != TraceLevel::off; }

    // Closes the phase that began at the last mark.
    void mark(Phase phase) {
        if (!on()) return;
        const std::uint64_t now = now_ns();
        counters_.ns[static_cast<std::size_t>(phase)] += now - last_;
        counters_.count[static_cast<std::size_t>(phase)] += 1;
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

    const PhaseCounters& counters() const { return counters_; }
    std::vector<TraceRecord> records() const;

  private:
    const TraceLevel level_;
    const std::uint32_t capacity_;
    std::uint64_t last_ = 0;
    std::uint64_t written_ = 0;
    PhaseCounters counters_{};
    std::vector<TraceRecord> records_{};
};

}  // namespace whet::graph
