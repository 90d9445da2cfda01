// The lock of the submitter's state. Served in the order of arrival, so that a caller who takes it again at once lets
// the others through first. Nobody runs a body, waits for room or asks the interpreter while holding it: it is held for
// microseconds, and whoever waits for it needs no ear for interrupts.
#pragma once

#include <atomic>
#include <cstdint>

#include "graph/protocol/park.hpp"

namespace whet::graph {

class FairLock {
  public:
    void lock() {
        const std::uint32_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
        std::uint32_t now = serving_.load(std::memory_order_acquire);
        for (unsigned spins = 0; now != ticket; now = serving_.load(std::memory_order_acquire)) {
            if (++spins < kSpins) {
                cpu_pause();
            } else {
                // The limit makes a missed wake-up harmless: unlock() looks for waiters after a plain store.
                park(serving_, now, kNapNs);
            }
        }
    }
    void unlock() {
        const std::uint32_t mine = serving_.load(std::memory_order_relaxed);
        serving_.store(mine + 1, std::memory_order_release);
        if (next_.load(std::memory_order_relaxed) != mine + 1) unpark_all(serving_);
    }
    // Whether somebody waits for the holder, who asks.
    bool wanted() const {
        return next_.load(std::memory_order_relaxed) != serving_.load(std::memory_order_relaxed) + 1;
    }

  private:
    static constexpr unsigned kSpins = 64;
    static constexpr std::uint64_t kNapNs = 50'000;

    std::atomic<std::uint32_t> next_{0};
    std::atomic<std::uint32_t> serving_{0};
};

}  // namespace whet::graph
