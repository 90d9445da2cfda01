// The submission order as a queue. Workers claim runs of consecutive tasks; what a worker has claimed and not begun
// stays visible in its range word, so that others can take half of it when the worker is held up in a long body.
//
// Submission order is a topological order. A worker that follows it finds most producers done, because it has just run
// them itself, and needs no ready queue for such a task.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"

namespace whet::graph {

template <class Seam>
class Stream {
  public:
    // A worker claims one part in `parts` of what is there, at most `longest_run` tasks.
    Stream(unsigned workers, std::uint32_t longest_run, std::uint32_t parts)
        : workers_(workers), longest_run_(longest_run), parts_(parts), ranges_(new Range[workers]) {}

    std::uint64_t submitted() { return head_.load(Site::head_observe); }

    // Tasks below `head` may be claimed from now on. The submitter alone calls this.
    void publish(std::uint64_t head) { head_.store(head, Site::head_publish); }

    // All three give one task and tell how many of the run are `left` behind it, where thieves can see them.

    // The next task of this worker's run.
    bool take(unsigned worker, std::uint32_t& sequence, std::uint32_t& left) {
        auto& word = ranges_[worker].word;
        std::uint64_t range = word.load(Site::range_peek);
        while (low(range) != high(range)) {
            const std::uint64_t rest = pack(low(range) + 1, high(range));
            // Without thieves nobody else changes it, and a store costs a fraction of an exchange.
            if (workers_ == 1 || WHET_GRAPH_PLANT(take_beside_thieves)) {
                word.store(rest, Site::range_take);
            } else if (!word.compare_exchange(range, rest, Site::range_take)) {
                continue;
            }
            sequence = low(range);
            left = high(range) - sequence - 1;
            return true;
        }
        return false;
    }

    // Begins another run, once the own one is used up.
    bool claim(unsigned worker, std::uint32_t& sequence, std::uint32_t& left) {
        std::uint64_t next = claim_.load(Site::claim_peek);
        for (;;) {
            const std::uint64_t head = head_.load(Site::head_observe);
            if (next >= head) return false;
            // A fair part of what is there: short runs near the end keep the workers level.
            const std::uint64_t run = std::clamp<std::uint64_t>((head - next) / parts_, 1, longest_run_);
            if (!claim_.compare_exchange(next, next + run, Site::claim_take)) continue;
            sequence = static_cast<std::uint32_t>(next);
            left = static_cast<std::uint32_t>(run - 1);
            if (left != 0) {
                show(worker, sequence + (WHET_GRAPH_PLANT(claim_shows_first_again) ? 0 : 1),
                     static_cast<std::uint32_t>(next + run));
            }
            return true;
        }
    }

    // The upper half of somebody else's run, once the own one is used up.
    bool steal(unsigned thief, std::uint32_t& sequence, std::uint32_t& left) {
        for (unsigned step = 1; step < workers_; ++step) {
            auto& word = ranges_[(thief + step) % workers_].word;
            std::uint64_t range = word.load(Site::range_peek);
            while (low(range) != high(range)) {
                const std::uint32_t middle = low(range) + (high(range) - low(range)) / 2;
                if (!word.compare_exchange(range,
                                           pack(low(range), middle + (WHET_GRAPH_PLANT(steal_leaves_middle) ? 1 : 0)),
                                           Site::range_steal))
                    continue;
                sequence = middle;
                left = high(range) - middle - 1;
                if (left != 0) show(thief, middle + 1, high(range));
                return true;
            }
        }
        return false;
    }

    bool holds_run(unsigned worker) {
        const std::uint64_t range = ranges_[worker].word.load(Site::range_peek);
        return low(range) != high(range);
    }

    // For a worker about to sleep: is there anything to claim or to steal?
    bool has_work() {
        if (head_.load(Site::idle_recheck) != claim_.load(Site::claim_peek)) return true;
        for (unsigned worker = 0; worker < workers_; ++worker) {
            const std::uint64_t range = ranges_[worker].word.load(Site::idle_recheck);
            if (low(range) != high(range)) return true;
        }
        return false;
    }

  private:
    // Low half: next sequence number; high half: end. Sequence numbers are cut to 32 bits: a compare-exchange could be
    // fooled only by a thread that sleeps through exactly 2^32 tasks between its load and its exchange.
    struct alignas(64) Range {
        typename Seam::template Atomic<std::uint64_t> word;
    };
    static std::uint32_t low(std::uint64_t range) { return static_cast<std::uint32_t>(range); }
    static std::uint32_t high(std::uint64_t range) { return static_cast<std::uint32_t>(range >> 32); }
    static std::uint64_t pack(std::uint32_t begin, std::uint32_t end) {
        return (static_cast<std::uint64_t>(end) << 32) | begin;
    }

    void show(unsigned worker, std::uint32_t begin, std::uint32_t end) {
        ranges_[worker].word.store(pack(begin, end), Site::range_give);
    }

    const unsigned workers_;
    const std::uint32_t longest_run_;
    const std::uint32_t parts_;
    alignas(64) typename Seam::template Atomic<std::uint64_t> head_;
    alignas(64) typename Seam::template Atomic<std::uint64_t> claim_;
    std::unique_ptr<Range[]> ranges_;
};

}  // namespace whet::graph
