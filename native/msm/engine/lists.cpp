#include "msm/engine/lists.hpp"

#include <algorithm>
#include <cstring>

#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

ListsBytes lists_bytes(const std::vector<std::vector<RegionShape>>& levels) {
    ListsBytes most;
    for (const auto& regions : levels) {
        std::size_t lists = 0, slots = 0, groups = 0;
        for (const RegionShape& region : regions) {
            lists += region.lists;
            slots += slots_of(region.entries);
            groups += groups_of(region.lists, region.entries);
        }
        most.counters = std::max(most.counters, lists * sizeof(u32));
        most.order = std::max(most.order, lists * sizeof(u32));
        most.entries = std::max(most.entries, slots * sizeof(u32));
        most.groups = std::max(most.groups, groups * sizeof(Group));
        most.targets = std::max(most.targets, groups * lanes * sizeof(u32));
    }
    return most;
}

Lists::Lists(Ledger& ledger, const Kernel& kernel, graph::Pool& pool)
    : kernel_(kernel),
      pool_(pool),
      counters_(ledger, "list counters"),
      entries_(ledger, "list entries"),
      order_(ledger, "list order"),
      unordered_(ledger, "groups as made"),
      groups_(ledger, "groups in order"),
      targets_(ledger, "group targets"),
      scratch_(ledger, "kernel scratch") {}

void Lists::reserve(const std::vector<std::vector<RegionShape>>& levels) {
    const ListsBytes bytes = lists_bytes(levels);
    counters_.reserve(bytes.counters);
    entries_.reserve(bytes.entries);
    order_.reserve(bytes.order);
    unordered_.reserve(bytes.groups);
    groups_.reserve(bytes.groups);
    targets_.reserve(bytes.targets);
    scratch_.reserve(kernel_.scratch_bytes * pool_.workers());
}

void Lists::begin(const std::vector<RegionShape>& regions, std::size_t expected) {
    regions_.clear();
    targets_by_list_.clear();
    limit_ = length_limit(expected);
    std::size_t list = 0, slot = 0, group = 0;
    for (const RegionShape& shape : regions) {
        Region region{};
        region.first_list = static_cast<u32>(list);
        region.lists = static_cast<u32>(shape.lists);
        region.first_slot = static_cast<u32>(slot);
        region.first_group = static_cast<u32>(group);
        regions_.push_back(region);
        list += shape.lists;
        slot += slots_of(shape.entries);
        group += groups_of(shape.lists, shape.entries);
    }
    next_part_ = list;
    std::memset(counters_.as<u32>(), 0, list * sizeof(u32));
}

// Sorts the region's lists by length, makes groups of eight neighbours, and turns the counters into cursors.
void Lists::lay_out(std::size_t index) {
    Region& region = regions_[index];
    u32* const counter = counts(index);
    u32* const order = order_.as<u32>() + region.first_list;
    u32* const entries = entries_.as<u32>();
    Group* const groups = unordered_.as<Group>() + region.first_group;

    std::vector<u32> start(limit_ + 2, 0);  // lists by length, longest first
    for (u32 list = 0; list < region.lists; ++list) {
        if (counter[list] > limit_)
            region.long_lists.push_back({list, static_cast<u32>((counter[list] - 1) / (lanes * limit_) + 1)});
        else
            ++start[limit_ - counter[list] + 1];
    }
    for (std::size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
    const u32 filled = start[limit_];  // lists that are neither empty nor long
    for (u32 list = 0; list < region.lists; ++list) {
        if (counter[list] <= limit_) order[start[limit_ - counter[list]]++] = list;
    }

    u32 slot = region.first_slot;
    u32 group = 0;
    for (u32 rank = 0; rank < filled; rank += lanes, ++group) {
        const u32 rounds = counter[order[rank]];
        groups[group] = {slot, rounds};
        for (u32 lane = 0; lane < lanes; ++lane) {
            u32 length = 0;
            if (rank + lane < filled) {
                u32& of_list = counter[order[rank + lane]];
                length = of_list;
                of_list = slot + lane;
            }
            for (u32 round = length; round < rounds; ++round) entries[slot + lanes * round + lane] = padding_entry;
        }
        slot += static_cast<u32>(lanes) * rounds;
    }
    region.short_groups = group;
    region.first_long_slot = slot;
    for (const LongList& part : region.long_lists) {
        u32& of_list = counter[part.list];
        const u32 rounds = static_cast<u32>((of_list - 1) / (lanes * part.groups) + 1);
        const u32 end = slot + static_cast<u32>(lanes) * rounds * part.groups;
        std::fill(entries + slot + of_list, entries + end, padding_entry);
        for (u32 i = 0; i < part.groups; ++i, ++group)
            groups[group] = {slot + static_cast<u32>(lanes) * rounds * i, rounds};
        of_list = slot;
        slot = end;
    }
    region.groups = group;
}

// All groups of all regions, longest first, with the places their sums go to. Gives the parts of long lists numbers.
std::vector<Lists::Parts> Lists::order_groups() {
    std::vector<u32> start(limit_ + 2, 0);
    for (const Region& region : regions_) {
        const Group* groups = unordered_.as<Group>() + region.first_group;
        for (u32 g = 0; g < region.groups; ++g) ++start[limit_ - groups[g].rounds + 1];
    }
    for (std::size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
    total_groups_ = start[limit_ + 1];

    std::vector<Parts> parts;
    for (const Region& region : regions_) {
        const Group* groups = unordered_.as<Group>() + region.first_group;
        const u32* order = order_.as<u32>() + region.first_list;
        u32 filled = 0;
        const auto put = [&](u32 g, auto&& target) {
            const u32 at = start[limit_ - groups[g].rounds]++;
            groups_.as<Group>()[at] = groups[g];
            for (u32 lane = 0; lane < lanes; ++lane) targets_.as<u32>()[lanes * at + lane] = target(lane);
        };
        // A lane of the last short group without a list has nothing but padding; its first entry tells.
        for (u32 g = 0; g < region.short_groups; ++g, filled += lanes) {
            put(g, [&](u32 lane) {
                if (entries_.as<u32>()[groups[g].first + lane] == padding_entry) return no_target;
                return target_of(region.first_list + order[filled + lane]);
            });
        }
        u32 g = region.short_groups;
        for (const LongList& list : region.long_lists) {
            const u32 count = static_cast<u32>(lanes) * list.groups;
            const u32 first = static_cast<u32>(next_part_);
            next_part_ += count;
            parts.push_back({target_of(region.first_list + list.list), first, count});
            for (u32 i = 0; i < list.groups; ++i, ++g)
                put(g, [&](u32 lane) { return first + static_cast<u32>(lanes) * i + lane; });
        }
    }
    return parts;
}

void Lists::run_chunks(const std::byte* table, const Sums& sums, Counts& counts, const Control& control) {
    const unsigned workers = pool_.workers();
    if (total_groups_ == 0) return;
    // As many chunks for each worker, none too large for the cache and none so small that inversions show.
    const std::size_t per_worker = (total_groups_ + workers * chunk_groups - 1) / (workers * chunk_groups);
    const std::size_t even = (total_groups_ + workers * per_worker - 1) / (workers * per_worker);
    const std::size_t size = std::clamp<std::size_t>(even, std::min<std::size_t>(64, chunk_groups), chunk_groups);
    const std::size_t chunks = (total_groups_ + size - 1) / size;
    std::vector<Counts> by_worker(workers);
    std::atomic<std::size_t> done{0};
    const bool whole = pool_.parallel_for(
        chunks,
        [&](std::size_t chunk, unsigned worker) {
            const std::size_t first = chunk * size;
            const Chunk work = {table,
                                entries_.as<u32>(),
                                groups_.as<Group>() + first,
                                std::min(size, total_groups_ - first),
                                targets_.as<u32>() + lanes * first,
                                sums.points,
                                sums.present,
                                scratch_.as<std::byte>() + kernel_.scratch_bytes * worker};
            kernel_.sum_lists(work, by_worker[worker]);
            const std::size_t finished = done.fetch_add(1, std::memory_order_relaxed) + 1;
            if (worker == 0) control.report(static_cast<double>(finished) / static_cast<double>(chunks));
        },
        control.cancel);
    if (!whole) throw EngineError(Trouble::cancelled, "the computation was cancelled", "start it again");
    for (const Counts& one : by_worker) counts += one;
}

// Sums of parts to sums of lists: the parts are points of a table of their own, and the level starts anew.
void Lists::add_up(const std::vector<Parts>& parts, const Sums& sums, Counts& counts, const Control& control) {
    std::size_t entries = 0;
    for (const Parts& list : parts) entries += list.count;
    const std::size_t part_base = next_part_;
    begin({{parts.size(), entries}}, entries);
    next_part_ = part_base;
    for (const Parts& list : parts) targets_by_list_.push_back(list.target);
    u32* const counter = this->counts(0);
    for (std::size_t l = 0; l < parts.size(); ++l) {
        for (u32 i = 0; i < parts[l].count; ++i) counter[l] += sums.present[parts[l].first + i];
    }
    lay_out(0);
    const Cursor to = cursor(0);
    for (std::size_t l = 0; l < parts.size(); ++l) {
        for (u32 i = 0; i < parts[l].count; ++i) {
            const u32 part = parts[l].first + i;
            if (sums.present[part]) to.place(l, entry_of_sum(part));
        }
    }
    const std::vector<Parts> deeper = order_groups();
    run_chunks(sums.points, sums, counts, control);
    if (!deeper.empty()) add_up(deeper, sums, counts, control);
}

void Lists::sum(const std::byte* table, const Sums& sums, Counts& counts, const Control& control) {
    const std::size_t lists = next_part_;
    std::memset(sums.present, 0, lists);
    const std::vector<Parts> parts = order_groups();
    run_chunks(table, sums, counts, control);
    if (!parts.empty() && !WHET_PLANT(split_list_lost)) add_up(parts, sums, counts, control);
}

}  // namespace whet::msm
