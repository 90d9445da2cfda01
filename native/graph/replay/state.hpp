// What a graph keeps between its replays: counters, marks and seats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/replay/deque.hpp"

namespace whet::graph {

template <class Seam>
struct ReplayState {
    template <class T>
    using Atomic = typename Seam::template Atomic<T>;
    template <class T>
    using Plain = typename Seam::template Plain<T>;

    // The counts belong to whoever sits there, and to the caller between replays.
    struct alignas(64) Seat {
        explicit Seat(std::size_t capacity) : deque(capacity) {}
        StealDeque<Seam> deque;
        Plain<std::int64_t> executed;
        Plain<std::int64_t> cancelled;
        Plain<std::int64_t> finished;  // counted tasks not yet taken off ReplaySession::remaining_
        // Only where the replay is watched: the place whose body is being run, plus one.
        Atomic<std::uint32_t> running;
    };

    explicit ReplayState(std::uint32_t tasks)
        : arrivals(new Atomic<std::uint32_t>[tasks]()), poisoned(new Atomic<std::uint8_t>[tasks]()) {}

    void seat(unsigned count, std::size_t capacity) {
        if (seats.size() == count && deque_capacity >= capacity) return;
        seats.clear();
        for (unsigned s = 0; s < count; ++s) seats.push_back(std::make_unique<Seat>(capacity));
        deque_capacity = capacity;
    }

    // Arrivals. They go up in one replay and down in the next, so that nothing is reset in between.
    const std::unique_ptr<Atomic<std::uint32_t>[]> arrivals;
    const std::unique_ptr<Atomic<std::uint8_t>[]> poisoned;  // a predecessor failed or did not run
    std::vector<std::unique_ptr<Seat>> seats;                // kept between replays: their deques are large
    std::size_t deque_capacity = 0;
    bool poison_left = false;
    bool solo_down = false;
    bool shared_down = false;
};

}  // namespace whet::graph
