#include "msm/engine/lists.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

std::size_t Level::lists() const {
    std::size_t sum = 0;
    for (const RegionShape& region : regions) sum += region.lists;
    return sum;
}

std::size_t Level::entries() const {
    std::size_t sum = 0;
    for (const RegionShape& region : regions) sum += region.entries;
    return sum;
}

std::vector<std::size_t> Level::first_lists() const {
    std::vector<std::size_t> first;
    std::size_t next = 0;
    for (const RegionShape& region : regions) {
        first.push_back(next);
        next += region.lists;
    }
    return first;
}

ListsBytes lists_bytes(const Levels& levels, bool endomorphic) {
    ListsBytes most;
    for (const Level& level : levels) {
        const std::size_t lists = level.lists();
        std::size_t slots = 0, groups = 0;
        for (const RegionShape& region : level.regions) {
            slots += slots_of(region.entries);
            groups += groups_of(region.lists, region.entries);
        }
        most.counters = std::max(most.counters, level.counters() * sizeof(u32));
        most.order = std::max(most.order, lists * sizeof(u32));
        most.entries = std::max(most.entries, slots * sizeof(u32));
        most.groups = std::max(most.groups, groups * sizeof(Group));
        most.targets = std::max(most.targets, groups * lanes * sizeof(u32));
        if (&level != &levels.front() || !endomorphic) continue;
        most.endo_counts = lists * sizeof(u32);
        most.endo_rounds = groups * lanes * sizeof(u16);
    }
    return most;
}

Lists::Lists(Ledger& ledger, const Kernel& kernel, unsigned workers)
    : kernel_(kernel),
      workers_(workers),
      counters_(ledger, "list counters"),
      endo_counts_(ledger, "endomorphic counts"),
      entries_(ledger, "list entries"),
      order_(ledger, "list order"),
      unordered_(ledger, "groups as made"),
      groups_(ledger, "groups in order"),
      targets_(ledger, "group targets"),
      endo_rounds_(ledger, "endomorphic rounds"),
      scratch_(ledger, "kernel scratch") {}

void Lists::reserve(const Levels& levels, bool endomorphic) {
    const ListsBytes bytes = lists_bytes(levels, endomorphic);
    counters_.reserve(bytes.counters);
    entries_.reserve(bytes.entries);
    order_.reserve(bytes.order);
    unordered_.reserve(bytes.groups);
    groups_.reserve(bytes.groups);
    targets_.reserve(bytes.targets);
    endo_counts_.reserve(bytes.endo_counts);
    endo_rounds_.reserve(bytes.endo_rounds);
    scratch_.reserve(kernel_.scratch_bytes * workers_);
}

void Lists::begin(const Level& level, bool endomorphic) {
    regions_.clear();
    endomorphic_ = endomorphic;
    slices_ = level.slices;
    lists_ = level.lists();
    targets_by_list_.clear();
    std::size_t list = 0, slot = 0, group = 0;
    for (const RegionShape& shape : level.regions) {
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
    limit_ = length_limit(level.entries(), lists_);
    next_part_ = lists_;
}

u32* Lists::zeroed_counts(std::size_t index, unsigned slice) {
    u32* const counter = slice_counts(regions_[index], slice);
    std::memset(counter, 0, regions_[index].lists * sizeof(u32));
    return counter;
}

void Lists::merge(std::size_t index, unsigned part) {
    const Region& region = regions_[index];
    const std::size_t first = std::size_t{region.lists} * part / slices_;
    const std::size_t lists = std::size_t{region.lists} * (part + 1) / slices_ - first;
    u32* const total = counts(region) + first;
    std::memset(total, 0, lists * sizeof(u32));
    for (unsigned slice = 0; slice < slices_; ++slice) {
        if (endomorphic_ && slice == slices_ / 2 + (WHET_PLANT(slices_mapped_wrong) ? 1 : 0))
            std::memcpy(endo_counts(region) + first, total, lists * sizeof(u32));
        u32* const counter = slice_counts(region, slice) + first;
        for (std::size_t list = 0; list < lists; ++list) {
            const u32 before = total[list];
            total[list] += counter[list];
            counter[list] = before;
        }
    }
}

// With slices, the counters of one become the places where its entries begin.
Lists::Cursor Lists::cursor(std::size_t index, unsigned slice) {
    const Region& region = regions_[index];
    u32* const slot = slice_counts(region, slice);
    if (slices_ > 1) {
        const u32* const first = counts(region);
        for (u32 list = 0; list < region.lists; ++list)
            slot[list] = first[list] + slot[list] * (first[list] >= region.first_long_slot ? 1 : u32{lanes});
    }
    return {slot, entries_.as<u32>(), region.first_long_slot};
}

void Lists::keep_endo_counts(std::size_t index) {
    const Region& region = regions_[index];
    if (WHET_PLANT(endomorphism_lost))
        std::memset(endo_counts(region), 0, region.lists * sizeof(u32));
    else
        std::memcpy(endo_counts(region), counts(region), region.lists * sizeof(u32));
}

// The region's lists that are not long in `order`, longest first; in an endomorphic level those of equal length by
// their endomorphic entries, so that the lanes of most groups are mapped together. Returns how many are not empty.
u32 Lists::sort_by_length(const Region& region, const u32* counter, u32* order) {
    std::vector<u32> start(limit_ + 2, 0), endo_start(endomorphic_ ? limit_ + 2 : 0, 0);
    const u32* const endo = endomorphic_ ? endo_counts(region) : nullptr;
    for (u32 list = 0; list < region.lists; ++list) {
        if (counter[list] > limit_) continue;
        ++start[limit_ - counter[list] + 1];
        if (endo) ++endo_start[endo[list] + 1];
    }
    for (std::size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
    const u32 filled = start[limit_], listed = start[limit_ + 1];
    if (!endo) {
        for (u32 list = 0; list < region.lists; ++list) {
            if (counter[list] <= limit_) order[start[limit_ - counter[list]]++] = list;
        }
        return filled;
    }
    for (std::size_t i = 1; i < endo_start.size(); ++i) endo_start[i] += endo_start[i - 1];
    u32* const by_endo = targets_.as<u32>() + lanes * region.first_group;  // not in use before the groups have places
    for (u32 list = 0; list < region.lists; ++list) {
        if (counter[list] <= limit_) by_endo[endo_start[endo[list]]++] = list;
    }
    for (u32 i = 0; i < listed; ++i) {
        const u32 list = by_endo[i];
        order[start[limit_ - counter[list]]++] = list;
    }
    return filled;
}

// Sorts the region's lists by length, makes groups of eight neighbours, and turns the counters into cursors.
void Lists::lay_out(std::size_t index) {
    Region& region = regions_[index];
    u32* const counter = counts(region);
    u32* const order = order_.as<u32>() + region.first_list;
    u32* const entries = entries_.as<u32>();
    Group* const groups = unordered_.as<Group>() + region.first_group;
    region.by_rounds.assign(limit_ + 1, 0);

    for (u32 list = 0; list < region.lists; ++list) {
        if (counter[list] > limit_)
            region.long_lists.push_back(
                {list, static_cast<u32>((counter[list] - 1) / (lanes * limit_) + 1), counter[list]});
    }
    region.filled = sort_by_length(region, counter, order);

    u32 slot = region.first_slot;
    u32 group = 0;
    for (u32 rank = 0; rank < region.filled; rank += lanes, ++group) {
        const u32 rounds = counter[order[rank]];
        bool ragged = false;
        for (u32 lane = 0; lane < lanes; ++lane) {
            u32 length = 0;
            if (rank + lane < region.filled) {
                u32& of_list = counter[order[rank + lane]];
                length = of_list;
                of_list = slot + lane;
            }
            ragged |= length < rounds;
            for (u32 round = length; round < rounds; ++round) entries[slot + lanes * round + lane] = padding_entry;
        }
        groups[group] = {slot, static_cast<u16>(rounds), ragged};
        ++region.by_rounds[rounds];
        slot += static_cast<u32>(lanes) * rounds;
    }
    region.short_groups = group;
    region.first_long_slot = slot;
    for (const LongList& part : region.long_lists) {
        const u32 rounds = part.rounds();
        const u32 group_slots = static_cast<u32>(lanes) * rounds;
        const u32 last_entry = slot + part.entries, end = slot + group_slots * part.groups;
        std::fill(entries + last_entry, entries + end, padding_entry);
        counter[part.list] = slot;
        for (u32 i = 0; i < part.groups; ++i, ++group, slot += group_slots)
            groups[group] = {slot, static_cast<u16>(rounds), slot + group_slots > last_entry};
        region.by_rounds[rounds] += part.groups;
    }
    region.groups = group;
}

// All groups of all regions, longest first, with the places their sums go to. Gives the parts of long lists numbers.
std::vector<Lists::Parts> Lists::order_groups(Tasks& tasks) {
    u32 place = 0;
    for (std::size_t rounds = limit_ + 1; rounds-- > 0;) {
        for (Region& region : regions_) place += std::exchange(region.by_rounds[rounds], place);
    }
    total_groups_ = place;
    std::vector<Parts> parts;
    for (Region& region : regions_) {
        region.first_parts = static_cast<u32>(parts.size());
        for (const LongList& list : region.long_lists) {
            const u32 count = static_cast<u32>(lanes) * list.groups;
            parts.push_back({target_of(region.first_list + list.list), static_cast<u32>(next_part_), count});
            next_part_ += count;
        }
    }
    tasks.step("order", 1, regions_.size(), [&](std::size_t index, unsigned) { place_groups(regions_[index], parts); });
    return parts;
}

void Lists::place_groups(Region& region, const std::vector<Parts>& parts) {
    const Group* const groups = unordered_.as<Group>() + region.first_group;
    const auto place_of = [&](u32 g) {
        const u32 at = region.by_rounds[groups[g].rounds]++;
        groups_.as<Group>()[at] = groups[g];
        return std::size_t{lanes * at};
    };
    const u32* const order = order_.as<u32>() + region.first_list;
    for (u32 g = 0; g < region.short_groups; ++g) {
        const std::size_t at = place_of(g);
        for (u32 lane = 0, rank = lanes * g; lane < lanes; ++lane, ++rank) {
            const bool used = rank < region.filled;
            targets_.as<u32>()[at + lane] = used ? target_of(region.first_list + order[rank]) : no_target;
            if (endomorphic_)
                endo_rounds_.as<u16>()[at + lane] = used ? static_cast<u16>(endo_counts(region)[order[rank]]) : u16{0};
        }
    }
    u32 g = region.short_groups;
    for (std::size_t l = 0; l < region.long_lists.size(); ++l) {
        const LongList& list = region.long_lists[l];
        const u32 rounds = list.rounds(), endo = endomorphic_ ? endo_counts(region)[list.list] : 0;
        u32 part = parts[region.first_parts + l].first;
        for (u32 i = 0; i < list.groups; ++i, ++g) {
            const std::size_t at = place_of(g);
            for (u32 lane = 0; lane < lanes; ++lane, ++part) {
                targets_.as<u32>()[at + lane] = part;
                if (!endomorphic_) continue;
                // Entries i of the list lie in lane i % 8; those before `endo` are endomorphic.
                const u32 before = static_cast<u32>(lanes) * rounds * i + lane;
                const u32 mapped = endo > before ? (endo - before - 1) / static_cast<u32>(lanes) + 1 : 0;
                endo_rounds_.as<u16>()[at + lane] = static_cast<u16>(std::min(mapped, rounds));
            }
        }
    }
}

void Lists::run_chunks(const std::byte* table, const Sums& sums, Counts& counts, Tasks& tasks) {
    const std::size_t workers = tasks.cut_for();
    if (total_groups_ == 0) return;
    // As many chunks for each worker, none too large for the cache; two at least where there are several workers,
    // because the first are the longest. One group fewer than `least` would make the inversions a fifth of the
    // additions.
    constexpr std::size_t least = 8;
    static_assert(least <= chunk_groups);
    const std::size_t by_cache = (total_groups_ + workers * chunk_groups - 1) / (workers * chunk_groups);
    const std::size_t wanted = workers * std::max<std::size_t>(by_cache, workers > 1 ? 2 : 1);
    const std::size_t size = std::clamp<std::size_t>((total_groups_ + wanted - 1) / wanted, least, chunk_groups);
    const std::size_t chunks = (total_groups_ + size - 1) / size;
    std::vector<Counts> by_worker(tasks.workers());
    std::atomic<std::size_t> done{0};
    tasks.step("add", 0, chunks, [&](std::size_t chunk, unsigned worker) {
        const std::size_t first = chunk * size;
        const Chunk work = {table,
                            entries_.as<u32>(),
                            groups_.as<Group>() + first,
                            std::min(size, total_groups_ - first),
                            targets_.as<u32>() + lanes * first,
                            endomorphic_ ? endo_rounds_.as<u16>() + lanes * first : nullptr,
                            sums.points,
                            sums.present,
                            scratch_.as<std::byte>() + kernel_.scratch_bytes * worker};
        kernel_.sum_lists(work, by_worker[worker]);
        const std::size_t finished = done.fetch_add(1, std::memory_order_relaxed) + 1;
        if (worker == 0) tasks.control.report(static_cast<double>(finished) / static_cast<double>(chunks));
    });
    for (const Counts& one : by_worker) counts += one;
}

// Sums of parts to sums of lists: the parts are points of a table of their own, and the level starts anew.
void Lists::add_up(const std::vector<Parts>& parts, const Sums& sums, Counts& counts, Tasks& tasks) {
    std::size_t entries = 0;
    for (const Parts& list : parts) entries += list.count;
    const std::size_t part_base = next_part_;
    begin({{{parts.size(), entries}}});
    next_part_ = part_base;
    for (const Parts& list : parts) targets_by_list_.push_back(list.target);
    u32* const counter = zeroed_counts(0);
    for (std::size_t l = 0; l < parts.size(); ++l) {
        for (u32 i = 0; i < parts[l].count; ++i) counter[l] += sums.present[parts[l].first + i];
    }
    lay_out(0);
    const Cursor to = cursor(0);
    for (std::size_t l = 0; l < parts.size(); ++l) {
        for (u32 i = 0; i < parts[l].count; ++i) {
            const u32 part = parts[l].first + i;
            if (sums.present[part]) to.place(l, entry_of(part));
        }
    }
    const std::vector<Parts> deeper = order_groups(tasks);
    run_chunks(sums.points, sums, counts, tasks);
    if (!deeper.empty()) add_up(deeper, sums, counts, tasks);
}

void Lists::sum(const std::byte* table, const Sums& sums, Counts& counts, Tasks& tasks) {
    const std::size_t lists = next_part_;
    std::memset(sums.present, 0, lists);
    const std::vector<Parts> parts = order_groups(tasks);
    run_chunks(table, sums, counts, tasks);
    if (!parts.empty() && !WHET_PLANT(split_list_lost)) add_up(parts, sums, counts, tasks);
}

}  // namespace whet::msm
