#include "graph/tensor_map.hpp"

#include <vector>

namespace whet::graph {

TensorMap::TensorMap(std::uint32_t capacity)
    : capacity_(capacity),
      buckets_(std::max<std::uint64_t>(64, capacity)),
      entries_(new Entry[capacity]),
      buffer_heads_(new std::uint32_t[buckets_]),
      chunk_heads_(new std::uint64_t[buckets_]) {
    std::fill_n(buffer_heads_.get(), buckets_, kNone);
    std::fill_n(chunk_heads_.get(), buckets_, kNoChunk);
}

void TensorMap::keep_view(std::uint32_t position, const View& view) {
    if (!views_) views_.reset(new View[capacity_]);
    views_[position & (capacity_ - 1)] = view;
}

// Links the entry into its buffer's chain and, if the buffer is indexed, into the chunk chains. A head that is no
// longer alive is not linked to: its number may come round again while this entry lives.
void TensorMap::append(std::uint32_t& chain, const Entry& entry, const View* view) {
    const std::uint32_t position = head_++;
    Entry& own = at(position);
    own = entry;
    if (view) keep_view(position, *view);
    const auto older = [this, position](std::uint32_t other) { return other != position && alive(other); };
    own.next_of_buffer = older(chain) ? chain : position;
    chain = position;
    own.next_of_chunk[0] = own.next_of_chunk[1] = kNoChunk;
    if (!own.indexed) return;
    const std::uint64_t chunk = own.begin >> own.level;
    const bool straddles = (own.end - 1) >> own.level != chunk;
    for (unsigned which = 0; which <= static_cast<unsigned>(straddles); ++which) {
        std::uint64_t& head = chunk_head(own.base, own.level, chunk + which);
        const auto head_position = static_cast<std::uint32_t>(head >> 1);
        const bool linked = head != kNoChunk && (older(head_position) || (which == 1 && head_position == position));
        own.next_of_chunk[which] = linked ? head : kNoChunk;
        head = static_cast<std::uint64_t>(position) * 2 + which;
    }
}

// Appends copies of the buffer's live entries, oldest first, this time with their chunks; the originals die. Copies
// keep the rule that chains link towards older positions.
void TensorMap::index_buffer(std::uint32_t& chain, std::uint64_t base) {
    std::vector<std::uint32_t> live;
    each_live(chain, base, [&live](std::uint32_t position, const Entry&) { live.push_back(position); });
    std::uint32_t write_levels = 0;
    std::uint32_t read_levels = 0;
    std::uint32_t count = 0;
    for (auto place = live.rbegin(); place != live.rend(); ++place) {
        Entry copy = at(*place);
        const View view = copy.strided ? views_[*place & (capacity_ - 1)] : View{};
        at(*place).dead = true;
        copy.level = static_cast<std::uint8_t>(level_of({copy.begin, copy.end, nullptr}));
        (copy.writes ? write_levels : read_levels) |= 1U << (copy.level - kLowestLevel);
        copy.indexed = true;
        copy.write_levels = write_levels;
        copy.read_levels = read_levels;
        copy.count = static_cast<std::uint16_t>(std::min(++count, kMostCount));
        append(chain, copy, copy.strided ? &view : nullptr);
    }
}

// The buffer is indexed already, or its count says it may be time: counts what really lives and decides.
void TensorMap::insert_indexed(std::uint32_t& chain, std::uint32_t newest, std::uint64_t base, const Region& region,
                               bool writes, std::uint64_t task) {
    if (!at(newest).indexed) {
        std::uint32_t live = 0;
        each_live(chain, base, [&live](std::uint32_t, const Entry&) { ++live; });
        if (live + 1 >= kIndexFrom && room(live + 1)) {
            index_buffer(chain, base);
            newest = newest_of(chain, base);
        } else {
            at(newest).count = static_cast<std::uint16_t>(std::min(live, kMostCount - 1));
        }
    }
    const Entry& summary = at(newest);
    Entry entry{};
    entry.base = base;
    entry.begin = region.begin;
    entry.end = region.end;
    entry.task = task;
    entry.level = static_cast<std::uint8_t>(level_of(region));
    entry.writes = writes;
    entry.strided = region.view != nullptr;
    entry.count = static_cast<std::uint16_t>(std::min(summary.count + 1U, kMostCount));
    entry.indexed = summary.indexed;
    entry.write_levels = summary.write_levels;
    entry.read_levels = summary.read_levels;
    if (entry.indexed) (writes ? entry.write_levels : entry.read_levels) |= 1U << (entry.level - kLowestLevel);
    append(chain, entry, region.view);
}

}  // namespace whet::graph
