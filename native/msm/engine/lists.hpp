// Lists of points, laid out for the kernels and summed: counting sort in, sums out.
//
// One Lists object serves every level of a computation (buckets, rows and columns, bits): its buffers are as large as
// the largest level needs. A level consists of regions (one per window) that are counted, laid out and filled
// independently, by one task each; then the groups of all regions are put in one order, longest first, and summed in
// chunks.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "graph/pool/pool.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/engine/memory.hpp"

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

// Where the sums of a level go: one per list, then the parts.
struct Sums {
    std::byte* points;
    u8* present;
};

// What a run obeys and reports. `tick` gets the share of the work that is done; only the calling thread calls it, and
// it must not throw.
struct Control {
    const std::atomic<bool>* cancel = nullptr;
    std::function<void(double)> tick;
    double base = 0, span = 0;  // the share before the current step, and of it
    void report(double part) const {
        if (tick) tick(base + span * part);
    }
};

// Bytes of every buffer of a Lists object that serves these levels. Only the first has lists with endomorphic entries,
// if it does.
struct ListsBytes {
    std::size_t counters = 0, entries = 0, order = 0, groups = 0, targets = 0, endo_counts = 0, endo_rounds = 0;
};
ListsBytes lists_bytes(const std::vector<std::vector<RegionShape>>& levels, bool endomorphic);

class Lists {
  public:
    Lists(Ledger& ledger, const Kernel& kernel, graph::Pool& pool);
    // Makes room for any of these levels.
    void reserve(const std::vector<std::vector<RegionShape>>& levels, bool endomorphic);

    // Starts a level. `expected` is at least the number of entries that will be counted. With `endomorphic`, entries
    // that the endomorphism maps are counted and placed before all others, and every region says when it has counted
    // them.
    void begin(const std::vector<RegionShape>& regions, std::size_t expected, bool endomorphic = false);
    void keep_endo_counts(std::size_t region);

    // Counters of a region's lists, zero at the start of a level. Count, lay out, then fill through the cursor.
    u32* counts(std::size_t region) { return counters_.as<u32>() + regions_[region].first_list; }
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
    Cursor cursor(std::size_t region) { return {counts(region), entries_.as<u32>(), regions_[region].first_long_slot}; }

    // Sums all lists. The sum of list l of a region goes to index first_list(region) + l.
    void sum(const std::byte* table, const Sums& sums, Counts& counts, const Control& control);
    std::size_t first_list(std::size_t region) const { return regions_[region].first_list; }

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
    std::vector<Parts> order_groups();
    void place_groups(Region& region, const std::vector<Parts>& parts);
    void run_chunks(const std::byte* table, const Sums& sums, Counts& counts, const Control& control);
    void add_up(const std::vector<Parts>& parts, const Sums& sums, Counts& counts, const Control& control);
    u32 target_of(u32 list) const { return targets_by_list_.empty() ? list : targets_by_list_[list]; }

    const Kernel& kernel_;
    graph::Pool& pool_;
    u32* endo_counts(const Region& region) const { return endo_counts_.as<u32>() + region.first_list; }

    Block counters_, endo_counts_, entries_, order_, unordered_, groups_, targets_, endo_rounds_, scratch_;
    std::vector<Region> regions_;
    std::vector<u32> targets_by_list_;  // empty: a list's sum goes where the list is
    bool endomorphic_ = false;
    std::size_t limit_ = longest_limit;
    std::size_t total_groups_ = 0;
    std::size_t next_part_ = 0;
};

}  // namespace whet::msm
