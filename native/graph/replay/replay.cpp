// Replays: setting out the roots, watching over the seats, counting up at the end.
#include "graph/replay/replay.hpp"

#include "graph/replay/session.hpp"

namespace whet::graph {

ReplayGraph::ReplayGraph() = default;
ReplayGraph::~ReplayGraph() = default;

BuildReport ReplayGraph::build(const ReplayInput& input, std::vector<ReplayBody> bodies) {
    session_.reset();
    in_session_ = false;
    BuildReport report = plan_.build(input, std::move(bodies), {.wide = MachineSeam::kWide});
    state_ = std::make_unique<ReplayState<MachineSeam>>(plan_.tasks());
    return report;
}

// What the caller does while it waits: looks for signals and at the clock, and notes who runs what.
class ReplayGraph::Watchman {
  public:
    Watchman(Session& session, std::uint64_t timeout_ns, ReplayReport& report)
        : session_(session),
          report_(report),
          begun_ns_(timeout_ns != 0 ? now_ns() : 0),
          limit_ns_(timeout_ns),
          seen_(timeout_ns != 0 ? session.seats() : 0) {}

    // True when it is time to leave: stopped, and the grace for running bodies is over.
    bool operator()() {
        const std::uint64_t now = now_ns();
        if (session_.calls().is_polled()) session_.calls().ask();
        if (limit_ns_ != 0 && !session_.calls().is_stopped()) {
            look_around(now);
            if (now - begun_ns_ >= limit_ns_) {
                report_.timed_out = true;
                session_.calls().cancel_rest();
            }
        }
        if (!session_.calls().is_stopped()) return false;
        if (stopped_ns_ == 0) stopped_ns_ = now;
        return now - stopped_ns_ >= kGrace_ns;
    }

  private:
    // Whoever is seen in the same body again has been there at least since the first time.
    void look_around(std::uint64_t now) {
        report_.running.clear();
        for (unsigned seat = 0; seat < session_.seats(); ++seat) {
            const std::int32_t task = session_.task_at(seat);
            if (task != seen_[seat].task) seen_[seat] = {task, now};
            if (task >= 0) report_.running.push_back({task, seat, now - seen_[seat].since_ns});
        }
    }

    struct Seen {
        std::int32_t task = -1;
        std::uint64_t since_ns = 0;
    };
    Session& session_;
    ReplayReport& report_;
    const std::uint64_t begun_ns_;
    const std::uint64_t limit_ns_;
    std::uint64_t stopped_ns_ = 0;
    std::vector<Seen> seen_;
};

ReplayReport ReplayGraph::replay(Pool& pool, const ReplayOptions& options) {
    ReplayReport report;
    report.refused = !settle();
    if (report.refused) return report;
    const bool helps = options.timeout_ns == 0;
    const unsigned count = helps ? pool.workers() : std::max(1U, pool.workers() - 1);
    const bool solo = options.coarsen && plan_.run_start.size() > 4 * count;
    Session& session = begin_session(options, count, solo, pool.may_spin(count));
    if (helps && count == 1) session(0, 0);
    Watchman watchman(session, options.timeout_ns, report);
    // Once, unless every thread was ended by a body before all was done.
    while (!session.is_over()) {
        RegionEnd end = pool.watch(count, session, helps, std::ref(watchman));
        report.left = end.left;
        if (end.left) {
            session.leave();
            left_ = std::move(end);
            break;
        }
        if (end.abandoned) {
            report.stalled = true;
            session.calls().cancel_rest();
            session(0, 0);
        }
    }
    if (!report.left) finish(report);
    return report;
}

// In the memory of the last one: a replay of a few tasks is over before an allocation would be.
ReplayGraph::Session& ReplayGraph::begin_session(const ReplayOptions& options, unsigned count, bool solo,
                                                 bool may_spin) {
    if (session_) {
        std::destroy_at(session_.get());
        std::construct_at(session_.get(), plan_, *state_, options, count, solo, may_spin);
    } else {
        session_ = std::make_unique<Session>(plan_, *state_, options, count, solo, may_spin);
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
    session_->finish(report);
    in_session_ = false;
}

}  // namespace whet::graph
