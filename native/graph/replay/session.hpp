// One replay of a graph, as its workers go through it. Two phases per seat: whole components alone, then tasks whose
// edges are counted.
//
// A body that throws fails its task. One that ends its thread (pthread_exit) fails it too, and each frame that is left
// on the way out puts what it still holds where others find it: single tasks and ranges in the seat's own deque, the
// rest of a run in the seat. A handler costs nothing until then.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>

#include "graph/protocol/park.hpp"
#include "graph/protocol/trace.hpp"
#include "graph/replay/deque.hpp"
#include "graph/replay/replay.hpp"

namespace whet::graph {

struct alignas(64) ReplayGraph::Worker {
    explicit Worker(std::size_t capacity) : deque(capacity) {}
    StealDeque<MachineSeam> deque;
    std::int64_t executed = 0;
    std::int64_t cancelled = 0;
    std::int64_t finished = 0;  // counted tasks not yet taken off Session::remaining
    // Only where the replay is watched: the place whose body is being run, plus one.
    std::atomic<std::uint32_t> running{0};
};

// Everything here is written by the workers of one replay; the graph itself changes only in `arrivals_` and
// `poisoned_`. It belongs to the graph, because a body that does not return may hold it longer than the caller waits.
struct ReplayGraph::Session {
    // An item is a single place (count 0) or a range of the successor array whose places are all ready.
    static constexpr std::uint64_t single(std::uint32_t place) { return std::uint64_t{place} << 32; }
    static constexpr std::uint64_t range(std::uint32_t first, std::uint32_t length) {
        return (std::uint64_t{first} << 32) | length;
    }

    using Deque = StealDeque<MachineSeam>;
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr std::uint32_t kPollEvery = 1024;   // tasks between two questions to the caller
    static constexpr std::uint64_t kNap_ns = 200'000;   // after which an idle worker looks again unasked
    static constexpr std::uint32_t kLargestGrain = 32;  // tasks of a range that one worker takes at a time
    static constexpr const char* kEndedThread = "the body ended its thread";
    static constexpr const char* kUnknown = "an exception that is no std::exception";

    ReplayGraph& graph;
    const std::function<bool()>* poll;  // the calling thread's, as is since_poll; null: nobody asks
    ReplaySpan* const spans;
    const unsigned count;  // seats
    const bool solo;
    const bool detailed;  // spans are wanted, or somebody watches: more than a call per task
    std::uint32_t since_poll = 0;
    alignas(64) std::atomic<std::uint32_t> next_run{0};
    alignas(64) std::atomic<std::int64_t> remaining{0};
    // Read before every body, written at most a few times: stays shared in every cache.
    alignas(64) std::atomic<bool> troubled{false};
    std::atomic<bool> stopped{false};
    std::atomic<bool> left{false};  // the caller does not wait any more
    std::mutex trouble_lock;
    ReplayFailure failure;                                       // under it: the first
    std::vector<std::pair<std::uint32_t, std::uint32_t>> rests;  // under it: runs that ended threads have left
    std::atomic<std::size_t> rest_count{0};
    alignas(64) std::atomic<std::uint32_t> sleepers{0};
    std::atomic<std::uint32_t> bell{0};

    Session(ReplayGraph& g, const ReplayOptions& options, unsigned seats, bool coarse)
        : graph(g),
          poll(options.poll ? &options.poll : nullptr),
          spans(options.spans),
          count(seats),
          solo(coarse),
          detailed(options.spans || options.timeout_ns != 0) {}

    // One seat, as the pool calls it.
    void operator()(std::size_t seat, unsigned worker) {
        Worker& own = *graph.workers_[seat];
        try {
            while (take_rest(own, worker)) {
            }
            if (count > 1) {
                if (solo) run_alone(own, worker);
                run_shared(own, seat, worker);
            } else if (next_run.exchange(1, std::memory_order_relaxed) == 0) {
                // The stored order is a schedule; nothing has to be counted.
                run_in_order(own, worker, 0, static_cast<std::uint32_t>(graph.nodes_.size()));
            }
        } catch (const abi::__forced_unwind&) {
            own.running.store(0, std::memory_order_relaxed);
            count_finished(own);
            throw;
        }
    }

    // Whether everything is done. Asked when no thread is inside.
    bool is_over() const {
        const std::size_t runs = count == 1 ? 1 : solo ? graph.run_start_.size() - 1 : 0;
        return remaining.load(std::memory_order_acquire) == 0 && rest_count.load(std::memory_order_acquire) == 0 &&
               next_run.load(std::memory_order_acquire) >= runs;
    }

    void call_body(Worker& own, unsigned worker, std::uint32_t place) {
        const Node& node = graph.nodes_[place];
        if (troubled.load(std::memory_order_relaxed)) [[unlikely]] {
            if (stopped.load(std::memory_order_relaxed) || graph.poisoned_[place].load(std::memory_order_relaxed)) {
                ++own.cancelled;
                poison_successors(node);
                return;
            }
        }
        const ReplayBody& body = graph.bodies_[graph.kinds_[place]];
        ++own.executed;
        try {
            const int result = detailed ? invoke_detailed(own, worker, body, place) : invoke(body, place, node.task);
            if (result != 0) [[unlikely]]
                fail(node, result, nullptr);
        } catch (const abi::__forced_unwind&) {
            fail(node, 0, kEndedThread);
            throw;
        } catch (const std::exception& error) {
            fail(node, -1, error.what());
        } catch (...) {
            fail(node, -1, kUnknown);
        }
        if (detailed) own.running.store(0, std::memory_order_relaxed);
        if (worker == 0 && poll && ++since_poll >= kPollEvery) {
            since_poll = 0;
            ask();
        }
    }

    int invoke_detailed(Worker& own, unsigned worker, const ReplayBody& body, std::uint32_t place) {
        const std::int32_t task = graph.nodes_[place].task;
        own.running.store(place + 1, std::memory_order_relaxed);
        const std::uint64_t begun = spans ? now_ns() : 0;
        const int result = invoke(body, place, task);
        if (spans && body.call) {
            spans[task] = {static_cast<std::int64_t>(begun), static_cast<std::int64_t>(now_ns()),
                           static_cast<std::int32_t>(worker)};
        }
        return result;
    }

    int invoke(const ReplayBody& body, std::uint32_t place, std::int32_t task) const {
        if (!body.call) return 0;
        const auto number = static_cast<std::uint64_t>(task);
        if (graph.arguments_.empty()) return body.call(nullptr, &number, body.user);
        const Arguments& given = graph.arguments_[place];
        return body.call(given.tensors, given.scalars ? given.scalars : &number, body.user);
    }

    // Relaxed throughout: a successor sees the mark because it runs after this task, through its counter or its order.
    void poison_successors(const Node& node) {
        for (std::uint32_t i = 0; i < node.successors; ++i) {
            graph.poisoned_[graph.successors_[node.first_successor + i]].store(1, std::memory_order_relaxed);
        }
    }

    void fail(const Node& node, int result, const char* message) {
        {
            const std::lock_guard<std::mutex> guard(trouble_lock);
            if (failure.task < 0) failure = {node.task, result, message ? message : ""};
        }
        troubled.store(true, std::memory_order_relaxed);
        poison_successors(node);
    }

    void cancel_rest() {
        stopped.store(true, std::memory_order_relaxed);
        troubled.store(true, std::memory_order_relaxed);
    }

    void ask() {
        if (!stopped.load(std::memory_order_relaxed) && (*poll)()) cancel_rest();
    }

    void offer(Worker& own, std::uint64_t item) {
        own.deque.push(item);
        if (sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            bell.fetch_add(1, std::memory_order_release);
            unpark_one(bell);
        }
    }

    void offer_single(Worker& own, std::uint32_t place) {
        if (place != kNone) offer(own, single(place));
    }

    // `times` predecessors of `place` are done; true when those were the last ones.
    // Release publishes what the bodies wrote, acquire by the last one collects it.
    bool arrive(std::uint32_t place, std::uint32_t times) {
        const std::uint32_t fan_in = graph.nodes_[place].fan_in;
        if (fan_in == times) return true;
        std::atomic<std::uint32_t>& counter = graph.arrivals_[place];
        const bool down = place < graph.solo_end_ ? graph.solo_down_ : graph.shared_down_;
        if (down) return counter.fetch_sub(times, std::memory_order_acq_rel) == times;
        return counter.fetch_add(times, std::memory_order_acq_rel) + times == fan_in;
    }

    // Hands on what `place` was the last to hold up; one of them is returned to be run next, the rest is offered.
    std::uint32_t complete(Worker& own, std::uint32_t place) {
        ++own.finished;
        const Node& node = graph.nodes_[place];
        const std::uint32_t first = node.first_successor;
        if (node.successors >= 16 && graph.wide_[place]) {
            offer(own, range(first + 1, node.successors - 1));
            return graph.successors_[first];
        }
        std::uint32_t next = kNone;
        for (std::uint32_t i = first; i < first + node.successors; ++i) {
            const std::uint32_t successor = graph.successors_[i];
            if (!arrive(successor, 1)) continue;
            if (next == kNone) {
                next = successor;
            } else {
                offer(own, single(successor));
            }
        }
        return next;
    }

    void run_chain(Worker& own, unsigned worker, std::uint32_t place) {
        while (place != kNone) {
            try {
                call_body(own, worker, place);
            } catch (const abi::__forced_unwind&) {
                offer_single(own, complete(own, place));
                throw;
            }
            place = complete(own, place);
        }
    }

    // The only successor of a place, or kNone.
    std::uint32_t only_successor(std::uint32_t place) const {
        const Node& node = graph.nodes_[place];
        return node.successors == 1 ? graph.successors_[node.first_successor] : kNone;
    }

    // Halves are left for thieves, largest on top, until a grain remains. Neighbours that lead to the same successor
    // arrive there together: it could not have become ready between them.
    void run_range(Worker& own, unsigned worker, std::uint32_t first, std::uint32_t length) {
        const std::uint32_t grain = std::clamp(length / (8 * count), 1U, kLargestGrain);
        while (length > grain) {
            const std::uint32_t kept = length - length / 2;
            offer(own, range(first + kept, length - kept));
            length = kept;
        }
        std::uint32_t held = 0;
        for (std::uint32_t i = first; i < first + length; ++i) {
            const std::uint32_t place = graph.successors_[i];
            const std::uint32_t target = only_successor(place);
            const bool counts_alone = target == kNone || graph.nodes_[target].fan_in == 1;
            bool called = false;
            try {
                call_body(own, worker, place);
                called = true;
                if (counts_alone) {
                    run_chain(own, worker, complete(own, place));
                    continue;
                }
                ++own.finished;
                ++held;
                if (i + 1 < first + length && only_successor(graph.successors_[i + 1]) == target) continue;
                if (arrive(target, std::exchange(held, 0U))) run_chain(own, worker, target);
            } catch (const abi::__forced_unwind&) {
                if (const std::uint32_t rest = first + length - i - 1; rest != 0) offer(own, range(i + 1, rest));
                if (called) throw;
                // What has been held back goes out alone, as does what comes after: neighbours need not arrive
                // together.
                if (counts_alone) {
                    offer_single(own, complete(own, place));
                } else {
                    ++own.finished;
                    if (arrive(target, held + 1)) offer_single(own, target);
                }
                throw;
            }
        }
    }

    std::uint64_t take(std::size_t seat) {
        for (unsigned step = 1; step < count; ++step) {
            Deque& victim = graph.workers_[(seat + step) % count]->deque;
            if (victim.looks_empty()) continue;
            std::uint64_t item = victim.steal();
            while (item == Deque::kLost) item = victim.steal();
            if (item != Deque::kNothing) return item;
        }
        return Deque::kNothing;
    }

    // A loop of calls, to `stop` or to the first trouble. `place` is where it stands, also when a body throws; it is
    // kept in a register until then. A function of its own has enough of them: this saves 1 to 2 of 4 ns per empty task
    // against calling call_body for each.
    [[gnu::noinline]] void call_in_order(std::uint32_t& place, std::uint32_t stop) {
        const Node* const nodes = graph.nodes_.data();
        const std::uint16_t* const kinds = graph.kinds_.data();
        const ReplayBody* const bodies = graph.bodies_.data();
        std::uint32_t at = place;
        try {
            for (; at < stop && !troubled.load(std::memory_order_relaxed); ++at) {
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

    // Places one after the other, nothing counted. Trouble, arguments and spans take the long way.
    void run_in_order(Worker& own, unsigned worker, std::uint32_t place, std::uint32_t end) {
        const bool plain = !detailed && graph.arguments_.empty();
        while (place < end) {
            const std::uint32_t stop = std::min(end, place + kPollEvery);
            const std::uint32_t first = place;
            const Node* const nodes = graph.nodes_.data();
            try {
                if (plain) call_in_order(place, stop);
            } catch (const abi::__forced_unwind&) {
                own.executed += place - first + 1;
                fail(nodes[place], 0, kEndedThread);
                leave_rest(place + 1, end);
                throw;
            } catch (const std::exception& error) {
                fail(nodes[place++], -1, error.what());
            } catch (...) {
                fail(nodes[place++], -1, kUnknown);
            }
            own.executed += place - first;
            try {
                for (; place < stop; ++place) call_body(own, worker, place);
            } catch (const abi::__forced_unwind&) {
                leave_rest(place + 1, end);
                throw;
            }
            if (worker == 0 && poll) ask();
        }
    }

    void leave_rest(std::uint32_t begin, std::uint32_t end) {
        if (begin >= end) return;
        const std::lock_guard<std::mutex> guard(trouble_lock);
        rests.emplace_back(begin, end);
        rest_count.store(rests.size(), std::memory_order_release);
    }

    // Runs that ended threads have left. True if there was one.
    bool take_rest(Worker& own, unsigned worker) {
        if (rest_count.load(std::memory_order_acquire) == 0) [[likely]]
            return false;
        std::pair<std::uint32_t, std::uint32_t> rest{};
        {
            const std::lock_guard<std::mutex> guard(trouble_lock);
            if (rests.empty()) return false;
            rest = rests.back();
            rests.pop_back();
            rest_count.store(rests.size(), std::memory_order_release);
        }
        run_in_order(own, worker, rest.first, rest.second);
        return true;
    }

    void run_alone(Worker& own, unsigned worker) {
        const auto runs = static_cast<std::uint32_t>(graph.run_start_.size() - 1);
        for (;;) {
            const std::uint32_t run = next_run.fetch_add(1, std::memory_order_relaxed);
            if (run >= runs) return;
            run_in_order(own, worker, graph.run_start_[run], graph.run_start_[run + 1]);
        }
    }

    void run_shared(Worker& own, std::size_t seat, unsigned worker) {
        Patience patience(count <= Pool::hardware_workers());
        for (;;) {
            std::uint64_t item = own.deque.pop();
            if (item == Deque::kNothing) {
                count_finished(own);
                item = take(seat);
            }
            if (item == Deque::kNothing) {
                if (take_rest(own, worker)) continue;
                if (remaining.load(std::memory_order_acquire) == 0) return;
                // Nothing to do, and the caller of this replay is gone or wants to go.
                if (left.load(std::memory_order_relaxed)) return;
                if (worker == 0 && poll) {
                    ask();
                    if (stopped.load(std::memory_order_relaxed)) return;
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

    void count_finished(Worker& own) {
        if (own.finished) remaining.fetch_sub(std::exchange(own.finished, 0), std::memory_order_acq_rel);
    }

    // A missed bell costs one nap, so no fence is paid by those who ring it.
    void nap() {
        const std::uint32_t heard = bell.load(std::memory_order_acquire);
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        if (remaining.load(std::memory_order_seq_cst) != 0) park(bell, heard, kNap_ns);
        sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
};

}  // namespace whet::graph
