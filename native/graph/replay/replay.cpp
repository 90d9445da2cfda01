// Replays: setting out the roots, watching over the seats, counting up at the end.
#include "graph/replay/replay.hpp"

#include "graph/replay/session.hpp"

namespace whet::graph {

ReplayGraph::ReplayGraph() = default;
ReplayGraph::~ReplayGraph() = default;
ReplayGraph& ReplayGraph::operator=(ReplayGraph&&) noexcept = default;

// What the caller does while it waits: looks for signals and at the clock, and notes who runs what.
class ReplayGraph::Watchman {
  public:
    Watchman(Session& session, std::uint64_t timeout_ns, ReplayReport& report)
        : session_(session),
          report_(report),
          begun_ns_(timeout_ns != 0 ? now_ns() : 0),
          limit_ns_(timeout_ns),
          seen_(timeout_ns != 0 ? session.count : 0) {}

    // True when it is time to leave: stopped, and the grace for running bodies is over.
    bool operator()() {
        const std::uint64_t now = now_ns();
        if (session_.poll) session_.ask();
        if (limit_ns_ != 0 && !session_.stopped.load(std::memory_order_relaxed)) {
            look_around(now);
            if (now - begun_ns_ >= limit_ns_) {
                report_.timed_out = true;
                session_.cancel_rest();
            }
        }
        if (!session_.stopped.load(std::memory_order_relaxed)) return false;
        if (stopped_ns_ == 0) stopped_ns_ = now;
        return now - stopped_ns_ >= kGrace_ns;
    }

  private:
    // Whoever is seen in the same body again has been there at least since the first time.
    void look_around(std::uint64_t now) {
        report_.running.clear();
        for (unsigned seat = 0; seat < session_.count; ++seat) {
            const std::uint32_t running = session_.graph.workers_[seat]->running.load(std::memory_order_relaxed);
            if (running != seen_[seat].running) seen_[seat] = {running, now};
            if (running == 0) continue;
            report_.running.push_back({session_.graph.nodes_[running - 1].task, seat, now - seen_[seat].since_ns});
        }
    }

    struct Seen {
        std::uint32_t running = 0;
        std::uint64_t since_ns = 0;
    };
    Session& session_;
    ReplayReport& report_;
    const std::uint64_t begun_ns_;
    const std::uint64_t limit_ns_;
    std::uint64_t stopped_ns_ = 0;
    std::vector<Seen> seen_;
};

void ReplayGraph::seat_workers(unsigned count, std::size_t capacity) {
    if (workers_.size() == count && deque_capacity_ >= capacity) return;
    workers_.clear();
    for (unsigned w = 0; w < count; ++w) workers_.push_back(std::make_unique<Worker>(capacity));
    deque_capacity_ = capacity;
}

// Gives each seat its share of the roots.
void ReplayGraph::set_out(Session& session) {
    if (session.count == 1) return;
    const auto n = static_cast<std::uint32_t>(nodes_.size());
    const auto first_root = static_cast<std::uint32_t>(edges_) + (session.solo ? solo_roots_ : 0);
    const std::uint32_t roots = shared_roots_ + (session.solo ? 0 : solo_roots_);
    for (unsigned w = 0; w < session.count; ++w) {
        const auto low = static_cast<std::uint32_t>(std::uint64_t{roots} * w / session.count);
        const auto high = static_cast<std::uint32_t>(std::uint64_t{roots} * (w + 1) / session.count);
        if (high > low) workers_[w]->deque.push(Session::range(first_root + low, high - low));
    }
    session.remaining.store(n - (session.solo ? solo_end_ : 0), std::memory_order_relaxed);
}

ReplayReport ReplayGraph::replay(Pool& pool, const ReplayOptions& options) {
    ReplayReport report;
    report.refused = !settle();
    if (report.refused) return report;
    const auto n = static_cast<std::uint32_t>(nodes_.size());
    if (poison_left_) {
        for (std::uint32_t p = 0; p < n; ++p) poisoned_[p].store(0, std::memory_order_relaxed);
        poison_left_ = false;
    }
    const bool helps = options.timeout_ns == 0;
    const unsigned count = helps ? pool.workers() : std::max(1U, pool.workers() - 1);
    const bool solo = options.coarsen && run_start_.size() > 4 * count;
    seat_workers(count, count > 1 ? n - (solo ? solo_end_ : 0) + 64 : 1);
    Session& session = begin_session(options, count, solo);
    set_out(session);
    if (helps && count == 1) session(0, 0);
    Watchman watchman(session, options.timeout_ns, report);
    // Once, unless every thread was ended by a body before all was done.
    while (!session.is_over()) {
        RegionEnd end = pool.watch(count, session, helps, std::ref(watchman));
        report.left = end.left;
        if (end.left) {
            session.poll = nullptr;
            session.left.store(true, std::memory_order_relaxed);
            left_ = std::move(end);
            break;
        }
        if (end.abandoned) {
            report.stalled = true;
            session.cancel_rest();
            session(0, 0);
        }
    }
    if (!report.left) finish(report);
    return report;
}

// In the memory of the last one: a replay of a few tasks is over before an allocation would be.
ReplayGraph::Session& ReplayGraph::begin_session(const ReplayOptions& options, unsigned count, bool solo) {
    if (session_) {
        std::destroy_at(session_.get());
        std::construct_at(session_.get(), *this, options, count, solo);
    } else {
        session_ = std::make_unique<Session>(*this, options, count, solo);
    }
    in_session_ = true;
    return *session_;
}

// Whether nobody is inside an earlier replay that was left. What its threads did not get to is cancelled here.
bool ReplayGraph::settle() {
    if (!in_session_) return true;
    if (!left_.is_over()) return false;
    while (!session_->is_over()) (*session_)(0, 0);
    ReplayReport forgotten;
    finish(forgotten);
    return true;
}

void ReplayGraph::finish(ReplayReport& report) {
    const Session& session = *session_;
    if (session.count > 1) {
        shared_down_ = !shared_down_;
        if (!session.solo) solo_down_ = !solo_down_;
    }
    for (const auto& worker : workers_) {
        report.executed += std::exchange(worker->executed, 0);
        report.cancelled += std::exchange(worker->cancelled, 0);
        worker->finished = 0;
    }
    report.failure = session.failure;
    report.stopped = session.stopped.load(std::memory_order_relaxed);
    poison_left_ = session.troubled.load(std::memory_order_relaxed);
    in_session_ = false;
}

}  // namespace whet::graph
