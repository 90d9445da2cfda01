// One replay of a graph, as its workers go through it. Two phases per seat: whole components alone, then tasks whose
// edges are counted.
//
// A body that throws fails its task. One that ends its thread (pthread_exit) fails it too, and each frame that is left
// on the way out puts what it still holds where others find it: single tasks and ranges in the seat's own deque, the
// rest of a run in the session. A handler costs nothing until then.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"
#include "graph/protocol/failure.hpp"
#include "graph/protocol/parking.hpp"
#include "graph/protocol/trace.hpp"
#include "graph/replay/deque.hpp"
#include "graph/replay/replay.hpp"

namespace whet::graph {

// What a graph keeps between its replays.
template <class Seam>
struct ReplayState {
    template <class T>
    using Atomic = typename Seam::template Atomic<T>;
    template <class T>
    using Plain = typename Seam::template Plain<T>;

    // The counts belong to whoever sits there, and to the caller between replays.
    struct alignas(64) Seat {
        explicit Seat(std::size_t capacity) : deque(capacity) {}
        StealDeque<Seam> deque;
        Plain<std::int64_t> executed;
        Plain<std::int64_t> cancelled;
        Plain<std::int64_t> finished;  // counted tasks not yet taken off ReplaySession::remaining_
        // Only where the replay is watched: the place whose body is being run, plus one.
        Atomic<std::uint32_t> running;
    };

    explicit ReplayState(std::uint32_t tasks)
        : arrivals(new Atomic<std::uint32_t>[tasks]()), poisoned(new Atomic<std::uint8_t>[tasks]()) {}

    void seat(unsigned count, std::size_t capacity) {
        if (seats.size() == count && deque_capacity >= capacity) return;
        seats.clear();
        for (unsigned s = 0; s < count; ++s) seats.push_back(std::make_unique<Seat>(capacity));
        deque_capacity = capacity;
    }

    // Arrivals. They go up in one replay and down in the next, so that nothing is reset in between.
    const std::unique_ptr<Atomic<std::uint32_t>[]> arrivals;
    const std::unique_ptr<Atomic<std::uint8_t>[]> poisoned;  // a predecessor failed or did not run
    std::vector<std::unique_ptr<Seat>> seats;                // kept between replays: their deques are large
    std::size_t deque_capacity = 0;
    bool poison_left = false;
    bool solo_down = false;
    bool shared_down = false;
};

template <class Seam>
class ReplaySession {
  public:
    using Seat = typename ReplayState<Seam>::Seat;
    using Node = ReplayPlan::Node;

    ReplaySession(const ReplayPlan& plan, ReplayState<Seam>& state, const ReplayOptions& options, unsigned seats,
                  bool solo, bool may_spin)
        : plan_(plan),
          state_(state),
          poll_(options.poll ? &options.poll : nullptr),
          spans_(options.spans),
          count_(seats),
          solo_(solo),
          may_spin_(may_spin),
          detailed_(options.spans || options.timeout_ns != 0) {
        if (state.poison_left && !WHET_GRAPH_PLANT(replay_poison_kept)) {
            for (std::uint32_t p = 0; p < plan.tasks(); ++p) state.poisoned[p].store(0, Site::replay_bar);
        }
        state.poison_left = false;
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

    void cancel_rest() {
        stopped_.store(1, Site::replay_bar);
        some_barred_.store(1, Site::replay_bar);
    }

    void ask() {
        if (stopped_.load(Site::replay_bar) == 0 && (*poll_)()) cancel_rest();
    }

    // The caller has left: whoever runs out of work goes.
    void leave() {
        poll_ = nullptr;
        left_.store(1, Site::replay_bar);
    }
    bool is_polled() const { return poll_ != nullptr; }
    bool is_stopped() const { return stopped_.load(Site::replay_bar) != 0; }
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
        report.failure = failure_;
        report.stopped = is_stopped();
        state_.poison_left = some_barred_.load(Site::replay_bar) != 0;
    }

  private:
    template <class T>
    using Atomic = typename Seam::template Atomic<T>;
    using ThreadEnd = typename Seam::ThreadEnd;
    using Deque = StealDeque<Seam>;
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr std::uint32_t kPollEvery = 1024;  // tasks between two questions to the caller
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

    void call_body(Seat& own, unsigned worker, std::uint32_t place) {
        const Node& node = plan_.nodes[place];
        if (some_barred_.load(Site::replay_bar) != 0) [[unlikely]] {
            if (stopped_.load(Site::replay_bar) != 0 || state_.poisoned[place].load(Site::replay_bar) != 0) {
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
                fail(node, result, nullptr);
        } catch (const ThreadEnd&) {
            fail(node, 0, kEndedThread);
            throw;
        } catch (const std::exception& error) {
            fail(node, -1, error.what());
        } catch (...) {
            fail(node, -1, kUnknownException);
        }
        if (detailed_) own.running.store(0, Site::replay_note);
        if (worker == 0 && poll_ && ++since_poll_ >= kPollEvery) {
            since_poll_ = 0;
            ask();
        }
    }

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

    // Relaxed throughout: a successor sees the mark because it runs after this task, through its counter or its order.
    void poison_successors(const Node& node) {
        const std::uint32_t count = WHET_GRAPH_PLANT(replay_poisons_first_only) ? 1 : node.successors;
        for (std::uint32_t i = 0; i < std::min(count, node.successors); ++i) {
            state_.poisoned[plan_.successors[node.first_successor + i]].store(1, Site::replay_bar);
        }
    }

    void fail(const Node& node, int result, const char* message) {
        {
            const std::lock_guard guard(lock_);
            if (failure_.task < 0) failure_ = {node.task, result, message ? message : ""};
        }
        some_barred_.store(1, Site::replay_bar);
        poison_successors(node);
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
                call_body(own, worker, place);
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
                call_body(own, worker, place);
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

    // A loop of calls, to `stop` or to the first task that fails. `place` is where it stands, also when a body throws;
    // it is kept in a register until then. A function of its own has enough of them: this saves 1 to 2 of 4 ns per
    // empty task against calling call_body for each.
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
                    fail(nodes[at], result, nullptr);
            }
        } catch (...) {
            place = at;
            throw;
        }
        place = at;
    }

    // Places one after the other, nothing counted. Failures, arguments and spans_ take the long way.
    void run_in_order(Seat& own, unsigned worker, std::uint32_t place, std::uint32_t end) {
        const bool plain = !detailed_ && plan_.arguments.empty();
        while (place < end) {
            const std::uint32_t stop = std::min(end, place + kPollEvery);
            const std::uint32_t first = place;
            const Node* const nodes = plan_.nodes.data();
            try {
                if (plain) call_in_order(place, stop);
            } catch (const ThreadEnd&) {
                own.executed.add(place - first + 1);
                fail(nodes[place], 0, kEndedThread);
                leave_rest(place + 1, end);
                throw;
            } catch (const std::exception& error) {
                fail(nodes[place++], -1, error.what());
            } catch (...) {
                fail(nodes[place++], -1, kUnknownException);
            }
            own.executed.add(place - first);
            try {
                for (; place < stop; ++place) call_body(own, worker, place);
            } catch (const ThreadEnd&) {
                leave_rest(place + 1, end);
                throw;
            }
            if (worker == 0 && poll_) ask();
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
                if (worker == 0 && poll_) {
                    ask();
                    if (stopped_.load(Site::replay_bar) != 0) return;
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

    const ReplayPlan& plan_;
    ReplayState<Seam>& state_;
    const std::function<bool()>* poll_;  // the calling thread's, as is since_poll_; null: nobody asks
    ReplaySpan* const spans_;
    const unsigned count_;  // seats
    const bool solo_;
    const bool may_spin_;
    const bool detailed_;  // spans are wanted, or somebody watches: more than a call per task
    std::uint32_t since_poll_ = 0;
    alignas(64) Atomic<std::uint32_t> next_run_;
    alignas(64) Atomic<std::int64_t> remaining_;
    // Read before every body, written at most a few times: stays shared in every cache.
    alignas(64) Atomic<std::uint32_t> some_barred_;  // a task failed, or the replay was stopped
    Atomic<std::uint32_t> stopped_;
    Atomic<std::uint32_t> left_;  // the caller does not wait any more
    Atomic<std::uint32_t> rest_count_;
    typename Seam::Mutex lock_;
    ReplayFailure failure_;                                       // under it: the first
    std::vector<std::pair<std::uint32_t, std::uint32_t>> rests_;  // under it: runs that ended threads have left
    Parking<Seam> idle_;
};

}  // namespace whet::graph
