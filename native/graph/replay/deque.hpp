// A work-stealing deque of 64-bit items that never grows: the owner pushes and pops at the bottom, thieves take the
// top.
//
// The algorithm is Chase and Lev's. Capacity is fixed by the caller, who knows how many items can be outstanding.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace whet::graph {

class StealDeque {
  public:
    static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
    // A thief that lost a race: there may be more to take.
    static constexpr std::uint64_t kLost = ~std::uint64_t{0} - 1;

    explicit StealDeque(std::size_t capacity)
        : mask_(std::bit_ceil(capacity) - 1), items_(new std::atomic<std::uint64_t>[mask_ + 1]) {}

    // Owner only.
    void push(std::uint64_t item) {
        const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
        items_[static_cast<std::size_t>(bottom) & mask_].store(item, std::memory_order_relaxed);
        // Release: a thief that sees the new bottom sees the item and all that its producer wrote.
        bottom_.store(bottom + 1, std::memory_order_release);
    }

    // Owner only.
    std::uint64_t pop() {
        const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
        // An empty deque is seen without a fence: only the owner adds items.
        if (top_.load(std::memory_order_relaxed) > bottom) return kNothing;
        // seq_cst exchange: the claim of the bottom item is ordered before the look at the top.
        bottom_.exchange(bottom, std::memory_order_seq_cst);
        std::int64_t top = top_.load(std::memory_order_seq_cst);
        if (top < bottom) return items_[static_cast<std::size_t>(bottom) & mask_].load(std::memory_order_relaxed);
        std::uint64_t item = kNothing;
        if (top == bottom && top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst)) {
            item = items_[static_cast<std::size_t>(bottom) & mask_].load(std::memory_order_relaxed);
        }
        bottom_.store(bottom + 1, std::memory_order_relaxed);
        return item;
    }

    // Any thread.
    std::uint64_t steal() {
        // seq_cst twice: a thief that misses the owner's claim of the bottom is seen by the owner at the top.
        std::int64_t top = top_.load(std::memory_order_seq_cst);
        const std::int64_t bottom = bottom_.load(std::memory_order_seq_cst);
        if (top >= bottom) return kNothing;
        const std::uint64_t item = items_[static_cast<std::size_t>(top) & mask_].load(std::memory_order_relaxed);
        return top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst) ? item : kLost;
    }

    bool looks_empty() const { return top_.load(std::memory_order_relaxed) >= bottom_.load(std::memory_order_relaxed); }

  private:
    const std::size_t mask_;
    const std::unique_ptr<std::atomic<std::uint64_t>[]> items_;
    alignas(64) std::atomic<std::int64_t> top_{0};     // thieves and the owner, by compare-exchange
    alignas(64) std::atomic<std::int64_t> bottom_{0};  // written by the owner alone
};

}  // namespace whet::graph
