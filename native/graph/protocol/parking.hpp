// The one place where threads sleep: workers without work, workers between regions, and whoever waits for either. The
// sleeper counts itself, looks once more and sleeps on a ticket; whoever has made true what it waits for changes the
// ticket and wakes.
#pragma once

#include <cstdint>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"

namespace whet::graph {

template <class Seam>
class Parking {
  public:
    // One sleeper, after work has been made visible by a seq_cst access. Costs one load when nobody sleeps. At most one
    // wake-up is under way at a time: the woken worker clears the way for the next before it looks for work, and passes
    // the wake on when it finds some.
    void wake_one() {
        if (sleepers_.load(Site::idle_check) == 0) return;
        if (rousing_.exchange(1, Site::rouse_claim) != 0) return;
        ticket_.fetch_add(1, Site::idle_rouse);
        Seam::unpark_one(ticket_);
    }

    // All sleepers, likewise.
    void wake_all() {
        if (sleepers_.load(Site::idle_check) != 0) wake_everybody();
    }

    // Also those that are about to sleep, whatever they have seen: for shutdown and for errors.
    void wake_everybody() {
        ticket_.fetch_add(1, Site::idle_rouse);
        Seam::unpark_all(ticket_);
    }

    // Where every sleep has a limit: one that has just begun may be missed, and no order is paid for.
    void nudge_one() {
        if (sleepers_.load(Site::idle_glance) == 0) [[likely]]
            return;
        ticket_.fetch_add(1, Site::idle_rouse);
        Seam::unpark_one(ticket_);
    }
    void nudge_all() {
        if (sleepers_.load(Site::idle_glance) != 0) [[unlikely]]
            wake_everybody();
    }

    // Sleeps unless `found_work` says otherwise, at most timeout_ns() (0: no limit). Both are asked after this thread
    // counts as asleep. False if the time ran out and nobody had woken it.
    template <class FoundWork, class Timeout>
    bool sleep(FoundWork&& found_work, Timeout&& timeout_ns) {
        std::uint32_t ticket = ticket_.load(Site::idle_ticket);
        if (!WHET_GRAPH_PLANT(sleeper_not_counted)) sleepers_.fetch_add(1, Site::idle_enter);
        // A wake-up that met nobody asleep is still marked as under way; whoever read that mark and kept quiet made its
        // work visible before, so it is found below.
        if (!WHET_GRAPH_PLANT(mark_of_rouse_kept)) rousing_.exchange(0, Site::rouse_clear);
        const bool stay = found_work() && !WHET_GRAPH_PLANT(recheck_dropped);
        if (WHET_GRAPH_PLANT(ticket_read_late)) ticket = ticket_.load(Site::idle_ticket);
        if (!stay) Seam::park(ticket_, ticket, timeout_ns());
        if (!WHET_GRAPH_PLANT(sleeper_not_counted)) sleepers_.fetch_sub(1, Site::idle_leave);
        if (!WHET_GRAPH_PLANT(mark_of_rouse_kept)) rousing_.exchange(0, Site::rouse_clear);
        return stay || ticket_.load(Site::idle_ticket) != ticket;
    }

  private:
    alignas(64) typename Seam::template Atomic<std::uint32_t> sleepers_;
    alignas(64) typename Seam::template Atomic<std::uint32_t> ticket_;
    typename Seam::template Atomic<std::uint32_t> rousing_;
};

}  // namespace whet::graph
