// Which rows a worker computes. Each worker starts with a share of its own, cut into units that it claims from the
// front; one that has nothing left claims units of the others from the back, so that a worker whose core is slow for a
// moment holds the rest up by one unit. Shares keep long streams of lines; a claim is one compare-exchange.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace whet::decode {

enum class Product : std::size_t { q, k, v, attend, wo, fc1, fc2 };
constexpr std::size_t product_count = 7;

// Units taken of one worker's share of one product: from the front in the lower half, from the back in the upper half.
// Zero before every launch; any worker may claim. Relaxed is enough: what a unit writes is published by the barrier.
struct alignas(64) Claims {
    std::atomic<std::uint64_t> taken{0};

    void reset() { taken.store(0, std::memory_order_relaxed); }

    // Claims one of `units`; false when none is left.
    bool claim(std::size_t units, bool from_front, std::size_t& unit) {
        constexpr std::uint64_t back_one = std::uint64_t{1} << 32;
        std::uint64_t seen = taken.load(std::memory_order_relaxed);
        for (;;) {
            const std::uint64_t front = seen & (back_one - 1);
            const std::uint64_t back = seen >> 32;
            if (front + back >= units) return false;
            unit = from_front ? front : units - 1 - back;
            if (taken.compare_exchange_weak(seen, seen + (from_front ? 1 : back_one), std::memory_order_relaxed)) {
                return true;
            }
        }
    }
};

struct Rows {
    std::size_t begin = 0, end = 0;

    std::size_t count() const { return end - begin; }
};

// Rows that are multiplied in one go: `streams` stretches of `rows` rows that begin `apart` from each other, and a
// rest.
struct Part {
    std::size_t row = 0, rows = 0, apart = 0, streams = 0;
    Rows rest;

    std::size_t count() const { return rows * streams + rest.count(); }
};

// A stretch of rows as `streams` sequences, each read from its first row to its last so that the prefetcher never
// starts anew, cut into units of `step` rows of each sequence. The last unit has what does not divide.
struct Plan {
    Rows all;
    std::size_t streams = 1, apart = 0, step = 1;

    // `whole`: sequences of a multiple of that many rows. Else their distance is odd: rows of 2 KB at an even one would
    // all fall into the same sets of the first-level cache.
    Plan(Rows rows, std::size_t streams_, std::size_t whole, std::size_t step_)
        : all(rows), streams(streams_), apart(rows.count() / streams_), step(step_) {
        if (whole > 1) {
            apart = apart / whole * whole;
        } else if (apart > 0 && apart % 2 == 0) {
            --apart;
        }
    }

    std::size_t units() const {
        if (all.count() == 0) return 0;
        return apart == 0 ? 1 : (apart + step - 1) / step;
    }
    Part part(std::size_t unit) const {
        const std::size_t from = unit * step;
        const std::size_t to = from + step < apart ? from + step : apart;
        const Rows rest{unit + 1 == units() ? all.begin + streams * apart : all.end, all.end};
        return {all.begin + from, to - from, apart, streams, rest};
    }
};

}  // namespace whet::decode
