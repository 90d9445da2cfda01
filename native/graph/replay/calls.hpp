// Calling the bodies of a replay: what bars them, how they fail, and whether the caller wants it to end. Which task
// comes when is the session's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"
#include "graph/protocol/failure.hpp"
#include "graph/protocol/trace.hpp"
#include "graph/replay/replay.hpp"
#include "graph/replay/state.hpp"

namespace whet::graph {

template <class Seam>
class ReplayCalls {
  public:
    using Seat = typename ReplayState<Seam>::Seat;
    using Node = ReplayPlan::Node;
    using ThreadEnd = typename Seam::ThreadEnd;
    static constexpr std::uint32_t kPollEvery = 1024;  // tasks between two questions to the caller

    ReplayCalls(const ReplayPlan& plan, ReplayState<Seam>& state, const ReplayOptions& options)
        : plan_(plan),
          state_(state),
          poll_(options.poll ? &options.poll : nullptr),
          spans_(options.spans),
          detailed_(options.spans || options.timeout_ns != 0) {
        if (state.poison_left && !WHET_GRAPH_PLANT(replay_poison_kept)) {
            for (std::uint32_t p = 0; p < plan.tasks(); ++p) state.poisoned[p].store(0, Site::replay_bar);
        }
        state.poison_left = false;
    }

    // One task. A body that throws fails it; one that ends its thread too, and that goes on from here.
    void call(Seat& own, unsigned worker, std::uint32_t place) {
        const Node& node = plan_.nodes[place];
        if (some_barred_.load(Site::replay_bar) != 0) [[unlikely]] {
            if (is_stopped() || state_.poisoned[place].load(Site::replay_bar) != 0) {
                own.cancelled.add(1);
                if (!WHET_GRAPH_PLANT(replay_poison_stops)) poison_successors(node);
                return;
            }
        }
        const ReplayBody& body = plan_.bodies[plan_.kinds[place]];
        own.executed.add(1);
        try {
            const int result = detailed_ ? invoke_detailed(own, worker, body, place) : invoke(body, place, node.task);
            if (result != 0) [[unlikely]]
                fail(node, result, {});
        } catch (const ThreadEnd&) {
            fail(node, 0, kEndedThread);
            throw;
        } catch (...) {
            fail(node, -1, thrown_in_words());
        }
        if (detailed_) own.running.store(0, Site::replay_note);
        if (worker == 0 && is_polled() && ++since_poll_ >= kPollEvery) {
            since_poll_ = 0;
            ask();
        }
    }

    // Places one after the other. `place` is where it stands, also when a body ends its thread. Failures, arguments and
    // spans take the long way.
    void call_all(Seat& own, unsigned worker, std::uint32_t& place, std::uint32_t stop) {
        if (!detailed_ && plan_.arguments.empty()) {
            const std::uint32_t first = place;
            try {
                call_in_order(place, stop);
            } catch (const ThreadEnd&) {
                own.executed.add(place - first + 1);
                fail(plan_.nodes[place], 0, kEndedThread);
                throw;
            } catch (...) {
                fail(plan_.nodes[place++], -1, thrown_in_words());
            }
            own.executed.add(place - first);
        }
        for (; place < stop; ++place) call(own, worker, place);
    }

    // ---- the end, asked for ----

    void cancel_rest() {
        stopped_.store(1, Site::replay_bar);
        some_barred_.store(1, Site::replay_bar);
    }
    bool is_stopped() const { return stopped_.load(Site::replay_bar) != 0; }
    // By the calling thread, which alone asks whoever called it.
    bool is_polled() const { return poll_ != nullptr; }
    void ask() {
        if (!is_stopped() && (*poll_)()) cancel_rest();
    }
    void ask_no_more() { poll_ = nullptr; }

    // When everything is done.
    void finish(ReplayReport& report) {
        Failure failure;
        if (const std::uint64_t task = first_.take(failure); task != FirstFailure<Seam>::kNone) {
            report.failure = {static_cast<std::int32_t>(task), failure.result, std::move(failure.message)};
        }
        report.stopped = is_stopped();
        state_.poison_left = some_barred_.load(Site::replay_bar) != 0;
    }

  private:
    template <class T>
    using Atomic = typename Seam::template Atomic<T>;

    int invoke_detailed(Seat& own, unsigned worker, const ReplayBody& body, std::uint32_t place) {
        const std::int32_t task = plan_.nodes[place].task;
        own.running.store(place + 1, Site::replay_note);
        const std::uint64_t begun = spans_ ? now_ns() : 0;
        const int result = invoke(body, place, task);
        if (spans_ && body.call) {
            spans_[task] = {static_cast<std::int64_t>(begun), static_cast<std::int64_t>(now_ns()),
                            static_cast<std::int32_t>(worker)};
        }
        return result;
    }

    int invoke(const ReplayBody& body, std::uint32_t place, std::int32_t task) const {
        if (!body.call) return 0;
        const auto number = static_cast<std::uint64_t>(task);
        if (plan_.arguments.empty()) return body.call(nullptr, &number, body.user);
        const ReplayPlan::Arguments& given = plan_.arguments[place];
        return body.call(given.tensors, given.scalars ? given.scalars : &number, body.user);
    }

    // A loop of calls, to `stop` or to the first task that fails. `place` is where it stands, also when a body throws;
    // it is kept in a register until then. A function of its own has enough of them: this saves 1 to 2 of 4 ns per
    // empty task against calling call() for each.
    [[gnu::noinline]] void call_in_order(std::uint32_t& place, std::uint32_t stop) {
        const Node* const nodes = plan_.nodes.data();
        const std::uint16_t* const kinds = plan_.kinds.data();
        const ReplayBody* const bodies = plan_.bodies.data();
        std::uint32_t at = place;
        try {
            for (; at < stop && some_barred_.load(Site::replay_bar) == 0; ++at) {
                const ReplayBody& body = bodies[kinds[at]];
                if (!body.call) continue;
                const auto number = static_cast<std::uint64_t>(nodes[at].task);
                if (const int result = body.call(nullptr, &number, body.user); result != 0) [[unlikely]]
                    fail(nodes[at], result, {});
            }
        } catch (...) {
            place = at;
            throw;
        }
        place = at;
    }

    // Relaxed throughout: a successor sees the mark because it runs after this task, through its counter or its order.
    void poison_successors(const Node& node) {
        const std::uint32_t count = WHET_GRAPH_PLANT(replay_poisons_first_only) ? 1 : node.successors;
        for (std::uint32_t i = 0; i < std::min(count, node.successors); ++i) {
            state_.poisoned[plan_.successors[node.first_successor + i]].store(1, Site::replay_bar);
        }
    }

    [[gnu::noinline]] void fail(const Node& node, int result, std::string message) {
        first_.keep(static_cast<std::uint64_t>(node.task), {.result = result, .message = std::move(message)});
        some_barred_.store(1, Site::replay_bar);
        poison_successors(node);
    }

    const ReplayPlan& plan_;
    ReplayState<Seam>& state_;
    const std::function<bool()>* poll_;  // the calling thread's, as is since_poll_; null: nobody asks
    ReplaySpan* const spans_;
    const bool detailed_;  // spans are wanted, or somebody watches: more than a call per task
    std::uint32_t since_poll_ = 0;
    // Read before every body, written at most a few times: stays shared in every cache.
    alignas(64) Atomic<std::uint32_t> some_barred_;  // a task failed, or the replay was stopped
    Atomic<std::uint32_t> stopped_;
    FirstFailure<Seam> first_;
};

}  // namespace whet::graph
