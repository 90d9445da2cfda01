// Tasks that became ready away from the submission order, and (polling, single) tasks that wait to be looked at again.
// One queue per worker behind a short lock; idle workers take from any of them. A ring of fixed capacity, and beyond it
// an intrusive list through the slots: a ready task always has a place.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/plants.hpp"
#include "graph/protocol/readiness.hpp"
#include "graph/protocol/trace.hpp"

namespace whet::graph {

template <class Seam>
class alignas(64) ReadyQueue {
  public:
    ReadyQueue(SlotTable<Seam>& table, std::uint32_t capacity)
        : table_(table), capacity_(capacity), ring_(new std::uint32_t[capacity]) {}

    bool maybe_ready() { return ready_size_.load(Site::size_peek) != 0; }
    bool maybe_pending() { return pending_size_.load(Site::size_peek) != 0; }

    std::uint64_t overflowed() const { return overflowed_.get(); }

    // For a worker about to sleep. Pending tasks do not count: their producers' completion brings them along.
    bool has_work() { return ready_size_.load(Site::idle_recheck) != 0; }

    template <class Next>
    void push(std::uint32_t count, Next&& next) {
        lock();
        for (std::uint32_t index = 0; index < count; ++index) put(next());
        show();
        unlock();
    }
    void push(std::uint32_t slot) {
        push(1, [slot] { return slot; });
    }

    bool pop(std::uint32_t& slot) {
        if (!maybe_ready()) return false;
        lock();
        const bool any = ready_ != 0;
        if (any) {
            slot = get();
            show();
        }
        unlock();
        return any;
    }

    // Half of the ready tasks, at most `most`: the first into `slot`, the others through `keep`.
    template <class Keep>
    bool steal(std::uint32_t most, std::uint32_t& slot, Keep&& keep) {
        if (!maybe_ready()) return false;
        lock();
        std::uint32_t share = (ready_ + 1) / 2;
        if (share > most) share = most;
        for (std::uint32_t index = 0; index < share; ++index) {
            const std::uint32_t taken = get();
            if (index == 0) {
                slot = taken;
            } else {
                keep(taken);
            }
        }
        if (share != 0) show();
        unlock();
        return share != 0;
    }

    void add_pending(std::uint32_t slot) {
        lock();
        append_pending(slot);
        pending_size_.store(pending_, Site::size_show);
        unlock();
    }

    // Looks at up to `budget` pending tasks, oldest first. resolve(slot) says what became of each; ready ones move to
    // the ready part. Returns how many moved.
    template <class Resolve>
    std::uint32_t poll(std::uint32_t budget, Resolve&& resolve) {
        lock();
        std::uint32_t looks = pending_ < budget ? pending_ : budget;
        std::uint32_t moved = 0;
        for (; looks != 0; --looks) {
            const std::uint32_t slot = pending_first_ - 1;
            pending_first_ = table_[slot].next.get();
            if (pending_first_ == kEmpty) pending_last_ = kEmpty;
            --pending_;
            switch (resolve(slot)) {
                case Resolved::ready:
                    put(slot);
                    ++moved;
                    break;
                case Resolved::pending:
                    if (!WHET_GRAPH_PLANT(pending_lost_when_polled)) append_pending(slot);
                    break;
                case Resolved::handed:
                    break;
            }
        }
        pending_size_.store(pending_, Site::size_show);
        if (moved != 0) show();
        unlock();
        return moved;
    }

  private:
    void lock() {
        std::uint32_t spins = 0;
        while (lock_.exchange(1, Site::lock_take) != 0) {
            // The holder may have lost its core: give way soon.
            if (++spins < 64) {
                Seam::pause();
            } else {
                Seam::yield();
            }
        }
    }
    void unlock() { lock_.store(0, Site::lock_drop); }
    void show() { ready_size_.store(ready_, Site::size_show); }

    void put(std::uint32_t slot) {
        if (in_ring_ < capacity_ && overflow_first_ == kEmpty) {
            ring_[(ring_first_ + in_ring_) % capacity_] = slot;
            ++in_ring_;
        } else if (WHET_GRAPH_PLANT(overflow_lost)) {
            return;
        } else {
            table_[slot].next.set(kEmpty);
            if (overflow_first_ == kEmpty) {
                overflow_first_ = slot + 1;
            } else {
                table_[overflow_last_ - 1].next.set(slot + 1);
            }
            overflow_last_ = slot + 1;
            overflowed_.add(1);
        }
        ++ready_;
    }

    std::uint32_t get() {
        --ready_;
        if (in_ring_ != 0) {
            const std::uint32_t slot = ring_[ring_first_];
            ring_first_ = (ring_first_ + 1) % capacity_;
            --in_ring_;
            return slot;
        }
        const std::uint32_t slot = overflow_first_ - 1;
        overflow_first_ = table_[slot].next.get();
        return slot;
    }

    void append_pending(std::uint32_t slot) {
        table_[slot].next.set(kEmpty);
        if (pending_last_ == kEmpty) {
            pending_first_ = slot + 1;
        } else {
            table_[pending_last_ - 1].next.set(slot + 1);
        }
        pending_last_ = slot + 1;
        ++pending_;
    }

    SlotTable<Seam>& table_;
    const std::uint32_t capacity_;
    std::unique_ptr<std::uint32_t[]> ring_;
    typename Seam::template Atomic<std::uint32_t> lock_;
    typename Seam::template Atomic<std::uint32_t> ready_size_;
    typename Seam::template Atomic<std::uint32_t> pending_size_;
    // All below: whoever holds the lock.
    std::uint32_t ring_first_ = 0;
    std::uint32_t in_ring_ = 0;
    std::uint32_t ready_ = 0;
    std::uint32_t overflow_first_ = kEmpty;
    std::uint32_t overflow_last_ = kEmpty;
    Tally overflowed_;
    std::uint32_t pending_first_ = kEmpty;
    std::uint32_t pending_last_ = kEmpty;
    std::uint32_t pending_ = 0;
};

}  // namespace whet::graph
