// Lists of points, laid out for the kernels and summed: counting sort in, sums out.
//
// One Lists object serves every level of a computation (buckets, rows and columns, bits): its buffers are as large as
// the largest level needs. A level consists of regions (one per window) that are counted, laid out and filled
// independently: by one task each, or, where there are more workers than regions, in slices with counters of their own.
// Then the groups of all regions are put in one order, longest first, and summed in chunks.
#pragma once

#include <array>
#include <vector>

#include "msm/affine/chunk.hpp"
#include "msm/engine/memory.hpp"
#include "msm/engine/tasks.hpp"

namespace whet::msm {

// Lists longer than the limit are split into groups of eight parts that are summed again. The limit falls with the
// work, so that a few long lists still fill whole chunks; but where there are many lists, those of the usual length are
// left whole: parts that are hardly longer than one entry cost more than they fill.
constexpr std::size_t shortest_limit = 16, longest_limit = 512, many_lists = 512;
constexpr std::size_t length_limit(std::size_t entries, std::size_t lists) {
    const std::size_t by_work = entries / (lanes * chunk_groups);
    const std::size_t usual = lists >= many_lists ? 2 * entries / lists + shortest_limit / 2 : 0;
    const std::size_t limit = by_work > usual ? by_work : usual;
    return limit < shortest_limit ? shortest_limit : limit > longest_limit ? longest_limit : limit;
}
// Groups of parts that long lists make out of `entries` entries, at most: one per limit entries, where the limit is 16
// or more, and 512 or else at least entries / 2048 rounded down.
constexpr std::size_t long_groups(std::size_t entries) {
    const std::size_t most = entries / longest_limit > 4096 ? entries / longest_limit : 4096;
    return entries / shortest_limit < most ? entries / shortest_limit : most;
}
// Slots of a region: entries, the ragged ends of groups of unequal lists, and of groups of parts.
constexpr std::size_t slots_of(std::size_t entries) {
    return entries + lanes * longest_limit + lanes * long_groups(entries);
}
constexpr std::size_t groups_of(std::size_t lists, std::size_t entries) {
    return (lists + lanes - 1) / lanes + long_groups(entries);
}
// Sums of parts, over all levels of splitting: the parts of one level are the entries of the next.
constexpr std::size_t parts_of(std::size_t entries) {
    std::size_t parts = 0;
    for (std::size_t groups = long_groups(entries); groups > 0; groups = long_groups(lanes * groups))
        parts += lanes * groups;
    return parts;
}

struct RegionShape {
    std::size_t lists;
    std::size_t entries;  // at most
};
struct Level {
    std::vector<RegionShape> regions;
    unsigned slices = 1;  // of each region; even where lists begin with endomorphic entries, or one

    std::size_t lists() const;
    std::size_t entries() const;
    std::vector<std::size_t> first_lists() const;  // of each region, in the lists of all
    // Counters of every list: one, which becomes where the next entry goes; or one for each slice beside it.
    std::size_t counters() const { return lists() * (slices > 1 ? slices + 1 : 1); }
};

// Where the sums of a level go: one per list, then the parts.
struct Sums {
    std::byte* points;
    u8* present;
};

// Bytes of every buffer of a Lists object that serves these levels. Only the first has lists with endomorphic entries,
// if it does.
struct ListsBytes {
    std::size_t counters = 0, entries = 0, order = 0, groups = 0, targets = 0, endo_counts = 0, endo_rounds = 0;
};
using Levels = std::array<Level, 3>;
ListsBytes lists_bytes(const Levels& levels, bool endomorphic);

class Lists {
  public:
    Lists(Ledger& ledger, const Kernel& kernel, unsigned workers);
    // Makes room for any of these levels.
    void reserve(const Levels& levels, bool endomorphic);

    // Starts a level. With `endomorphic`, entries that the endomorphism maps are counted and placed before all others:
    // they are those of the first half of the slices, or a region of one slice says when it has counted them.
    void begin(const Level& level, bool endomorphic = false);
    void keep_endo_counts(std::size_t region);

    // Count, merge if there are slices, lay out, then fill through the cursors. A slice's entries come after those of
    // the slices before it, so lists are the same however many there are.
    u32* zeroed_counts(std::size_t region, unsigned slice = 0);
    // Part `part` of as many as there are slices: its lists' totals, and how many entries come before each slice's.
    void merge(std::size_t region, unsigned part);
    void lay_out(std::size_t region);
    struct Cursor {
        u32* slot;  // of each list: where its next entry goes
        u32* entries;
        u32 first_long_slot;  // from here on lists are filled in sequence, before it in steps of a group
        void place(std::size_t list, u32 entry) const {
            const u32 at = slot[list];
            entries[at] = entry;
            slot[list] = at + (at >= first_long_slot ? 1 : static_cast<u32>(lanes));
        }
        void prefetch(std::size_t list) const { __builtin_prefetch(entries + slot[list], 1); }
    };
    Cursor cursor(std::size_t region, unsigned slice = 0);

    // Sums all lists. The sum of list l of a region goes to index first_lists()[region] + l of its level.
    void sum(const std::byte* table, const Sums& sums, Counts& counts, Tasks& tasks);

  private:
    struct LongList {
        u32 list, groups, entries;
        u32 rounds() const { return (entries - 1) / (static_cast<u32>(lanes) * groups) + 1; }
    };
    struct Region {
        u32 first_list, lists;
        u32 first_slot, first_group;
        u32 first_long_slot = 0;
        u32 filled = 0;  // lists that are neither empty nor long
        u32 short_groups = 0, groups = 0;
        std::vector<u32> by_rounds;  // groups of so many rounds; then where the next of them goes
        std::vector<LongList> long_lists;
        u32 first_parts = 0;  // of long_lists, in the parts of all regions
    };
    struct Parts {  // of a long list, summed but not yet added up
        u32 target, first, count;
    };

    u32 sort_by_length(const Region& region, const u32* counter, u32* order);
    std::vector<Parts> order_groups(Tasks& tasks);
    void place_groups(Region& region, const std::vector<Parts>& parts);
    void run_chunks(const std::byte* table, const Sums& sums, Counts& counts, Tasks& tasks);
    void add_up(const std::vector<Parts>& parts, const Sums& sums, Counts& counts, Tasks& tasks);
    u32 target_of(u32 list) const { return targets_by_list_.empty() ? list : targets_by_list_[list]; }

    const Kernel& kernel_;
    const unsigned workers_;
    u32* endo_counts(const Region& region) const { return endo_counts_.as<u32>() + region.first_list; }
    // Of all entries; where the next one goes after lay_out.
    u32* counts(const Region& region) const { return counters_.as<u32>() + region.first_list; }
    u32* slice_counts(const Region& region, unsigned slice) const {
        return counts(region) + (slices_ > 1 ? (slice + 1) * lists_ : 0);
    }

    Block counters_, endo_counts_, entries_, order_, unordered_, groups_, targets_, endo_rounds_, scratch_;
    std::vector<Region> regions_;
    std::vector<u32> targets_by_list_;  // empty: a list's sum goes where the list is
    bool endomorphic_ = false;
    unsigned slices_ = 1;
    std::size_t lists_ = 0;  // of the level
    std::size_t limit_ = longest_limit;
    std::size_t total_groups_ = 0;
    std::size_t next_part_ = 0;
};

}  // namespace whet::msm
