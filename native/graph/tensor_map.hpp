// Which tasks still touch which bytes: finds the producers of a task from the regions it reads and writes. The
// submitter alone uses it, so nothing here is shared.
//
// Entries live in a ring and are dropped from its end when their task is done. Nothing has to be unlinked for that:
// chains link towards older positions, so a walk stops at the first dropped one. Each buffer has a chain, newest first.
// A buffer with many live regions is indexed as well: by (buffer, size class, chunk of that size), a region touching at
// most two chunks of its class, so that a thousand tiles of one array do not make a chain of a thousand.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

#include "graph/region.hpp"

namespace whet::graph {

class TensorMap {
  public:
    explicit TensorMap(std::uint32_t capacity);  // a power of two, at most 2^22

    std::uint32_t capacity() const { return capacity_; }
    std::uint32_t used() const { return head_ - tail_; }
    std::uint32_t peak() const { return std::max(peak_, used()); }
    bool room(std::uint32_t entries) const { return used() + entries <= capacity_; }
    std::uint64_t steps() const { return steps_; }  // entries looked at, for profiling

    // Tasks below `watermark` are done. lost(task, buffer, region, writes) is called for each region that is dropped.
    template <class Lost>
    void reclaim(std::uint64_t watermark, Lost&& lost) {
        watermark_ = watermark;
        peak_ = peak();
        while (tail_ != head_) {
            const Entry& entry = at(tail_);
            if (!entry.dead && entry.task >= watermark) break;
            if (!entry.dead) lost(entry.task, entry.base, region_of(entry), entry.writes);
            ++tail_;
        }
    }

    // Where a buffer's chain begins. A buffer that always comes with the task that made it may keep the link there
    // instead, initialised to no_chain(); then nothing is hashed.
    std::uint32_t& chain_of(std::uint64_t base) { return buffer_heads_[mix(base) >> 20 & (buckets_ - 1)]; }
    std::uint32_t no_chain() const { return head_ - capacity_ - 1; }

    // Calls found(task) for every live task that conflicts with the access: writers, and for a write readers as well.
    // A write that covers an entry replaces it, so insert() must follow. With `done_too`, tasks below the watermark
    // that are still in the ring count as live.
    template <class Found>
    void lookup(std::uint32_t& chain, std::uint64_t base, const Region& region, bool writes, bool done_too,
                Found&& found) {
        const std::uint64_t floor = done_too ? 0 : watermark_;
        for (std::uint32_t* link = &chain; alive(*link);) {
            Entry& entry = at(*link);
            const bool last = entry.next_of_buffer == *link;
            if (entry.base == base) {
                // The newest entry of the buffer comes first and knows whether the buffer is indexed.
                if (entry.indexed && !done_too) {
                    lookup_indexed(chain, entry, region, writes, floor, found);
                    return;
                }
                if (!entry.dead && entry.task >= floor) meet(entry, region, writes, found);
                if (entry.dead && !entry.indexed && (!last || link == &chain)) {
                    *link = last ? no_chain() : entry.next_of_buffer;
                    if (last) return;
                    continue;
                }
            }
            if (last) return;
            link = &entry.next_of_buffer;
        }
    }

    // After room(1). A strided view is copied.
    void insert(std::uint32_t& chain, std::uint64_t base, const Region& region, bool writes, std::uint64_t task) {
        const std::uint32_t newest = newest_of(chain, base);
        std::uint32_t count = 1;
        if (newest != kNone && at(newest).task >= watermark_) {
            count += at(newest).count;
            if (at(newest).indexed || count >= kIndexFrom) {
                insert_indexed(chain, newest, base, region, writes, task);
                return;
            }
        }
        const std::uint32_t position = head_++;
        Entry& own = at(position);
        own.base = base;
        own.begin = region.begin;
        own.end = region.end;
        own.task = task;
        own.next_of_buffer = alive(chain) && chain != position ? chain : position;
        own.count = static_cast<std::uint16_t>(count);
        own.indexed = false;
        own.writes = writes;
        own.dead = false;
        own.strided = region.view != nullptr;
        if (region.view) keep_view(position, *region.view);
        chain = position;
    }

  private:
    static constexpr std::uint32_t kNone = 0xffffffff;  // as a result; in a link the end is the entry's own position
    static constexpr std::uint64_t kNoChunk = ~std::uint64_t{0};
    static constexpr std::uint32_t kIndexFrom = 12;  // live regions of one buffer from which an index pays
    static constexpr std::uint32_t kMostCount = 0xffff;
    static constexpr unsigned kLowestLevel = 6;

    struct alignas(64) Entry {
        std::uint64_t base;
        std::uint64_t begin;
        std::uint64_t end;
        std::uint64_t task;
        std::uint64_t next_of_chunk[2];  // position * 2 + which of the two chunks
        std::uint32_t next_of_buffer;
        // Summary of the buffer; the newest entry's counts.
        std::uint32_t write_levels;
        std::uint32_t read_levels;
        std::uint16_t count;  // at least the live entries, up to kMostCount
        std::uint8_t level;
        bool indexed : 1;
        bool writes : 1;
        bool dead : 1;  // replaced by a later write that covers it
        bool strided : 1;
    };
    static_assert(sizeof(Entry) == 64);

    Entry& at(std::uint32_t position) { return entries_[position & (capacity_ - 1)]; }
    bool alive(std::uint32_t position) const { return position - tail_ < head_ - tail_; }
    Region region_of(const Entry& entry) const {
        return {entry.begin, entry.end, entry.strided ? &views_[&entry - entries_.get()] : nullptr};
    }

    static unsigned level_of(const Region& region) {
        const auto width = static_cast<unsigned>(std::bit_width(region.end - region.begin - 1));
        return std::clamp(width, kLowestLevel, kLowestLevel + 31);
    }
    static unsigned level_of_bit(std::uint32_t levels) {
        return static_cast<unsigned>(std::countr_zero(levels)) + kLowestLevel;
    }
    static std::uint64_t mix(std::uint64_t value) {
        value *= 0x9e3779b97f4a7c15;
        return value ^ (value >> 29);
    }
    std::uint64_t& chunk_head(std::uint64_t base, unsigned level, std::uint64_t chunk) {
        return chunk_heads_[mix(mix(base) + chunk * 64 + level) >> 20 & (buckets_ - 1)];
    }

    std::uint32_t newest_of(std::uint32_t chain, std::uint64_t base) {
        for (std::uint32_t position = chain; alive(position);) {
            const Entry& entry = at(position);
            if (entry.base == base) return position;
            if (entry.next_of_buffer == position) break;
            position = entry.next_of_buffer;
        }
        return kNone;
    }

    template <class Found>
    void meet(Entry& entry, const Region& region, bool writes, Found&& found) {
        ++steps_;
        if (!writes && !entry.writes) return;
        const Overlap meeting = overlap(region, region_of(entry));
        if (meeting == Overlap::none) return;
        found(entry.task);
        if (writes && meeting == Overlap::covered) entry.dead = true;
    }

    template <class Found>
    void lookup_indexed(std::uint32_t chain, const Entry& summary, const Region& region, bool writes,
                        std::uint64_t floor, Found&& found) {
        const std::uint64_t base = summary.base;
        if (summary.task < floor) return;
        const std::uint32_t levels = writes ? summary.write_levels | summary.read_levels : summary.write_levels;
        std::uint64_t probes = 0;
        for (std::uint32_t rest = levels; rest != 0; rest &= rest - 1) {
            const unsigned level = level_of_bit(rest);
            probes += ((region.end - 1) >> level) - (region.begin >> level) + 2;
        }
        if (probes > std::min<std::uint32_t>(summary.count, used())) {
            walk_buffer(chain, base, region, writes, floor, found);
            return;
        }
        for (std::uint32_t rest = levels; rest != 0; rest &= rest - 1) {
            const unsigned level = level_of_bit(rest);
            const std::uint64_t last = (region.end - 1) >> level;
            // An entry is listed under the chunk it begins in and the next one, so the chunk before is not needed.
            for (std::uint64_t chunk = region.begin >> level; chunk <= last; ++chunk) {
                walk_chunk(base, level, chunk, region, writes, floor, found);
            }
        }
    }

    // All entries of an indexed buffer, for a region that would need more probes than there are entries.
    template <class Found>
    void walk_buffer(std::uint32_t chain, std::uint64_t base, const Region& region, bool writes, std::uint64_t floor,
                     Found&& found) {
        for (std::uint32_t position = chain; alive(position);) {
            Entry& entry = at(position);
            if (entry.base == base && !entry.dead && entry.task >= floor) meet(entry, region, writes, found);
            if (entry.next_of_buffer == position) return;
            position = entry.next_of_buffer;
        }
    }

    template <class Found>
    void walk_chunk(std::uint64_t base, unsigned level, std::uint64_t chunk, const Region& region, bool writes,
                    std::uint64_t floor, Found&& found) {
        for (std::uint64_t* link = &chunk_head(base, level, chunk); *link != kNoChunk;) {
            const std::uint32_t position = static_cast<std::uint32_t>(*link >> 1);
            const unsigned which = *link & 1;
            if (!alive(position)) return;
            Entry& entry = at(position);
            const bool same = entry.base == base && entry.level == level && (entry.begin >> level) + which == chunk;
            if (same && !entry.dead && entry.task >= floor) meet(entry, region, writes, found);
            if (entry.dead) {
                *link = entry.next_of_chunk[which];
            } else {
                link = &entry.next_of_chunk[which];
            }
        }
    }

    // Calls visit(position, entry) for the live entries of a buffer, newest first.
    template <class Visit>
    void each_live(std::uint32_t chain, std::uint64_t base, Visit&& visit) {
        for (std::uint32_t position = chain; alive(position);) {
            Entry& entry = at(position);
            if (entry.base == base && !entry.dead && entry.task >= watermark_) visit(position, entry);
            if (entry.next_of_buffer == position) return;
            position = entry.next_of_buffer;
        }
    }

    void append(std::uint32_t& chain, const Entry& entry, const View* view);
    void index_buffer(std::uint32_t& chain, std::uint64_t base);
    void insert_indexed(std::uint32_t& chain, std::uint32_t newest, std::uint64_t base, const Region& region,
                        bool writes, std::uint64_t task);
    void keep_view(std::uint32_t position, const View& view);

    const std::uint32_t capacity_;
    const std::uint64_t buckets_;
    std::unique_ptr<Entry[]> entries_;
    std::unique_ptr<std::uint32_t[]> buffer_heads_;
    std::unique_ptr<std::uint64_t[]> chunk_heads_;
    std::unique_ptr<View[]> views_;  // made when the first strided region comes
    std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0;
    std::uint32_t peak_ = 0;
    std::uint64_t watermark_ = 0;
    std::uint64_t steps_ = 0;
};

}  // namespace whet::graph
