// One replay of a graph, as its workers go through it. Two phases per seat: whole components alone, then tasks whose
// edges are counted.
//
// A body that throws fails its task. One that ends its thread (pthread_exit) fails it too, and each frame that is left
// on the way out puts what it still holds where others find it: single tasks and ranges in the seat's own deque, the
// rest of a run in the session. A handler costs nothing until then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"
#include "graph/protocol/parking.hpp"
#include "graph/replay/calls.hpp"

namespace whet::graph {

template <class Seam>
class ReplaySession {
  public:
    using Seat = typename ReplayState<Seam>::Seat;
    using Node = ReplayPlan::Node;

    ReplaySession(const ReplayPlan& plan, ReplayState<Seam>& state, const ReplayOptions& options, unsigned seats,
                  bool solo, bool may_spin)
        : calls_(plan, state, options), plan_(plan), state_(state), count_(seats), solo_(solo), may_spin_(may_spin) {
        const std::uint32_t counted = plan.tasks() - (solo ? plan.solo_end : 0);
        state.seat(seats, seats > 1 ? counted + 64 : 1);
        if (seats > 1) set_out(counted);
    }

    // One seat, as the pool calls it.
    void operator()(std::size_t seat, unsigned worker) {
        Seat& own = *state_.seats[seat];
        try {
            while (take_rest(own, worker)) {
            }
            if (count_ > 1) {
                if (solo_) run_alone(own, worker);
                run_shared(own, seat, worker);
            } else if (next_run_.exchange(1, Site::replay_run) == 0) {
                // The stored order is a schedule; nothing has to be counted.
                run_in_order(own, worker, 0, static_cast<std::uint32_t>(plan_.nodes.size()));
            }
        } catch (const ThreadEnd&) {
            own.running.store(0, Site::replay_note);
            if (!WHET_GRAPH_PLANT(replay_ended_not_counted)) count_finished(own);
            throw;
        }
    }

    // Whether everything is done. Asked when no thread is inside.
    bool is_over() const {
        const std::size_t runs = count_ == 1 ? 1 : solo_ ? plan_.run_start.size() - 1 : 0;
        return remaining_.load(Site::replay_left) == 0 && rest_count_.load(Site::replay_note) == 0 &&
               next_run_.load(Site::replay_run) >= runs;
    }

    ReplayCalls<Seam>& calls() { return calls_; }
    // The caller has left: whoever runs out of work goes.
    void leave() {
        calls_.ask_no_more();
        left_.store(1, Site::replay_bar);
    }
    unsigned seats() const { return count_; }
    // The task whose body is being run there, -1: none. Only where the replay is watched.
    std::int32_t task_at(unsigned seat) const {
        const std::uint32_t running = state_.seats[seat]->running.load(Site::replay_note);
        return running == 0 ? -1 : plan_.nodes[running - 1].task;
    }

    // When everything is done: counts up, and leaves the state as the next replay needs it.
    void finish(ReplayReport& report) {
        if (count_ > 1) {
            if (!WHET_GRAPH_PLANT(replay_goes_up_again)) state_.shared_down = !state_.shared_down;
            if (!solo_) state_.solo_down = !state_.solo_down;
        }
        for (const auto& seat : state_.seats) {
            report.executed += seat->executed.get();
            report.cancelled += seat->cancelled.get();
            seat->executed.set(0);
            seat->cancelled.set(0);
            seat->finished.set(0);
        }
        calls_.finish(report);
    }

  private:
    template <class T>
    using Atomic = typename Seam::template Atomic<T>;
    using ThreadEnd = typename Seam::ThreadEnd;
    using Deque = StealDeque<Seam>;
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr std::uint64_t kNap_ns = 200'000;  // after which an idle worker looks again unasked

    // An item is a single place (count 0) or a range of the successor array whose places are all ready.
    static constexpr std::uint64_t single(std::uint32_t place) { return std::uint64_t{place} << 32; }
    static constexpr std::uint64_t range(std::uint32_t first, std::uint32_t length) {
        return (std::uint64_t{first} << 32) | length;
    }

    // Gives each seat its share of the roots.
    void set_out(std::uint32_t counted) {
        const std::uint32_t first_root = static_cast<std::uint32_t>(plan_.edges) + (solo_ ? plan_.solo_roots : 0);
        const std::uint32_t roots = plan_.shared_roots + (solo_ ? 0 : plan_.solo_roots);
        for (unsigned seat = 0; seat < count_; ++seat) {
            const auto low = static_cast<std::uint32_t>(std::uint64_t{roots} * seat / count_);
            const auto high = static_cast<std::uint32_t>(std::uint64_t{roots} * (seat + 1) / count_);
            if (high > low) state_.seats[seat]->deque.push(range(first_root + low, high - low));
        }
        remaining_.store(counted, Site::replay_left);
    }

    void offer(Seat& own, std::uint64_t item) {
        own.deque.push(item);
        idle_.nudge_one();
    }

    void offer_single(Seat& own, std::uint32_t place) {
        if (place != kNone && !WHET_GRAPH_PLANT(replay_ended_successor_lost)) offer(own, single(place));
    }

    // `times` predecessors of `place` are done; true when those were the last ones.
    // Release publishes what the bodies wrote, acquire by the last one collects it.
    bool arrive(std::uint32_t place, std::uint32_t times) {
        const std::uint32_t fan_in = plan_.nodes[place].fan_in;
        if (fan_in == times) return true;
        if (WHET_GRAPH_PLANT(replay_arrives_once)) times = 1;
        auto& counter = state_.arrivals[place];
        const bool down = place < plan_.solo_end ? state_.solo_down : state_.shared_down;
        if (down) return counter.fetch_sub(times, Site::replay_arrive) == times;
        return counter.fetch_add(times, Site::replay_arrive) + times == fan_in;
    }

    // Hands on what `place` was the last to hold up; one of them is returned to be run next, the rest is offered.
    std::uint32_t complete(Seat& own, std::uint32_t place) {
        own.finished.add(1);
        const Node& node = plan_.nodes[place];
        const std::uint32_t first = node.first_successor;
        if (node.successors >= Seam::kWide && plan_.wide[place]) {
            offer(own, range(first + (WHET_GRAPH_PLANT(replay_wide_first_twice) ? 0 : 1), node.successors - 1));
            return plan_.successors[first];
        }
        std::uint32_t next = kNone;
        for (std::uint32_t i = first; i < first + node.successors; ++i) {
            const std::uint32_t successor = plan_.successors[i];
            if (!arrive(successor, 1)) continue;
            if (next == kNone) {
                next = successor;
            } else if (!WHET_GRAPH_PLANT(replay_second_successor_lost)) {
                offer(own, single(successor));
            }
        }
        return next;
    }

    void run_chain(Seat& own, unsigned worker, std::uint32_t place) {
        while (place != kNone) {
            try {
                calls_.call(own, worker, place);
            } catch (const ThreadEnd&) {
                offer_single(own, complete(own, place));
                throw;
            }
            place = complete(own, place);
        }
    }

    // The only successor of a place, or kNone.
    std::uint32_t only_successor(std::uint32_t place) const {
        const Node& node = plan_.nodes[place];
        return node.successors == 1 ? plan_.successors[node.first_successor] : kNone;
    }

    // Halves are left for thieves, largest on top, until a grain remains. Neighbours that lead to the same successor
    // arrive there together: it could not have become ready between them.
    void run_range(Seat& own, unsigned worker, std::uint32_t first, std::uint32_t length) {
        const std::uint32_t grain = std::clamp(length / (Seam::kGrains * count_), 1U, Seam::kLargestGrain);
        while (length > grain) {
            const std::uint32_t kept = length - length / 2;
            if (!WHET_GRAPH_PLANT(replay_half_lost)) offer(own, range(first + kept, length - kept));
            length = kept;
        }
        std::uint32_t held = 0;
        for (std::uint32_t i = first; i < first + length; ++i) {
            const std::uint32_t place = plan_.successors[i];
            const std::uint32_t target = only_successor(place);
            const bool counts_alone = target == kNone || plan_.nodes[target].fan_in == 1;
            bool called = false;
            try {
                calls_.call(own, worker, place);
                called = true;
                if (counts_alone) {
                    run_chain(own, worker, complete(own, place));
                    continue;
                }
                own.finished.add(1);
                ++held;
                if (i + 1 < first + length && only_successor(plan_.successors[i + 1]) == target) continue;
                if (arrive(target, std::exchange(held, 0U))) run_chain(own, worker, target);
            } catch (const ThreadEnd&) {
                if (const std::uint32_t rest = first + length - i - 1; rest != 0)
                    offer(own, range(i + (WHET_GRAPH_PLANT(replay_ended_range_again) ? 0 : 1), rest));
                if (called) throw;
                // What has been held back goes out alone, as does what comes after: neighbours need not arrive
                // together.
                if (counts_alone) {
                    offer_single(own, complete(own, place));
                } else {
                    own.finished.add(1);
                    if (arrive(target, WHET_GRAPH_PLANT(replay_ended_held_lost) ? 1 : held + 1))
                        offer_single(own, target);
                }
                throw;
            }
        }
    }

    std::uint64_t take(std::size_t seat) {
        for (unsigned step = 1; step < count_; ++step) {
            Deque& victim = state_.seats[(seat + step) % count_]->deque;
            if (victim.looks_empty()) continue;
            std::uint64_t item = victim.steal();
            while (item == Deque::kLost) item = victim.steal();
            if (item != Deque::kNothing) return item;
        }
        return Deque::kNothing;
    }

    // Places one after the other, nothing counted.
    void run_in_order(Seat& own, unsigned worker, std::uint32_t place, std::uint32_t end) {
        while (place < end) {
            try {
                calls_.call_all(own, worker, place, std::min(end, place + ReplayCalls<Seam>::kPollEvery));
            } catch (const ThreadEnd&) {
                leave_rest(place + 1, end);
                throw;
            }
            if (worker == 0 && calls_.is_polled()) calls_.ask();
        }
    }

    void leave_rest(std::uint32_t begin, std::uint32_t end) {
        if (begin >= end || WHET_GRAPH_PLANT(replay_rest_lost)) return;
        const std::lock_guard guard(lock_);
        rests_.emplace_back(begin, end);
        rest_count_.store(static_cast<std::uint32_t>(rests_.size()), Site::replay_note);
    }

    // Runs that ended threads have left. True if there was one.
    bool take_rest(Seat& own, unsigned worker) {
        if (rest_count_.load(Site::replay_note) == 0) [[likely]]
            return false;
        std::pair<std::uint32_t, std::uint32_t> rest{};
        {
            const std::lock_guard guard(lock_);
            if (rests_.empty()) return false;
            rest = rests_.back();
            if (!WHET_GRAPH_PLANT(replay_rest_taken_twice)) rests_.pop_back();
            rest_count_.store(static_cast<std::uint32_t>(rests_.size()), Site::replay_note);
        }
        run_in_order(own, worker, rest.first, rest.second);
        return true;
    }

    void run_alone(Seat& own, unsigned worker) {
        const auto runs = static_cast<std::uint32_t>(plan_.run_start.size() - 1);
        for (;;) {
            const std::uint32_t run = next_run_.fetch_add(1, Site::replay_run);
            if (run >= runs) return;
            run_in_order(own, worker, plan_.run_start[run], plan_.run_start[run + 1]);
        }
    }

    void run_shared(Seat& own, std::size_t seat, unsigned worker) {
        typename Seam::Patience patience(may_spin_);
        for (;;) {
            std::uint64_t item = own.deque.pop();
            if (item == Deque::kNothing) {
                count_finished(own);
                item = take(seat);
            }
            if (item == Deque::kNothing) {
                if (take_rest(own, worker)) continue;
                if (remaining_.load(Site::replay_left) == 0) return;
                // Nothing to do, and the caller of this replay is gone or wants to go.
                if (left_.load(Site::replay_bar) != 0) return;
                if (worker == 0 && calls_.is_polled()) {
                    calls_.ask();
                    if (calls_.is_stopped()) return;
                }
                if (patience.wait()) continue;
                nap();
                continue;
            }
            patience.reset();
            const auto first = static_cast<std::uint32_t>(item >> 32);
            const auto length = static_cast<std::uint32_t>(item);
            if (length == 0) {
                run_chain(own, worker, first);
            } else {
                run_range(own, worker, first, length);
            }
        }
    }

    void count_finished(Seat& own) {
        const std::int64_t finished = own.finished.get();
        if (finished == 0) return;
        own.finished.set(0);
        if (remaining_.fetch_sub(finished, Site::replay_left) == finished) idle_.nudge_all();
    }

    // A missed wake-up costs one nap, so no fence is paid by those who make work.
    void nap() {
        idle_.sleep([this] { return remaining_.load(Site::replay_left) == 0; }, [] { return kNap_ns; });
    }

    ReplayCalls<Seam> calls_;
    const ReplayPlan& plan_;
    ReplayState<Seam>& state_;
    const unsigned count_;  // seats
    const bool solo_;
    const bool may_spin_;
    alignas(64) Atomic<std::uint32_t> next_run_;
    alignas(64) Atomic<std::int64_t> remaining_;
    alignas(64) Atomic<std::uint32_t> left_;  // the caller does not wait any more
    Atomic<std::uint32_t> rest_count_;
    typename Seam::Mutex lock_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> rests_;  // under it: runs that ended threads have left
    Parking<Seam> idle_;
};

}  // namespace whet::graph
