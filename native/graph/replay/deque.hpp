// A work-stealing deque of 64-bit items that never grows: the owner pushes and pops at the bottom, thieves take the
// top.
//
// The algorithm is Chase and Lev's. Capacity is fixed by the caller, who knows how many items can be outstanding.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"

namespace whet::graph {

template <class Seam>
class StealDeque {
  public:
    static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
    // A thief that lost a race: there may be more to take.
    static constexpr std::uint64_t kLost = ~std::uint64_t{0} - 1;

    explicit StealDeque(std::size_t capacity)
        : mask_(std::bit_ceil(capacity) - 1), items_(new Atomic<std::uint64_t>[mask_ + 1]) {}

    // Owner only.
    void push(std::uint64_t item) {
        const std::int64_t bottom = bottom_.load(Site::deque_own);
        if (WHET_GRAPH_PLANT(deque_bottom_before_item)) bottom_.store(bottom + 1, Site::deque_push);
        place(bottom).store(item, Site::deque_item);
        if (!WHET_GRAPH_PLANT(deque_bottom_before_item)) bottom_.store(bottom + 1, Site::deque_push);
    }

    // Owner only.
    std::uint64_t pop() {
        const std::int64_t bottom = bottom_.load(Site::deque_own) - 1;
        // An empty deque is seen without a fence: only the owner adds items.
        if (top_.load(Site::deque_look) > bottom) return kNothing;
        bottom_.exchange(bottom, Site::deque_claim);
        std::int64_t top = top_.load(Site::deque_pop_top);
        if (top < bottom) return place(bottom).load(Site::deque_item);
        std::uint64_t item = kNothing;
        if (top == bottom &&
            (WHET_GRAPH_PLANT(deque_last_without_race) || top_.compare_exchange(top, top + 1, Site::deque_last))) {
            item = place(bottom).load(Site::deque_item);
        }
        if (!WHET_GRAPH_PLANT(deque_bottom_not_restored)) bottom_.store(bottom + 1, Site::deque_restore);
        return item;
    }

    // Any thread.
    std::uint64_t steal() {
        std::int64_t top = top_.load(Site::deque_steal_top);
        const std::int64_t bottom = bottom_.load(Site::deque_steal_bottom);
        if (top >= bottom) return kNothing;
        const std::uint64_t item = place(top).load(Site::deque_item);
        return top_.compare_exchange(top, top + 1, Site::deque_steal) ? item : kLost;
    }

    bool looks_empty() const { return top_.load(Site::deque_look) >= bottom_.load(Site::deque_look); }

  private:
    template <class T>
    using Atomic = typename Seam::template Atomic<T>;
    Atomic<std::uint64_t>& place(std::int64_t at) { return items_[static_cast<std::size_t>(at) & mask_]; }

    const std::size_t mask_;
    const std::unique_ptr<Atomic<std::uint64_t>[]> items_;
    alignas(64) Atomic<std::int64_t> top_;     // thieves and the owner, by compare-exchange
    alignas(64) Atomic<std::int64_t> bottom_;  // written by the owner alone
};

}  // namespace whet::graph
