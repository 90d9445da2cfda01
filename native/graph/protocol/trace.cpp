#include "graph/protocol/trace.hpp"

namespace whet::graph {

const char* name_of(Phase phase) {
    static constexpr const char* names[kPhases] = {"submit", "dispatch", "body", "completion", "wake", "poll", "idle"};
    return names[static_cast<std::size_t>(phase)];
}

PhaseCounters ThreadTrace::counters() const {
    PhaseCounters counters;
    for (std::size_t phase = 0; phase < kPhases; ++phase) {
        counters.ns[phase] = ns_[phase].get();
        counters.count[phase] = count_[phase].get();
    }
    return counters;
}

std::vector<TraceRecord> ThreadTrace::records() const {
    if (written_ <= capacity_) return records_;
    std::vector<TraceRecord> ordered;
    ordered.reserve(records_.size());
    for (std::uint64_t index = written_ - capacity_; index < written_; ++index) {
        ordered.push_back(records_[index % capacity_]);
    }
    return ordered;
}

}  // namespace whet::graph
