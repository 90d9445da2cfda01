// When may a task run, and what does its completion set off: one function pair per policy, over the same slots.
//
// In every pair the completing side gives up the slot with its last store (flag_done, or the last wired_release): after
// that the submitter may reuse it. So all reads of the own slot come first.
#pragma once

#include <cstdint>

#include "graph/plants.hpp"
#include "graph/protocol/slots.hpp"

namespace whet::graph {

enum class Resolved : std::uint8_t {
    ready,    // the caller runs it
    handed,   // somebody else holds it now; the caller must not touch it again
    pending,  // the caller keeps it and asks again later
};

template <class Seam>
class Readiness {
  public:
    // `alone`: there is one worker, who is the only one to register tasks and to complete them.
    Readiness(SlotTable<Seam>& table, bool alone) : table_(table), alone_(alone) {}

    // hybrid, wake target last or first (the submitter stores the producers in that order): walks the producers once,
    // from the cursor down, and registers at the first unmet one. Every flag is read until it is seen set, never again.
    Resolved resolve_walking(std::uint32_t slot) {
        Slot<Seam>& own = table_[slot];
        std::uint32_t cursor = own.cursor.get();
        while (cursor > 0) {
            const std::uint32_t producer = table_.producer(slot, cursor - 1);
            Progress seen = static_cast<Progress>(table_.flag(producer).load(Site::flag_check));
            --cursor;
            if (WHET_GRAPH_PLANT(walk_skips_a_producer) && cursor == 1) --cursor;
            if (seen == Progress::pending) {
                own.cursor.set(cursor);
                seen = register_at(producer, slot);
                if (seen == Progress::pending) return Resolved::handed;
                if (seen == Progress::failed && WHET_GRAPH_PLANT(late_registrar_not_poisoned)) continue;
                if (seen == Progress::failed) own.poisoned.set(1);
            } else if (seen == Progress::failed && !WHET_GRAPH_PLANT(walk_forgets_poison)) {
                own.poisoned.set(1);
            }
        }
        return Resolved::ready;
    }

    // hybrid, wake target single: counts the unmet producers and registers when one is left.
    Resolved resolve_single(std::uint32_t slot) {
        Slot<Seam>& own = table_[slot];
        const std::uint32_t count = own.cursor.get();
        std::uint32_t unmet = 0;
        std::uint32_t last = 0;
        for (std::uint32_t index = 0; index < count; ++index) {
            const std::uint32_t producer = table_.producer(slot, index);
            const Progress seen = static_cast<Progress>(table_.flag(producer).load(Site::flag_check));
            if (seen == Progress::failed && !WHET_GRAPH_PLANT(single_forgets_poison)) own.poisoned.set(1);
            if (seen == Progress::pending) {
                last = producer;
                if (++unmet > 1) return Resolved::pending;
            }
        }
        if (unmet == 0) return Resolved::ready;
        own.cursor.set(0);
        const Progress seen = register_at(last, slot);
        if (seen == Progress::pending) return Resolved::handed;
        if (seen == Progress::failed && !WHET_GRAPH_PLANT(single_late_not_poisoned)) own.poisoned.set(1);
        return Resolved::ready;
    }

    // polling: looks at the first producer not yet seen done.
    Resolved resolve_polling(std::uint32_t slot) {
        Slot<Seam>& own = table_[slot];
        std::uint32_t cursor = own.cursor.get();
        while (cursor > 0) {
            const Progress seen =
                static_cast<Progress>(table_.flag(table_.producer(slot, cursor - 1)).load(Site::flag_check));
            if (seen == Progress::pending) {
                own.cursor.set(cursor);
                return Resolved::pending;
            }
            if (seen == Progress::failed && !WHET_GRAPH_PLANT(polling_forgets_poison)) own.poisoned.set(1);
            --cursor;
        }
        return Resolved::ready;
    }

    void complete_polling(std::uint32_t slot, Progress result) {
        table_.flag(slot).store(static_cast<std::uint8_t>(result), Site::flag_done);
    }

    // hybrid: closes the wake list, then publishes the byte. In this order the slot is given up last, and a task that
    // finds the list closed knows the producer is done even before the byte shows it. Returns the waiters, for tell().
    std::uint32_t complete_waking(std::uint32_t slot, Progress result) {
        const std::uint32_t closed = result == Progress::done ? kClosedDone : kClosedFailed;
        if (WHET_GRAPH_PLANT(byte_before_wake_close))
            table_.flag(slot).store(static_cast<std::uint8_t>(result), Site::flag_done);
        const std::uint32_t waiters = close(table_[slot].wake, closed);
        table_.flag(slot).store(static_cast<std::uint8_t>(result), Site::flag_done);
        return waiters;
    }
    // Calls woken(slot) for each waiter: its other producers are done as well (single) or it must walk on (last,
    // first).
    template <class Woken>
    void tell(std::uint32_t waiter, Progress result, Woken&& woken) {
        while (waiter != kEmpty) {
            const std::uint32_t woken_slot = waiter - 1;
            Slot<Seam>& own = table_[woken_slot];
            waiter = own.next.get();
            if (result == Progress::failed && !WHET_GRAPH_PLANT(wake_forgets_poison)) own.poisoned.set(1);
            woken(woken_slot);
            if (WHET_GRAPH_PLANT(second_waiter_lost)) break;
        }
    }

    // wired: the submitter links the consumer into the producer's list; false if the producer is already done.
    bool wire(std::uint32_t producer, std::uint32_t consumer, std::uint32_t index) {
        auto& fanout = table_.wired(producer).fanout;
        const std::uint64_t edge = (static_cast<std::uint64_t>(consumer + 1) << 32) | index;
        std::uint64_t head = fanout.load(Site::wired_peek);
        do {
            if (head == kFanoutClosed) return WHET_GRAPH_PLANT(wired_waits_for_done_producer);
            table_.set_link(consumer, index, head);
        } while (!fanout.compare_exchange(head, edge, Site::wired_link));
        return true;
    }

    // wired: one reason to wait fewer. True for the caller that took away the last one.
    bool count_down(std::uint32_t slot) { return table_.wired(slot).fanin_left.fetch_sub(1, Site::wired_count) == 1; }

    // wired: tells the consumers, then drops the references on the producers and at last the own one.
    template <class Woken>
    void complete_wired(std::uint32_t slot, Progress result, Woken&& woken) {
        if (!WHET_GRAPH_PLANT(wired_byte_after_close))
            table_.flag(slot).store(static_cast<std::uint8_t>(result), Site::flag_done);
        std::uint64_t edge = table_.wired(slot).fanout.exchange(kFanoutClosed, Site::wired_close);
        if (WHET_GRAPH_PLANT(wired_consumer_lost) && edge != 0) edge = table_.link(edge);
        while (edge != 0) {
            const std::uint32_t consumer = static_cast<std::uint32_t>(edge >> 32) - 1;
            edge = table_.link(edge);
            if (count_down(consumer)) woken(consumer);
        }
        const std::uint32_t count = table_[slot].fanin_count.get();
        for (std::uint32_t index = 0; index < count; ++index) release(table_.producer(slot, index));
        if (WHET_GRAPH_PLANT(wired_byte_after_close))
            table_.flag(slot).store(static_cast<std::uint8_t>(result), Site::flag_done);
        if (!WHET_GRAPH_PLANT(wired_keeps_own_reference)) release(slot);
    }

    void release(std::uint32_t slot) { table_.wired(slot).references.fetch_sub(1, Site::wired_release); }

  private:
    // All who have registered. Others may do so meanwhile, unless this worker is the only one.
    std::uint32_t close(typename Seam::template Atomic<std::uint32_t>& wake, std::uint32_t closed) {
        if (!alone_ && !WHET_GRAPH_PLANT(wake_closed_beside_others)) return wake.exchange(closed, Site::wake_close);
        const std::uint32_t waiters = wake.load(Site::wake_alone);
        wake.store(closed, Site::wake_alone);
        return waiters;
    }

    // Pending means registered: the producer will wake the task, which the caller no longer holds.
    Progress register_at(std::uint32_t producer, std::uint32_t slot) {
        auto& wake = table_[producer].wake;
        std::uint32_t head = wake.load(Site::wake_peek);
        do {
            if (head == kClosedDone && !WHET_GRAPH_PLANT(late_registrar_waits)) return Progress::done;
            if (head == kClosedFailed) return Progress::failed;
            table_[slot].next.set(head);
        } while (!wake.compare_exchange(head, slot + 1, Site::wake_register));
        return Progress::pending;
    }

    SlotTable<Seam>& table_;
    const bool alone_;
};

}  // namespace whet::graph
