#include "graph/submitter/tensor_map.hpp"

namespace whet::graph {

namespace {

constexpr std::uint64_t kFirstTracks = 1024;

unsigned level_of(std::uint64_t begin, std::uint64_t end, unsigned lowest, unsigned highest) {
    return std::clamp(static_cast<unsigned>(std::bit_width(end - begin - 1)), lowest, highest);
}

}  // namespace

TensorMap::TensorMap(std::uint32_t capacity, std::uint32_t buckets)
    : capacity_(capacity),
      buckets_(buckets != 0 ? buckets : std::max(64U, capacity / 8)),
      entries_(new Entry[capacity]),
      chunk_heads_(new std::uint64_t[buckets_]),
      table_(new Track[kFirstTracks]()),
      table_mask_(kFirstTracks - 1) {
    std::fill_n(chunk_heads_.get(), buckets_, kNoChunk);
}

void TensorMap::keep_view(std::uint32_t position, const View& view) {
    if (!views_) views_.reset(new View[capacity_]);
    views_[position & (capacity_ - 1)] = view;
}

// A place that was never used, or whose buffer nobody touches any more.
Track& TensorMap::make_track(std::uint64_t base) {
    for (;;) {
        for (std::uint64_t place = home(base), probe = 0; probe < kProbes; ++probe) {
            Track& track = table_[(place + probe) & table_mask_];
            if (track.state != Track::State::unused && track.newest >= floor_) continue;
            begin_track(track, base, 0, 0);
            return track;
        }
        grow_table();
    }
}

void TensorMap::grow_table() {
    const std::unique_ptr<Track[]> old = std::move(table_);
    const std::uint64_t old_size = table_mask_ + 1;
    bool all_placed = false;
    for (std::uint64_t size = 2 * old_size; !all_placed; size *= 2) {
        table_.reset(new Track[size]());
        table_mask_ = size - 1;
        all_placed = true;
        for (std::uint64_t from = 0; from < old_size && all_placed; ++from) {
            if (old[from].state == Track::State::unused || old[from].newest < floor_) continue;
            std::uint64_t probe = 0;
            const std::uint64_t place = home(old[from].base);
            while (probe < kProbes && table_[(place + probe) & table_mask_].state != Track::State::unused) ++probe;
            all_placed = probe < kProbes;
            if (all_placed) table_[(place + probe) & table_mask_] = old[from];
        }
    }
}

// A track that says nothing any more takes the new region as its own. One that does is split, so that its regions are
// kept apart; if the ring has no room for that, it goes on with the interval around both, which is conservative.
void TensorMap::settle(Track& track, const Region& region) {
    Track::Plain& plain = track.plain;
    std::uint32_t live = 0;
    bool chained = false;
    if (track.newest >= floor_) {
        live = plain.writer > floor_;
        for (std::uint8_t reader = 0; reader < track.reader_count; ++reader) live += plain.readers[reader] > floor_;
        each_live(track.reads, track.base, [&chained](const Entry&) { chained = true; });
    }
    if (live == 0 && !chained) {
        begin_track(track, track.base, region.end, track.newest);
        plain.begin = region.begin;
        if (!region.view) return;
    } else if (!room(live + reserve_)) {
        plain.begin = std::min(plain.begin, region.begin);
        plain.end = std::max(plain.end, region.end);
        return;
    }
    const Track::Plain old = plain;
    track.state = Track::State::split;
    track.split = {no_chain(), 0, 0, 0, live == 0 && !chained ? 0 : old.end};
    const Region whole{old.begin, old.end, nullptr};
    if (old.writer > floor_) append(track.split.writes, track.base, whole, true, old.writer - 1);
    for (std::uint8_t reader = 0; reader < track.reader_count; ++reader) {
        if (old.readers[reader] > floor_) append(track.reads, track.base, whole, false, old.readers[reader] - 1);
    }
    track.reader_count = 0;
}

void TensorMap::meet(Entry& entry, const Search& search) {
    const Overlap meeting = overlap(search.region, region_of(entry));
    if (meeting == Overlap::none) return;
    found_.push_back(entry.task);
    if (search.writes && search.enters && meeting == Overlap::covered) entry.dead = true;
}

// False if there are more than `most` to look at. A write that covers the region ends the search: its task waits for
// all older ones, and only what has come after it is left to find.
bool TensorMap::walk(std::uint32_t& chain, std::uint64_t base, Search& search, std::uint32_t most) {
    for (std::uint32_t* link = &chain; alive(*link);) {
        Entry& entry = at(*link);
        if (entry.base != base || entry.task < search.floor) return true;
        if (!entry.dead) {
            if (most-- == 0) return false;
            const std::size_t before = found_.size();
            meet(entry, search);
            if (entry.writes && found_.size() != before &&
                overlap(region_of(entry), search.region) == Overlap::covered) {
                search.floor = entry.task;
                if (entry.dead) *link = entry.next;
                return true;
            }
        }
        if (entry.dead) {
            *link = entry.next;
        } else {
            link = &entry.next;
        }
    }
    return true;
}

void TensorMap::walk_chunk(std::uint64_t base, unsigned level, std::uint64_t chunk, const Search& search) {
    for (std::uint64_t* link = &chunk_head(base, level, chunk); *link != kNoChunk;) {
        const std::uint32_t position = static_cast<std::uint32_t>(*link >> 1);
        const unsigned which = *link & 1;
        if (!alive(position)) return;
        Entry& entry = at(position);
        const bool same = entry.base == base && entry.level == level && chunk_of(entry.begin, level) + which == chunk;
        if (same && !entry.dead && entry.task >= search.floor && (search.writes || entry.writes)) meet(entry, search);
        if (entry.dead) {
            *link = entry.next_of_chunk[which];
        } else {
            link = &entry.next_of_chunk[which];
        }
    }
}

// Fills found_ with what the access conflicts with.
void TensorMap::search(Track& track, const Region& region, bool writes, bool enters) {
    found_.clear();
    Search own{region, writes, enters, floor_};
    // A buffer that has an index is looked at just far enough to meet the last access again.
    const std::uint32_t most = track.split.count < kWalkMost ? kWalkMost : 1;
    if (walk(track.split.writes, track.base, own, most) && (!writes || walk(track.reads, track.base, own, most)))
        return;
    index(track);
    const std::uint32_t levels = track.split.write_levels | (writes ? track.split.read_levels : 0);
    const auto level_of_bit = [](std::uint32_t rest) {
        return static_cast<unsigned>(std::countr_zero(rest)) + kLowestLevel;
    };
    std::uint64_t probes = 0;
    for (std::uint32_t rest = levels; rest != 0; rest &= rest - 1) {
        const unsigned level = level_of_bit(rest);
        probes += chunk_of(region.end - 1, level) - chunk_of(region.begin, level) + 2;
    }
    if (probes > std::min(track.split.count, used())) {
        // More chunks than entries: look at all of these.
        walk(track.split.writes, track.base, own, capacity_);
        if (writes) walk(track.reads, track.base, own, capacity_);
        return;
    }
    for (std::uint32_t rest = levels; rest != 0; rest &= rest - 1) {
        const unsigned level = level_of_bit(rest);
        const std::uint64_t last = chunk_of(region.end - 1, level);
        // An entry is listed under the chunk it begins in and the next one, so the chunk before is not needed.
        for (std::uint64_t chunk = chunk_of(region.begin, level); chunk <= last; ++chunk) {
            walk_chunk(track.base, level, chunk, own);
        }
    }
}

// Brings the index up to date with the entries that have come since, oldest first: then the newest ones come first in
// their chunk lists.
void TensorMap::index(Track& track) {
    to_index_.clear();
    for (const std::uint32_t chain : {track.split.writes, track.reads}) {
        for (std::uint32_t position = chain; alive(position); position = at(position).next) {
            const Entry& entry = at(position);
            // What is older than an indexed entry is indexed, too.
            if (entry.base != track.base || entry.task < floor_ || entry.indexed) break;
            if (!entry.dead) to_index_.push_back(position);
        }
    }
    const std::uint32_t newest = head_;
    std::sort(to_index_.begin(), to_index_.end(),
              [newest](std::uint32_t a, std::uint32_t b) { return newest - a > newest - b; });
    for (const std::uint32_t position : to_index_) index_entry(track, position);
}

// Chunk lists link towards older positions, as chains do. Buffers that share a list are indexed at different times, so
// the entry goes behind what is newer. An entry that is no longer alive is not linked to: its number may come round
// again.
void TensorMap::index_entry(Track& track, std::uint32_t position) {
    Entry& own = at(position);
    const unsigned level = level_of(own.begin, own.end, kLowestLevel, kHighestLevel);
    own.level = static_cast<std::uint8_t>(level);
    own.indexed = true;
    (own.writes ? track.split.write_levels : track.split.read_levels) |= 1U << (level - kLowestLevel);
    ++track.split.count;
    ++indexed_;
    const std::uint64_t chunk = chunk_of(own.begin, level);
    const bool straddles = chunk_of(own.end - 1, level) != chunk;
    for (unsigned which = 0; which <= static_cast<unsigned>(straddles); ++which) {
        std::uint64_t* link = &chunk_head(own.base, level, chunk + which);
        const auto position_in = [](std::uint64_t other) { return static_cast<std::uint32_t>(other >> 1); };
        const auto alive_in = [&](std::uint64_t other) { return other != kNoChunk && alive(position_in(other)); };
        while (alive_in(*link) && head_ - position_in(*link) < head_ - position) {
            link = &at(position_in(*link)).next_of_chunk[*link & 1];
        }
        own.next_of_chunk[which] = alive_in(*link) ? *link : kNoChunk;
        *link = static_cast<std::uint64_t>(position) * 2 + which;
    }
}

}  // namespace whet::graph
