// The part of the runtime that threads share: slots, submission stream, ready queues, sleeping workers. Nothing here
// knows bodies, tensors or memory; the interleaving checker drives this very class with its own Seam.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/plants.hpp"
#include "graph/protocol/parking.hpp"
#include "graph/protocol/readiness.hpp"
#include "graph/protocol/ready_queue.hpp"
#include "graph/protocol/slots.hpp"
#include "graph/protocol/stream.hpp"
#include "graph/protocol/trace.hpp"

namespace whet::graph {

struct CoreShape {
    Policy policy = Policy::hybrid;
    WakeTarget wake_target = WakeTarget::last;
    unsigned workers = 1;
    std::uint32_t window = 4;
    std::uint32_t ready_capacity = 4;
    std::uint32_t longest_run = 1;
    std::uint32_t parts = 0;  // of the unclaimed tasks a worker claims one part; 0: twice the workers
    // The checker makes these small, so that a few tasks reach what lies beyond them.
    std::uint32_t poll_every = 32;    // searches between two looks at the own pending tasks
    std::uint32_t poll_budget = 128;  // pending tasks looked at in one go
    std::uint32_t woken_batch = 64;   // woken tasks that are queued in one go, at most kMostWoken
    static constexpr std::uint32_t kMostWoken = 64;
    bool timed = false;  // polling and waking are timed; counts are always kept
};

// What a worker has done beyond running bodies. Counted by the worker alone.
struct WorkerCounts {
    Tally polls;    // rounds through a pending list
    Tally looked;   // pending tasks looked at in them
    Tally woken;    // tasks made ready by a completion
    Tally stolen;   // tasks or runs taken from another worker
    Tally poll_ns;  // where they are timed: in rounds through pending lists
    Tally wake_ns;  // from the end of a body until all that it made ready is handed on
};

template <class Seam>
class Core {
  public:
    explicit Core(const CoreShape& shape)
        : shape_(shape),
          table_(shape.window, shape.policy == Policy::wired),
          readiness_(table_, shape.workers == 1),
          stream_(shape.workers, shape.longest_run, shape.parts != 0 ? shape.parts : 2 * shape.workers),
          turns_(new Turn[shape.workers]) {
        for (unsigned worker = 0; worker < shape.workers; ++worker) turns_[worker].until_poll = shape.poll_every;
        for (unsigned worker = 0; worker < shape.workers; ++worker) {
            queues_.push_back(std::make_unique<ReadyQueue<Seam>>(table_, shape.ready_capacity));
        }
    }

    SlotTable<Seam>& table() { return table_; }
    Stream<Seam>& stream() { return stream_; }
    Parking<Seam>& sleeping() { return sleep_; }
    ReadyQueue<Seam>& queue(unsigned worker) { return *queues_[worker]; }
    const WorkerCounts& counts(unsigned worker) const { return turns_[worker].counts; }
    bool wires() const { return shape_.policy == Policy::wired; }
    bool polls() const {
        return shape_.policy == Policy::polling ||
               (shape_.policy == Policy::hybrid && shape_.wake_target == WakeTarget::single);
    }

    // ---- the submitter ----

    // Clears the bytes of tasks that are retired: nobody asks for them any more. Not left to prepare(), because there
    // the line would be the one that workers are setting bytes in, a few tasks behind.
    void recycle(std::uint64_t from, std::uint64_t to) {
        for (; from != to; ++from) {
            table_.flag(table_.slot_of(from)).store(static_cast<std::uint8_t>(Progress::pending), Site::flag_clear);
        }
    }

    // Fills a retired and recycled slot for its next task. The producers are slot numbers of tasks that are not
    // retired; the fields of the body are the caller's to set, before or after. Nothing is visible before publish().
    void prepare(std::uint32_t slot, const std::uint32_t* producers, std::uint32_t count, bool poisoned, bool pinned) {
        Slot<Seam>& own = table_[slot];
        own.fanin_count.set(count);
        if (!WHET_GRAPH_PLANT(poison_of_last_lap_kept)) own.poisoned.set(poisoned);
        own.cursor.set(count);
        if (count <= Seam::kInlineFanin) {
            for (std::uint32_t index = 0; index < count; ++index) own.fanin[index].set(producers[index]);
        }
        if (shape_.policy == Policy::hybrid) own.wake.store(kEmpty, Site::wake_clear);
        if (shape_.policy == Policy::wired) wire_up(slot, producers, count, pinned);
    }

    // Tasks below `head` are complete records and may run. Wakes a worker if one sleeps.
    void publish(std::uint64_t head) {
        stream_.publish(head);
        if (!WHET_GRAPH_PLANT(publish_wakes_nobody)) sleep_.wake_one();
    }

    // The first task at or after `from` that is not done, looking no further than `head`.
    std::uint64_t watermark(std::uint64_t from, std::uint64_t head) {
        while (from != head && progress(table_.slot_of(from)) != Progress::pending) ++from;
        return from + (WHET_GRAPH_PLANT(watermark_one_too_far) && from + 1 < head ? 1 : 0);
    }
    Progress progress(std::uint32_t slot) { return static_cast<Progress>(table_.flag(slot).load(Site::flag_reclaim)); }

    // Whether nobody can ask for the slot any more: its task and every task that uses it are below the watermark, and
    // under `wired` all references (its own completion, its consumers, its scope) are gone.
    bool reclaimable(std::uint32_t slot, std::uint64_t last_consumer, std::uint64_t watermark) {
        if (last_consumer >= watermark) return false;
        return shape_.policy != Policy::wired || WHET_GRAPH_PLANT(references_ignored) ||
               table_.wired(slot).references.load(Site::wired_reclaim) == 0;
    }
    void unpin(std::uint32_t slot) { readiness_.release(slot); }

    // ---- any worker ----

    // Finds and runs up to `most` tasks, one after the other, each by execute(slot) -> Progress; a successor that one
    // of them made ready comes next. Ends early when enough() says so, or in front of a task that this worker had
    // better not run now, holds_back(slot): others may take it. False if it ran nothing. What it leaves in its queue is
    // its own to find at the next step; a worker that makes no further step calls step_aside().
    template <class Execute, class Enough, class HoldsBack>
    bool step(unsigned worker, unsigned most, Execute&& execute, Enough&& enough, HoldsBack&& holds_back) {
        std::uint32_t slot = 0;
        if (!find(worker, slot)) return false;
        for (unsigned left = most;;) {
            if (holds_back(slot)) [[unlikely]] {
                if (!WHET_GRAPH_PLANT(held_back_lost)) queues_[worker]->push(slot);
                return left != most;
            }
            const Progress result = execute(slot);
            const std::uint32_t next = finish(worker, slot, result);
            const bool over = --left == 0 || enough();
            if (next != kEmpty) {
                slot = next - 1;
                if (!over) continue;
                if (!WHET_GRAPH_PLANT(step_drops_next)) queues_[worker]->push(slot);
                return true;
            }
            if (over || !find(worker, slot)) return true;
        }
    }
    template <class Execute>
    bool step(unsigned worker, unsigned most, Execute&& execute) {
        return step(worker, most, execute, [] { return false; }, [](std::uint32_t) { return false; });
    }

    // Sleeps until work is announced; returns at once if there is some or if `leave` says so. While tasks are
    // `unfinished`, pending ones are looked at every `poll_ns`, because the worker that has one may be busy with a long
    // body when another completes its last producer; that other one still sees it as unfinished and so takes naps.
    // False after a nap in which nothing was announced.
    template <class Leave, class Unfinished>
    bool sleep(unsigned worker, std::uint64_t poll_ns, Leave&& leave, Unfinished&& unfinished) {
        const bool called =
            sleep_.sleep([&] { return leave() || has_work() || (polls() && poll_all(worker)); },
                         [&] { return polls() && unfinished() && !WHET_GRAPH_PLANT(nap_without_limit) ? poll_ns : 0; });
        // Whoever slept through several announcements passes the rest on.
        if (has_work()) sleep_.wake_one();
        return called;
    }

    // For a body that ends its thread: publishes the task as failed and leaves its successors to the others.
    void abandon(unsigned worker, std::uint32_t slot) {
        const std::uint32_t next = finish(worker, slot, Progress::failed);
        if (next != kEmpty && !WHET_GRAPH_PLANT(abandon_loses_successor)) queues_[worker]->push(next - 1);
        sleep_.wake_everybody();
    }

    // A worker that stops looking for work shows what it holds to the others. One is enough: it passes the call on.
    // Costs no system call while nobody sleeps, because a submitter comes by here whenever a ring was full.
    void step_aside(unsigned worker) {
        if (WHET_GRAPH_PLANT(step_aside_silent)) return;
        if (stream_.holds_run(worker) || queues_[worker]->maybe_ready()) sleep_.wake_one();
    }

    bool producers_failed(std::uint32_t slot) {
        const std::uint32_t count = table_[slot].fanin_count.get();
        for (std::uint32_t index = 0; index < count; ++index) {
            if (progress(table_.producer(slot, index)) == Progress::failed) return true;
        }
        return false;
    }

  private:
    static constexpr std::uint32_t kStealMost = 32;

    // Owned by the worker.
    struct alignas(64) Turn {
        std::uint32_t until_poll = 0;
        WorkerCounts counts;
    };

    bool has_work() {
        if (stream_.has_work()) return true;
        for (auto& queue : queues_) {
            if (queue->has_work()) return true;
        }
        return false;
    }

    void wire_up(std::uint32_t slot, const std::uint32_t* producers, std::uint32_t count, bool pinned) {
        auto& own = table_.wired(slot);
        own.fanout.store(0, Site::wired_reset);
        own.fanin_left.store(count + (WHET_GRAPH_PLANT(wired_claim_not_counted) ? 0 : 1), Site::wired_reset);
        own.references.store(pinned ? 2 : 1, Site::wired_reset);
        std::uint32_t done = 0;
        for (std::uint32_t index = 0; index < count; ++index) {
            if (!WHET_GRAPH_PLANT(wired_holds_nothing))
                table_.wired(producers[index]).references.fetch_add(1, Site::wired_hold);
            if (!readiness_.wire(producers[index], slot, index)) ++done;
        }
        // One stays for the worker that claims the task, so this cannot be the last.
        if (done != 0) own.fanin_left.fetch_sub(done, Site::wired_count);
    }

    Resolved resolve(std::uint32_t slot) {
        switch (shape_.policy) {
            case Policy::wired:
                return readiness_.count_down(slot) ? Resolved::ready : Resolved::handed;
            case Policy::polling:
                return readiness_.resolve_polling(slot);
            case Policy::hybrid:
                break;
        }
        return shape_.wake_target == WakeTarget::single ? readiness_.resolve_single(slot)
                                                        : readiness_.resolve_walking(slot);
    }

    // True if a task from the stream may run now.
    bool ready_from_stream(unsigned worker, std::uint32_t sequence, std::uint32_t left, std::uint32_t& slot) {
        slot = table_.slot_of(sequence);
        // From the submitter's cache; never beyond the run, where the submitter may be writing.
        if (left >= 2) __builtin_prefetch(&table_[table_.slot_of(sequence + 2)], 1);
        switch (resolve(slot)) {
            case Resolved::ready:
                return true;
            case Resolved::handed:
                return false;
            case Resolved::pending:
                queues_[worker]->add_pending(slot);
                return false;
        }
        return false;
    }

    bool find(unsigned worker, std::uint32_t& slot) {
        if (polls() && --turns_[worker].until_poll == 0) {
            turns_[worker].until_poll = shape_.poll_every;
            poll(worker, worker);
        }
        if (queues_[worker]->pop(slot)) return true;
        std::uint32_t sequence = 0;
        std::uint32_t left = 0;
        while (stream_.take(worker, sequence, left)) {
            if (ready_from_stream(worker, sequence, left, slot)) return true;
        }
        while (stream_.claim(worker, sequence, left)) {
            if (left != 0 && !WHET_GRAPH_PLANT(claim_announces_nothing)) sleep_.wake_one();
            do {
                if (ready_from_stream(worker, sequence, left, slot)) return true;
            } while (stream_.take(worker, sequence, left));
        }
        return steal_ready(worker, slot) || steal_run(worker, slot) || (polls() && poll_and_take(worker, slot));
    }

    bool steal_ready(unsigned worker, std::uint32_t& slot) {
        std::uint32_t kept[kStealMost];
        for (unsigned distance = 1; distance < shape_.workers; ++distance) {
            auto& victim = *queues_[(worker + distance) % shape_.workers];
            std::uint32_t count = 0;
            if (!victim.steal(kStealMost, slot, [&](std::uint32_t other) { kept[count++] = other; })) continue;
            if (!WHET_GRAPH_PLANT(steal_drops_rest)) push_ready(worker, kept, count);
            turns_[worker].counts.stolen.add(1);
            return true;
        }
        return false;
    }

    bool steal_run(unsigned worker, std::uint32_t& slot) {
        std::uint32_t sequence = 0;
        std::uint32_t left = 0;
        while (stream_.steal(worker, sequence, left)) {
            turns_[worker].counts.stolen.add(1);
            if (left != 0) sleep_.wake_one();
            do {
                if (ready_from_stream(worker, sequence, left, slot)) return true;
            } while (stream_.take(worker, sequence, left));
        }
        return false;
    }

    // Adds the time until it goes out of scope, if times are wanted.
    class Timer {
      public:
        Timer(bool timed, Tally& ns) : ns_(timed ? &ns : nullptr), begun_(timed ? now_ns() : 0) {}
        ~Timer() {
            if (ns_ != nullptr) ns_->add(now_ns() - begun_);
        }
        Timer(const Timer&) = delete;
        Timer& operator=(const Timer&) = delete;

      private:
        Tally* const ns_;
        const std::uint64_t begun_;
    };

    // One round through the pending tasks of `owner`; how many became ready.
    std::uint32_t look_through(unsigned worker, unsigned owner, std::uint32_t budget) {
        ReadyQueue<Seam>& queue = *queues_[owner];
        if (!queue.maybe_pending()) return 0;
        WorkerCounts& counts = turns_[worker].counts;
        const Timer timer(shape_.timed, counts.poll_ns);
        counts.polls.add(1);
        return queue.poll(budget, [this, &counts](std::uint32_t slot) {
            counts.looked.add(1);
            return resolve(slot);
        });
    }

    std::uint32_t poll(unsigned worker, unsigned owner) {
        const std::uint32_t moved = look_through(worker, owner, shape_.poll_budget);
        if (moved > 1) sleep_.wake_one();
        return moved;
    }

    bool poll_and_take(unsigned worker, std::uint32_t& slot) {
        for (unsigned distance = 0; distance < shape_.workers; ++distance) {
            const unsigned owner = (worker + distance) % shape_.workers;
            if (poll(worker, owner) != 0 && queues_[owner]->pop(slot)) return true;
        }
        return false;
    }

    // Every pending task once; true if one became ready.
    bool poll_all(unsigned worker) {
        bool any = false;
        for (unsigned owner = 0; owner < shape_.workers; ++owner) {
            any = look_through(worker, owner, shape_.window) != 0 || any;
        }
        return any;
    }

    void push_ready(unsigned worker, const std::uint32_t* slots, std::uint32_t count) {
        if (count == 0) return;
        queues_[worker]->push(count, [&slots] { return *slots++; });
        sleep_.wake_one();
    }

    // Publishes the result of a task and returns a successor to run next (plus one), or kEmpty. Further successors go
    // to the worker's queue.
    std::uint32_t finish(unsigned worker, std::uint32_t slot, Progress result) {
        if (!shape_.timed || shape_.policy == Policy::polling) [[likely]]
            return complete(worker, slot, result);
        const Timer timer(true, turns_[worker].counts.wake_ns);
        return complete(worker, slot, result);
    }
    // Nearly always nobody waits: only telling those who do is worth a call.
    [[gnu::always_inline]] std::uint32_t complete(unsigned worker, std::uint32_t slot, Progress result) {
        switch (shape_.policy) {
            case Policy::polling:
                readiness_.complete_polling(slot, result);
                return kEmpty;
            case Policy::wired:
                return hand_on<Policy::wired>(worker, slot, result);
            case Policy::hybrid:
                break;
        }
        const std::uint32_t waiters = readiness_.complete_waking(slot, result);
        if (waiters == kEmpty) [[likely]]
            return kEmpty;
        return hand_on<Policy::hybrid>(worker, waiters, result);
    }
    // `from`: under `wired` the task that is done, otherwise those who waited for it. The first one that may run now is
    // returned, the others are queued.
    template <Policy kPolicy>
    [[gnu::noinline]] std::uint32_t hand_on(unsigned worker, std::uint32_t from, Progress result) {
        std::uint32_t next = kEmpty;
        std::uint32_t batch[CoreShape::kMostWoken];
        std::uint32_t count = 0;
        const auto woken = [&](std::uint32_t ready) {
            turns_[worker].counts.woken.add(1);
            if (next == kEmpty) {
                next = ready + 1;
                return;
            }
            batch[count++] = ready;
            if (count == shape_.woken_batch) {
                if (!WHET_GRAPH_PLANT(woken_batch_dropped)) push_ready(worker, batch, count);
                count = 0;
            }
        };
        if constexpr (kPolicy == Policy::wired) {
            readiness_.complete_wired(from, result, woken);
        } else {
            readiness_.tell(from, result, [&](std::uint32_t waiter) {
                if (readiness_.resolve_walking(waiter) == Resolved::ready) woken(waiter);
            });
        }
        push_ready(worker, batch, count);
        return next;
    }

    const CoreShape shape_;
    SlotTable<Seam> table_;
    Readiness<Seam> readiness_;
    Stream<Seam> stream_;
    Parking<Seam> sleep_;
    std::vector<std::unique_ptr<ReadyQueue<Seam>>> queues_;
    std::unique_ptr<Turn[]> turns_;
};

}  // namespace whet::graph
