// One parallel region after the other, as the caller and the workers of a pool go through them: groups of chunks are
// claimed from a counter, counted when done, and the caller returns when all are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <utility>

#include "graph/plants.hpp"
#include "graph/protocol/atomics.hpp"
#include "graph/protocol/failure.hpp"
#include "graph/protocol/parking.hpp"

namespace whet::graph {

template <class Seam>
class ParallelRegions {
  public:
    template <class T>
    using Atomic = typename Seam::template Atomic<T>;
    using Call = void (*)(void* context, std::size_t chunk, unsigned worker);
    using ThreadEnd = typename Seam::ThreadEnd;

    explicit ParallelRegions(bool may_spin) : may_spin_(may_spin) {}

    // The caller's: publishes a region and returns its number of groups. `watched`: threads that end are no failure.
    std::uint64_t open(std::size_t chunks, Call call, void* context, const std::atomic<bool>* cancel, bool watched) {
        const std::uint64_t size = (chunks + kMostGroups - 1) / kMostGroups;
        const std::uint64_t groups = (chunks + size - 1) / size;
        // Close the previous region before its fields change: a late worker then finds no group in it.
        const std::uint64_t number =
            (claim_.load(Site::crew_close) >> 32) + (WHET_GRAPH_PLANT(crew_number_kept) ? 0 : 1);
        if (!WHET_GRAPH_PLANT(crew_not_closed)) claim_.store((number << 32) | kClosed, Site::crew_close);
        if (WHET_GRAPH_PLANT(crew_open_too_early)) claim_.store(number << 32, Site::crew_open);
        call_.store(call, Site::crew_field);
        context_.store(context, Site::crew_field);
        cancel_.store(cancel, Site::crew_field);
        watched_.store(watched, Site::crew_field);
        chunks_.store(chunks, Site::crew_field);
        group_size_.store(size, Site::crew_field);
        groups_.store(groups, Site::crew_count);
        if (!WHET_GRAPH_PLANT(crew_skips_for_ever)) skip_.store(false, Site::crew_field);
        if (!WHET_GRAPH_PLANT(crew_done_kept)) done_.store(0, Site::crew_field);
        failure_.clear();
        if (!WHET_GRAPH_PLANT(crew_open_too_early)) claim_.store(number << 32, Site::crew_open);
        epoch_.fetch_add(1, Site::crew_epoch);
        if (!WHET_GRAPH_PLANT(crew_opens_silently)) idle_.wake_all();
        return groups;
    }

    // Claims and runs groups of the current region until none is left. replace(worker) is called on a thread that its
    // body ends, and sees to another that takes over its number.
    template <class Replace>
    void work(unsigned worker, Replace&& replace) {
        std::uint64_t word = claim_.load(Site::crew_peek);
        for (;;) {
            const std::uint64_t index = word & kClosed;
            // Acquire: a worker still holding an older claim word that sees the next region's count here also sees that
            // its region was closed, so its compare-exchange fails.
            const std::uint64_t groups = groups_.load(Site::crew_count_look);
            const std::uint64_t size = group_size_.load(Site::crew_field);
            const std::uint64_t chunks = chunks_.load(Site::crew_field);
            const Call call = call_.load(Site::crew_field);
            void* const context = context_.load(Site::crew_field);
            const std::atomic<bool>* const cancel = cancel_.load(Site::crew_field);
            if (index >= groups) {
                const std::uint64_t again = claim_.load(Site::crew_peek);
                if (again == word) return;
                word = again;
                continue;
            }
            // A success proves that the region is still the one whose fields were read: they change only when all of
            // its groups are done.
            if (!claim_.compare_exchange(word, word + 1, Site::crew_take)) continue;
            const std::uint64_t end = std::min(chunks, (index + 1) * size);
            for (std::uint64_t chunk = index * size; chunk < end; ++chunk) {
                if (skip_.load(Site::crew_field)) break;
                if (cancel && cancel->load(std::memory_order_relaxed)) {
                    skip_.store(true, Site::crew_field);
                    break;
                }
                try {
                    call(context, chunk, worker);
                } catch (const ThreadEnd&) {
                    if (!watched_.load(Site::crew_field)) {
                        fail(chunk, std::make_exception_ptr(std::runtime_error(kEndedThread)));
                    }
                    replace(worker);
                    if (!WHET_GRAPH_PLANT(crew_ended_group_not_done)) finish_group(groups);
                    throw;
                } catch (...) {
                    if (!WHET_GRAPH_PLANT(crew_failure_lost)) fail(chunk, std::current_exception());
                }
            }
            finish_group(groups);
            ++word;
        }
    }

    // A worker's life.
    template <class Replace>
    void serve(unsigned worker, Replace&& replace) {
        std::uint32_t seen = 0;
        typename Seam::Patience patience(may_spin_);
        while (stop_.load(Site::crew_stop) == 0) {
            const std::uint32_t now = epoch_.load(Site::crew_epoch_look);
            if (now != seen) {
                seen = now;
                work(worker, replace);
                patience.reset();
                continue;
            }
            if (patience.wait()) continue;
            idle_.sleep([&] { return epoch_.load(Site::idle_recheck) != seen || stop_.load(Site::idle_recheck) != 0; },
                        [] { return 0; });
            patience.reset();
        }
    }

    // The caller's share. A body that ends the calling thread takes it away only after the others are done, because
    // what they work on may lie on its stack.
    void help(std::uint64_t groups) {
        try {
            work(0, [](unsigned) {});
        } catch (const ThreadEnd&) {
            if (!WHET_GRAPH_PLANT(crew_ended_caller_leaves)) await_all(groups);
            throw;
        }
    }

    // False when give_up() ends the wait before all groups are done. It is asked each time before sleeping.
    template <class GiveUp>
    bool await_all(std::uint64_t groups, std::uint64_t sleep_ns, GiveUp&& give_up) {
        typename Seam::Patience patience(may_spin_);
        while (done_.load(Site::crew_done_look) != groups) {
            if (patience.wait()) continue;
            if (give_up()) return false;
            waiting_.sleep([&] { return done_.load(Site::idle_recheck) == groups; }, [&] { return sleep_ns; });
        }
        return true;
    }
    void await_all(std::uint64_t groups) {
        (void)await_all(groups, 0, [] { return false; });
    }

    // The first exception of the region, once. When all groups are done.
    std::exception_ptr take_failure() {
        Failure failure;
        (void)failure_.take(failure);
        return std::move(failure.thrown);
    }

    // No group of this region begins any more; how many have. done() counts those that are over.
    std::uint64_t bar() {
        if (WHET_GRAPH_PLANT(crew_bars_nothing)) return claim_.load(Site::crew_close) & kClosed;
        return claim_.fetch_or(kClosed, Site::crew_close) & kClosed;
    }
    const Atomic<std::uint64_t>& done() const { return done_; }

    void stop() {
        stop_.store(1, Site::crew_stop);
        idle_.wake_everybody();
    }

  private:
    // Groups of chunks keep the claim counter within 32 bits.
    static constexpr std::uint64_t kMostGroups = 0x7fffffff;
    static constexpr std::uint64_t kClosed = 0xffffffff;  // a claim counter that no group follows

    // seq_cst pairs with the caller's: it either sees the count or is seen asleep.
    void finish_group(std::uint64_t groups) {
        const bool last = done_.fetch_add(1, Site::crew_done) + 1 == groups;
        if (last && !WHET_GRAPH_PLANT(crew_ends_silently)) waiting_.wake_all();
    }

    void fail(std::uint64_t chunk, std::exception_ptr thrown) {
        failure_.keep(chunk, {.thrown = std::move(thrown)});
        skip_.store(true, Site::crew_field);
    }

    // Region number in the upper half, next unclaimed group in the lower half.
    alignas(64) Atomic<std::uint64_t> claim_;
    // Groups finished in this region. The caller returns when it reaches their number.
    alignas(64) Atomic<std::uint64_t> done_;
    // Written by the caller between regions.
    alignas(64) Atomic<std::uint64_t> groups_;
    Atomic<std::uint64_t> chunks_;
    Atomic<std::uint64_t> group_size_;
    Atomic<Call> call_;
    Atomic<void*> context_;
    Atomic<const std::atomic<bool>*> cancel_;
    Atomic<bool> watched_;
    Atomic<bool> skip_;  // and by whoever fails
    // Bumped once per region.
    alignas(64) Atomic<std::uint32_t> epoch_;
    Atomic<std::uint32_t> stop_;
    Parking<Seam> idle_;     // workers between regions
    Parking<Seam> waiting_;  // the caller, while others finish their last groups
    FirstFailure<Seam> failure_;
    const bool may_spin_;
};

}  // namespace whet::graph
