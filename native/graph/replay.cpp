// Running a replay graph. Two phases per worker: whole components alone, then tasks whose edges are counted.
#include "graph/replay.hpp"

#include <algorithm>
#include <chrono>

#include "graph/deque.hpp"
#include "graph/park.hpp"

namespace whet::graph {

namespace {

// An item is a single place (count 0) or a range of the successor array whose places are all ready.
constexpr std::uint64_t single(std::uint32_t place) { return std::uint64_t{place} << 32; }
constexpr std::uint64_t range(std::uint32_t first, std::uint32_t count) { return (std::uint64_t{first} << 32) | count; }

constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::uint32_t kPollEvery = 1024;   // tasks between two questions to the caller
constexpr std::uint64_t kNap_ns = 200'000;   // an idle worker looks again after this long even if nobody wakes it
constexpr std::uint32_t kLargestGrain = 32;  // tasks of a range that one worker takes at a time

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

struct alignas(64) ReplayGraph::Worker {
    explicit Worker(std::size_t capacity) : deque(capacity) {}
    StealDeque deque;
    std::int64_t executed = 0;
    std::int64_t cancelled = 0;
    std::int64_t finished = 0;  // counted tasks not yet taken off Session::remaining
};

ReplayGraph::ReplayGraph() = default;
ReplayGraph::~ReplayGraph() = default;
ReplayGraph& ReplayGraph::operator=(ReplayGraph&&) noexcept = default;

// One replay. Everything here is written by its workers; the graph itself changes only in `arrivals_` and `poisoned_`.
struct ReplayGraph::Session {
    ReplayGraph& graph;
    const ReplayOptions& options;
    const unsigned count;
    const bool solo;
    std::uint32_t since_poll = 0;  // the calling thread's
    alignas(64) std::atomic<std::uint32_t> next_run{0};
    alignas(64) std::atomic<std::int64_t> remaining{0};
    // Read before every body, written at most a few times: stays shared in every cache.
    alignas(64) std::atomic<bool> troubled{false};
    std::atomic<bool> stopped{false};
    std::atomic<std::int32_t> failed{-1};
    std::atomic<std::int32_t> status{0};
    alignas(64) std::atomic<std::uint32_t> sleepers{0};
    std::atomic<std::uint32_t> bell{0};

    Session(ReplayGraph& g, const ReplayOptions& o, unsigned n, bool coarse)
        : graph(g), options(o), count(n), solo(coarse) {}

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
        int result = 0;
        if (body.call) {
            const std::int64_t begun = options.spans ? now_ns() : 0;
            result = invoke(body, place, node.task);
            if (options.spans) {
                options.spans[node.task] = {begun, now_ns(), static_cast<std::int32_t>(worker)};
            }
        }
        ++own.executed;
        if (result != 0) [[unlikely]] {
            fail(node, result);
        }
        if (worker == 0 && options.poll && ++since_poll >= kPollEvery) {
            since_poll = 0;
            ask();
        }
    }

    int invoke(const ReplayBody& body, std::uint32_t place, std::int32_t task) const {
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

    void fail(const Node& node, int result) {
        std::int32_t nobody = -1;
        if (failed.compare_exchange_strong(nobody, node.task, std::memory_order_relaxed)) {
            status.store(result, std::memory_order_relaxed);
        }
        troubled.store(true, std::memory_order_relaxed);
        poison_successors(node);
    }

    void ask() {
        if (!stopped.load(std::memory_order_relaxed) && options.poll()) {
            stopped.store(true, std::memory_order_relaxed);
            troubled.store(true, std::memory_order_relaxed);
        }
    }

    void offer(Worker& own, std::uint64_t item) {
        own.deque.push(item);
        if (sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            bell.fetch_add(1, std::memory_order_release);
            unpark_one(bell);
        }
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
            call_body(own, worker, place);
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
            call_body(own, worker, place);
            if (target == kNone || graph.nodes_[target].fan_in == 1) {
                run_chain(own, worker, complete(own, place));
                continue;
            }
            ++own.finished;
            ++held;
            if (i + 1 < first + length && only_successor(graph.successors_[i + 1]) == target) continue;
            if (arrive(target, std::exchange(held, 0U))) run_chain(own, worker, target);
        }
    }

    std::uint64_t take(std::size_t seat) {
        for (unsigned step = 1; step < count; ++step) {
            StealDeque& victim = graph.workers_[(seat + step) % count]->deque;
            if (victim.looks_empty()) continue;
            std::uint64_t item = victim.steal();
            while (item == StealDeque::kLost) item = victim.steal();
            if (item != StealDeque::kNothing) return item;
        }
        return StealDeque::kNothing;
    }

    // Places one after the other, nothing counted. The common case is a loop of calls; trouble and spans take the long
    // way. Against calling call_body for each, this saves 1 to 2 of 4 ns per empty task.
    void run_in_order(Worker& own, unsigned worker, std::uint32_t place, std::uint32_t end) {
        const bool plain = !options.spans && graph.arguments_.empty();
        const Node* const nodes = graph.nodes_.data();
        const std::uint16_t* const kinds = graph.kinds_.data();
        const ReplayBody* const bodies = graph.bodies_.data();
        while (place < end) {
            const std::uint32_t stop = std::min(end, place + kPollEvery);
            const std::uint32_t first = place;
            for (; plain && place < stop && !troubled.load(std::memory_order_relaxed); ++place) {
                const ReplayBody& body = bodies[kinds[place]];
                if (!body.call) continue;
                const auto number = static_cast<std::uint64_t>(nodes[place].task);
                if (const int result = body.call(nullptr, &number, body.user); result != 0) fail(nodes[place], result);
            }
            own.executed += place - first;
            for (; place < stop; ++place) call_body(own, worker, place);
            if (worker == 0 && options.poll) ask();
        }
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
            if (item == StealDeque::kNothing) {
                if (own.finished) remaining.fetch_sub(std::exchange(own.finished, 0), std::memory_order_acq_rel);
                item = take(seat);
            }
            if (item == StealDeque::kNothing) {
                if (remaining.load(std::memory_order_acquire) == 0) return;
                if (worker == 0 && options.poll) ask();
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

    // A missed bell costs one nap, so no fence is paid by those who ring it.
    void nap() {
        const std::uint32_t heard = bell.load(std::memory_order_acquire);
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        if (remaining.load(std::memory_order_seq_cst) != 0) park(bell, heard, kNap_ns);
        sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
};

void ReplayGraph::seat_workers(unsigned count, std::size_t capacity) {
    if (workers_.size() == count && deque_capacity_ >= capacity) return;
    workers_.clear();
    for (unsigned w = 0; w < count; ++w) workers_.push_back(std::make_unique<Worker>(capacity));
    deque_capacity_ = capacity;
}

ReplayReport ReplayGraph::replay(Pool& pool, const ReplayOptions& options) {
    const auto n = static_cast<std::uint32_t>(nodes_.size());
    if (poison_left_) {
        for (std::uint32_t p = 0; p < n; ++p) poisoned_[p].store(0, std::memory_order_relaxed);
        poison_left_ = false;
    }
    const unsigned count = pool.workers();
    const bool solo = options.coarsen && run_start_.size() > 4 * count;
    Session session(*this, options, count, solo);
    const auto first_root = static_cast<std::uint32_t>(edges_);
    const std::size_t shared = n - (solo ? solo_end_ : 0);
    seat_workers(count, count > 1 ? shared + 64 : 1);
    if (count == 1) {
        // The stored order is a schedule; nothing has to be counted.
        session.run_in_order(*workers_[0], 0, 0, n);
    } else if (n > 0) {
        const std::uint32_t skipped = solo ? solo_roots_ : 0;
        const std::uint32_t roots = solo_roots_ + shared_roots_ - skipped;
        for (unsigned w = 0; w < count; ++w) {
            const auto low = static_cast<std::uint32_t>(std::uint64_t{roots} * w / count);
            const auto high = static_cast<std::uint32_t>(std::uint64_t{roots} * (w + 1) / count);
            if (high > low) workers_[w]->deque.push(range(first_root + skipped + low, high - low));
        }
        session.remaining.store(static_cast<std::int64_t>(shared), std::memory_order_relaxed);
        pool.parallel_for(count, [this, &session](std::size_t seat, unsigned worker) {
            Worker& own = *workers_[seat];
            if (session.solo) session.run_alone(own, worker);
            session.run_shared(own, seat, worker);
        });
        shared_down_ = !shared_down_;
        if (!solo) solo_down_ = !solo_down_;
    }
    ReplayReport report;
    for (const auto& worker : workers_) {
        report.executed += std::exchange(worker->executed, 0);
        report.cancelled += std::exchange(worker->cancelled, 0);
        worker->finished = 0;
    }
    report.failed = session.failed.load(std::memory_order_relaxed);
    report.status = session.status.load(std::memory_order_relaxed);
    report.stopped = session.stopped.load(std::memory_order_relaxed);
    poison_left_ = session.troubled.load(std::memory_order_relaxed);
    return report;
}

}  // namespace whet::graph
