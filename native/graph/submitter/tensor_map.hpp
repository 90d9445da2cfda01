// Which tasks still touch which bytes: finds the producers of a task from the regions it reads and writes. The
// submitter alone uses it, so nothing here is shared.
//
// Every buffer has a Track. As long as all its accesses are to one and the same region, the track itself says who wrote
// last and who has read since: no search, no memory. A buffer that is touched in parts keeps its accesses in a ring of
// entries, reads and writes in a chain each, newest first. A search ends at a write that covers the region asked for,
// because that task waits for everything older. A long search indexes the buffer by (size class, chunk of that size),
// a region touching at most two chunks of its class, so that a thousand tiles of one array do not make a walk of a
// thousand; what nobody searches for is never indexed.
//
// Entries are dropped from the ring's end when their task is done. Nothing has to be unlinked for that: chains link
// towards older positions, so a walk stops at the first dropped one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/region.hpp"

namespace whet::graph {

// One cache line. Task numbers in `plain` are kept plus one, so that 0 stands for nobody.
struct alignas(64) Track {
    static constexpr std::uint8_t kInlineReaders = 2;
    enum class State : std::uint8_t { unused, plain, split };

    struct Plain {
        std::uint64_t begin;
        std::uint64_t end;
        std::uint64_t writer;
        std::uint64_t readers[kInlineReaders];  // the newest ones; older ones are in the ring
    };
    struct Split {
        std::uint32_t writes;        // chain of writes
        std::uint32_t write_levels;  // size classes in the index
        std::uint32_t read_levels;
        std::uint32_t count;  // at least the live entries in the index
        std::uint64_t top;    // no region in the ring ends after it
    };

    std::uint64_t base;
    std::uint64_t newest;  // the newest task here: once it is done, the track says nothing any more
    union {
        Plain plain;
        Split split;
    };
    std::uint32_t reads;  // chain of reads
    std::uint8_t reader_count;
    State state;
};
static_assert(sizeof(Track) == 64);

class TensorMap {
  public:
    // Capacity of the ring: a power of two, at most 2^22. Buckets of the index: a power of two, 0 for as many as fit
    // it.
    explicit TensorMap(std::uint32_t capacity, std::uint32_t buckets = 0);

    std::uint32_t capacity() const { return capacity_; }
    std::uint32_t used() const { return head_ - tail_; }
    std::uint32_t peak() const { return std::max(peak_, used()); }
    bool room(std::uint32_t entries) const { return used() + entries <= capacity_; }
    std::uint64_t indexed() const { return indexed_; }  // entries that had to be indexed, ever

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

    // Before the accesses of a task, after room(accesses). With `done_too` tasks below the watermark count as live.
    void expect(std::uint32_t accesses, bool done_too) {
        reserve_ = accesses;
        floor_ = done_too ? 0 : watermark_;
    }

    // The track of a buffer, by its address. Good until the next call. A buffer that always comes with the task that
    // made it may keep its track there instead, begun by begin_track(); then nothing is hashed.
    Track& track_of(std::uint64_t base) {
        for (std::uint64_t place = home(base), probe = 0; probe < kProbes; ++probe) {
            Track& track = table_[(place + probe) & table_mask_];
            if (track.state == Track::State::unused) break;
            if (track.base == base) return track;
        }
        return make_track(base);
    }
    // Whether anything is recorded about a buffer.
    bool live(std::uint64_t base) const { return find(base) != nullptr; }
    // Fresh memory at this address: what was recorded concerned memory that has been given back.
    void forget(std::uint64_t base) {
        if (Track* const track = find(base)) begin_track(*track, base, 0, 0);
    }
    void prefetch(std::uint64_t base) const { __builtin_prefetch(&table_[home(base) & table_mask_], 1); }
    void begin_track(Track& track, std::uint64_t base, std::uint64_t bytes, std::uint64_t task) const {
        track.base = base;
        track.newest = task;
        track.plain.begin = 0;
        track.plain.end = bytes;
        track.plain.writer = 0;
        track.reads = no_chain();
        track.reader_count = 0;
        track.state = Track::State::plain;
    }

    // Calls found(task) for the live tasks that this access must wait for: every one that conflicts with it is among
    // them or is waited for by one of them. It may name `task` itself, if that touches the buffer more than once.
    // Then enters the access.
    template <class Found>
    [[gnu::always_inline]] void access(Track& track, const Region& region, bool writes, std::uint64_t task,
                                       Found&& found) {
        if (track.newest < floor_ || track.state != Track::State::plain || region.begin != track.plain.begin ||
            region.end != track.plain.end || region.view) {
            if (track.newest < floor_ || track.state == Track::State::plain) settle(track, region);
            if (track.state == Track::State::split) {
                track.newest = task;
                // Rows that come in ascending order, as those of a map do, meet nothing and need no index.
                if (region.begin < track.split.top && (writes || alive(track.split.writes))) {
                    search(track, region, writes);
                    for (const std::uint64_t producer : found_) found(producer);
                }
                track.split.top = std::max(track.split.top, region.end);
                append(writes ? track.split.writes : track.reads, track.base, region, writes, task);
                return;
            }
        }
        track.newest = task;
        Track::Plain& plain = track.plain;
        if (plain.writer > floor_) found(plain.writer - 1);
        if (!writes) {
            if (track.reader_count == Track::kInlineReaders) {
                if (plain.readers[0] > floor_) {
                    append(track.reads, track.base, {plain.begin, plain.end, nullptr}, false, plain.readers[0] - 1);
                }
                plain.readers[0] = plain.readers[1];
                --track.reader_count;
            }
            plain.readers[track.reader_count++] = task + 1;
            return;
        }
        for (std::uint8_t reader = 0; reader < track.reader_count; ++reader) {
            if (plain.readers[reader] > floor_) found(plain.readers[reader] - 1);
        }
        if (track.reader_count == Track::kInlineReaders) {
            each_live(track.reads, track.base, [&found](const Entry& entry) { found(entry.task); });
            track.reads = no_chain();
        }
        track.reader_count = 0;
        plain.writer = task + 1;
    }

    // The same without entering it, for a buffer that the bytes of the access are also known under: what is recorded
    // there stays, and a strided region counts as its interval. `begin` and `end` are relative to that buffer.
    template <class Found>
    void look(std::uint64_t base, std::uint64_t begin, std::uint64_t end, bool writes, Found&& found) {
        Track* const track = find(base);
        if (!track) return;
        if (track->state == Track::State::split) {
            search(*track, {begin, end, nullptr}, writes, false);
            for (const std::uint64_t producer : found_) found(producer);
            return;
        }
        const Track::Plain& plain = track->plain;
        if (begin >= plain.end || plain.begin >= end) return;
        if (plain.writer > floor_) found(plain.writer - 1);
        if (!writes) return;
        for (std::uint8_t reader = 0; reader < track->reader_count; ++reader) {
            if (plain.readers[reader] > floor_) found(plain.readers[reader] - 1);
        }
        each_live(track->reads, base, [&found](const Entry& entry) { found(entry.task); });
    }

  private:
    static constexpr std::uint64_t kNoChunk = ~std::uint64_t{0};
    static constexpr std::uint64_t kProbes = 16;
    static constexpr std::uint32_t kWalkMost = 12;  // entries looked at before an index pays
    static constexpr unsigned kLowestLevel = 6;
    static constexpr unsigned kHighestLevel = kLowestLevel + 31;  // one bit per level in a track

    struct alignas(64) Entry {
        std::uint64_t base;
        std::uint64_t begin;
        std::uint64_t end;
        std::uint64_t task;
        std::uint64_t next_of_chunk[2];  // position * 2 + which of the two chunks; set when indexed
        std::uint32_t next;              // in its chain
        std::uint8_t level;              // set when indexed
        bool writes;
        bool dead;  // replaced by a later write that covers it
        bool strided : 1;
        bool indexed : 1;
    };
    static_assert(sizeof(Entry) == 64);

    Entry& at(std::uint32_t position) { return entries_[position & (capacity_ - 1)]; }
    bool alive(std::uint32_t position) const { return position - tail_ < head_ - tail_; }
    // A link to nothing: older than everything alive, for longer than an entry lives. A track may live longer, so its
    // chains are also checked for the buffer.
    std::uint32_t no_chain() const { return head_ - capacity_ - 1; }
    Region region_of(const Entry& entry) const {
        return {entry.begin, entry.end, entry.strided ? &views_[&entry - entries_.get()] : nullptr};
    }

    static std::uint64_t mix(std::uint64_t value) {
        value *= 0x9e3779b97f4a7c15;
        return value ^ (value >> 29);
    }
    static std::uint64_t home(std::uint64_t base) { return mix(base) >> 20; }
    std::uint64_t& chunk_head(std::uint64_t base, unsigned level, std::uint64_t chunk) {
        return chunk_heads_[mix(mix(base) + chunk * 64 + level) >> 20 & (buckets_ - 1)];
    }

    // Newest first. Chains are in the order of the tasks, so the first one done ends the walk.
    template <class Visit>
    void each_live(std::uint32_t chain, std::uint64_t base, Visit&& visit) {
        for (std::uint32_t position = chain; alive(position); position = at(position).next) {
            const Entry& entry = at(position);
            if (entry.base != base || entry.task < floor_) return;
            if (!entry.dead) visit(entry);
        }
    }

    // After room(1). A strided view is copied.
    void append(std::uint32_t& chain, std::uint64_t base, const Region& region, bool writes, std::uint64_t task) {
        const std::uint32_t position = head_++;
        Entry& own = at(position);
        own.base = base;
        own.begin = region.begin;
        own.end = region.end;
        own.task = task;
        own.next = chain;
        own.writes = writes;
        own.dead = false;
        own.strided = region.view != nullptr;
        own.indexed = false;
        if (region.view) keep_view(position, *region.view);
        chain = position;
    }

    struct Search {
        const Region& region;
        bool writes;
        bool enters;  // the access will be entered here, so what it covers need not be found again
        std::uint64_t floor;
    };

    // Regions of the highest level may be of any size, so they share one list.
    static std::uint64_t chunk_of(std::uint64_t position, unsigned level) {
        return level == kHighestLevel ? 0 : position >> level;
    }
    Track* find(std::uint64_t base) const {
        for (std::uint64_t place = home(base), probe = 0; probe < kProbes; ++probe) {
            Track& track = table_[(place + probe) & table_mask_];
            if (track.state == Track::State::unused) return nullptr;
            if (track.base == base) return track.newest >= floor_ ? &track : nullptr;
        }
        return nullptr;
    }

    Track& make_track(std::uint64_t base);
    void grow_table();
    void settle(Track& track, const Region& region);
    void search(Track& track, const Region& region, bool writes, bool enters = true);
    bool walk(std::uint32_t& chain, std::uint64_t base, Search& search, std::uint32_t most);
    void walk_chunk(std::uint64_t base, unsigned level, std::uint64_t chunk, const Search& search);
    void meet(Entry& entry, const Search& search);
    void index(Track& track);
    void index_entry(Track& track, std::uint32_t position);
    void keep_view(std::uint32_t position, const View& view);

    const std::uint32_t capacity_;
    const std::uint64_t buckets_;
    std::unique_ptr<Entry[]> entries_;
    std::unique_ptr<std::uint64_t[]> chunk_heads_;
    std::unique_ptr<View[]> views_;  // made when the first strided region comes
    std::unique_ptr<Track[]> table_;
    std::uint64_t table_mask_;
    std::vector<std::uint64_t> found_;
    std::vector<std::uint32_t> to_index_;
    std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0;
    std::uint32_t peak_ = 0;
    std::uint32_t reserve_ = 0;
    std::uint64_t watermark_ = 0;
    std::uint64_t floor_ = 0;
    std::uint64_t indexed_ = 0;
};

}  // namespace whet::graph
