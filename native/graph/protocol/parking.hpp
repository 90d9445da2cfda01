// Idle workers sleep here; whoever makes work wakes one of them. At most one wake-up is under way at a time: the woken
// worker clears the way for the next before it looks for work, and passes the wake on when it finds some.
#pragma once

#include <cstdint>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"

namespace whet::graph {

template <class Seam>
class Sleep {
  public:
    // After work has been made visible by a seq_cst store. Costs one load when nobody sleeps.
    void announce() {
        if (sleepers_.load(Site::idle_check) == 0) return;
        if (ringing_.exchange(1, Site::ring_claim) != 0) return;
        ticket_.fetch_add(1, Site::idle_ring);
        Seam::unpark_one(ticket_);
    }

    // Everybody, for shutdown and for errors.
    void announce_all() {
        ticket_.fetch_add(1, Site::idle_ring);
        Seam::unpark_all(ticket_);
    }

    // Sleeps unless `found_work` says otherwise, at most timeout_ns() (0: no limit). Both are asked after this worker
    // counts as asleep. False if the time ran out and nobody had announced anything.
    template <class FoundWork, class Timeout>
    bool sleep(FoundWork&& found_work, Timeout&& timeout_ns) {
        std::uint32_t ticket = ticket_.load(Site::idle_ticket);
        if (!WHET_GRAPH_PLANT(sleeper_not_counted)) sleepers_.fetch_add(1, Site::idle_enter);
        // A ring that met nobody asleep is still marked as under way; whoever read that mark and kept quiet made its
        // work visible before, so it is found below.
        if (!WHET_GRAPH_PLANT(mark_of_ring_kept)) ringing_.exchange(0, Site::ring_clear);
        const bool stay = found_work() && !WHET_GRAPH_PLANT(recheck_dropped);
        if (WHET_GRAPH_PLANT(ticket_read_late)) ticket = ticket_.load(Site::idle_ticket);
        if (!stay) Seam::park(ticket_, ticket, timeout_ns());
        if (!WHET_GRAPH_PLANT(sleeper_not_counted)) sleepers_.fetch_sub(1, Site::idle_leave);
        if (!WHET_GRAPH_PLANT(mark_of_ring_kept)) ringing_.exchange(0, Site::ring_clear);
        return stay || ticket_.load(Site::idle_ticket) != ticket;
    }

  private:
    alignas(64) typename Seam::template Atomic<std::uint32_t> sleepers_;
    alignas(64) typename Seam::template Atomic<std::uint32_t> ticket_;
    typename Seam::template Atomic<std::uint32_t> ringing_;
};

}  // namespace whet::graph
