// Whoever has the lock and submits: dependencies, heap, scopes, retirement. Everything here is plain memory; it meets
// the workers only in Core::prepare, Core::publish and the completion bytes.
#include <algorithm>
#include <cstring>
#include <new>

#include "graph/runtime_impl.hpp"
#include "graph/submitter/vigil.hpp"

namespace whet::graph {

namespace {

constexpr std::size_t kMostTensors = 0xffff;

std::uint64_t address_of(const void* base) { return reinterpret_cast<std::uint64_t>(base); }

}  // namespace

void Runtime::Impl::reclaim() {
    tasks_.reclaim(
        [this](std::uint64_t, std::uint64_t to) { heap_.free_to(tasks_.ledger(tasks_.slot_of(to - 1)).heap_top); });
    const bool uncollected = outcomes_.uncollected() && !WHET_GRAPH_PLANT(failed_region_not_kept);
    const auto left = [this, uncollected](TaskId task, std::uint64_t base, const Region& region, bool writes) {
        if (uncollected && outcomes_.has(task)) {
            failed_regions_.push_back({base, {region.begin, region.end, nullptr}, writes});
        }
    };
    map_.reclaim(tasks_.watermark(), left);
}

std::string Runtime::Impl::occupancy(Code code, std::uint64_t wanted) const {
    const TaskId oldest = tasks_.tail();
    std::string text = "oldest task " + std::to_string(oldest);
    text += name_text(tasks_.ledger(tasks_.slot_of(oldest)).name);
    text += tasks_.pinned_by_caller(oldest) ? " is held by an open scope" : " is not done";
    text += ", next task " + std::to_string(tasks_.head());
    text += ", first task not done " + std::to_string(tasks_.watermark());
    text += "; window " + std::to_string(tasks_.head() - oldest) + " of " + std::to_string(config_.window);
    text += ", heap " + std::to_string(heap_.used()) + " of " + std::to_string(heap_.capacity()) + " bytes";
    text += ", tensor map " + std::to_string(map_.used()) + " of " + std::to_string(map_.capacity());
    if (code == Code::heap_deadlock) text += "; wanted " + std::to_string(wanted) + " bytes";
    if (code == Code::tensormap_deadlock) text += "; wanted " + std::to_string(wanted) + " entries";
    return text;
}

// Waits until room() holds, running tasks meanwhile. Nothing can move any more when the oldest task is pinned by a
// scope that only this thread can end: then it fails at once. The wall clock is a backstop for what cannot be foreseen.
template <class Room>
Status Runtime::Impl::make_room(Code code, Watch watch, Room&& room) {
    if (room()) return {};
    reclaim();
    if (room()) return {};
    flush();
    ++blocked_[static_cast<std::size_t>(code) - static_cast<std::size_t>(Code::window_deadlock)];
    Vigil vigil(*this, watch, 0, config_.submitter_helps);
    for (;;) {
        reclaim();
        if (room()) return {};
        if (closing_) return {Code::shut_down, 0, 0, {}};
        if (code != Code::tensormap_deadlock && tasks_.pinned_by_caller(tasks_.tail())) {
            return {code, tasks_.tail(), 0, {}};
        }
        if (Status status = vigil.pass(); !status.ok()) return status;
    }
}

Code Runtime::Impl::refuse(Status status) {
    refusal_ = std::move(status);
    return refusal_.code;
}

inline bool Runtime::Impl::has_rooms(std::uint64_t bytes, std::uint32_t regions) {
    return tasks_.has_room() && map_.room(regions) && heap_.fits(bytes);
}

// Room in all three rings, before anything is changed.
Code Runtime::Impl::make_rooms(std::uint64_t bytes, std::uint32_t regions, Watch watch) {
    if (bytes > heap_.capacity()) {
        return refuse({Code::output_too_large, tasks_.head(), 0,
                       std::to_string(bytes) + " bytes wanted, heap_bytes " + std::to_string(heap_.capacity())});
    }
    if (regions > map_.capacity()) {
        return refuse({Code::tensormap_deadlock, tasks_.head(), 0, occupancy(Code::tensormap_deadlock, regions)});
    }
    std::uint64_t wanted = 1;
    Status status = make_room(Code::window_deadlock, watch, [this] { return tasks_.has_room(); });
    if (status.ok()) {
        wanted = regions;
        status = make_room(Code::tensormap_deadlock, watch, [this, regions] { return map_.room(regions); });
    }
    if (status.ok()) {
        wanted = bytes;
        status = make_room(Code::heap_deadlock, watch, [this, bytes] { return heap_.fits(bytes); });
    }
    const bool is_ring = status.code >= Code::window_deadlock && status.code <= Code::tensormap_deadlock;
    if (is_ring && status.detail.empty()) status.detail = occupancy(status.code, wanted);
    return status.ok() ? Code::ok : refuse(std::move(status));
}

// The owner is not in the window, or the tensor has none though it lies in the heap.
inline bool Runtime::Impl::is_misplaced(const TensorArg& tensor) const {
    return tensor.owner == kNoTask ? heap_.owns(tensor.base) : !tasks_.is_in_window(tensor.owner);
}

Code Runtime::Impl::refuse_tensor(const TensorArg& tensor) {
    if (tensor.owner == kNoTask) {
        return refuse(
            {Code::bad_argument, tasks_.head(), 0, "memory of the output heap must come with the task that owns it"});
    }
    return refuse({tensor.owner < tasks_.tail() ? Code::output_retired : Code::unknown_task, tensor.owner, 0, {}});
}

// A conflict with an access of a failed task that has already left the map.
bool Runtime::Impl::meets_failed(const TensorArg& tensor) const {
    if (WHET_GRAPH_PLANT(failed_region_forgotten)) return false;
    const std::uint64_t base = address_of(tensor.base);
    return std::any_of(failed_regions_.begin(), failed_regions_.end(), [&tensor, base](const FailedRegion& failed) {
        if (!failed.writes && tensor.direction == Direction::in) return false;
        if (failed.base == base) return overlap(failed.region, tensor.region) != Overlap::none;
        return failed.base + failed.region.begin < base + tensor.region.end &&
               base + tensor.region.begin < failed.base + failed.region.end;
    });
}

// Outputs are tracked beside the slot of their owner; those beyond the first few, and all other memory, by address.
inline Track& Runtime::Impl::track_of(const TensorArg& tensor) {
    const std::uint64_t base = address_of(tensor.base);
    if (tensor.owner != kNoTask) {
        const std::uint32_t slot = core_.table().slot_of(tensor.owner);
        Track* track = tracks_.get() + static_cast<std::size_t>(slot) * kInlineTracks;
        for (std::uint32_t left = tasks_.ledger(slot).tracks; left != 0; --left, ++track) {
            if (track->base == base) return *track;
        }
    }
    return map_.track_of(base);
}

[[gnu::always_inline]] inline void Runtime::Impl::enter_access(const TensorArg& tensor, Producers& producers) {
    map_.access(track_of(tensor), tensor.region, tensor.direction != Direction::in, tasks_.head(),
                [&producers](TaskId producer) { producers.add(producer, Edge::Source::data); });
}

// Memory that may be known under other bases as well: what any of them knows about these bytes counts.
[[gnu::noinline]] void Runtime::Impl::enter_anywhere(const TensorArg& tensor, Producers& producers) {
    const std::uint64_t base = address_of(tensor.base);
    const std::uint64_t end = base + std::max(tensor.region.end, tensor.buffer_bytes);
    const auto& bases = buffers_.locate(base, end, [this](std::uint64_t other) { return map_.live(other); });
    TensorArg entered;
    const TensorArg* known = &tensor;
    if (bases.size() != 1 || bases.front() != base) [[unlikely]] {
        entered = tensor;
        look_elsewhere(entered, bases, producers);
        known = &entered;
    }
    enter_access(*known, producers);
}

// What the other bases know of these bytes; then the tensor as it is known by the first one.
void Runtime::Impl::look_elsewhere(TensorArg& tensor, const std::vector<std::uint64_t>& bases, Producers& producers) {
    const bool writes = tensor.direction != Direction::in;
    const std::uint64_t begins = address_of(tensor.base) + tensor.region.begin;
    const std::uint64_t ends = address_of(tensor.base) + tensor.region.end;
    for (std::size_t other = 1; other < bases.size(); ++other) {
        if (ends <= bases[other]) continue;
        map_.look(bases[other], std::max(begins, bases[other]) - bases[other], ends - bases[other], writes,
                  [&producers](TaskId producer) { producers.add(producer, Edge::Source::data); });
    }
    tensor.base = reinterpret_cast<void*>(bases.front());
    tensor.region.begin = begins - bases.front();
    tensor.region.end = ends - bases.front();
}

// Memory that the caller has just got: whatever is known of its bytes concerns others that have been given back.
void Runtime::Impl::enter_fresh(TensorArg& tensor) {
    const std::uint64_t base = address_of(tensor.base);
    tensor.region = {0, tensor.bytes, nullptr};
    buffers_.renew(base, base + tensor.bytes, [this](std::uint64_t old) { map_.forget(old); });
    std::erase_if(failed_regions_, [base, &tensor](const FailedRegion& failed) {
        return failed.base + failed.region.begin < base + tensor.bytes && base < failed.base + failed.region.end;
    });
    Track& track = map_.track_of(base);
    map_.begin_track(track, base, tensor.bytes, tasks_.head());
    track.plain.writer = tasks_.head() + 1;
}

// Allocates the outputs, finds the producers and writes the addresses down, in one pass.
inline void Runtime::Impl::enter_tensors(TaskSpec& task, Producers& producers, std::uint64_t bytes, void** words) {
    auto* block = bytes != 0 ? static_cast<std::byte*>(heap_.take(bytes)) : nullptr;
    const TaskId id = tasks_.head();
    const bool infers = tasks_.infers();
    const bool uncollected = producers.uncollected();
    const std::uint32_t slot = core_.table().slot_of(id);
    Track* const tracks = tracks_.get() + static_cast<std::size_t>(slot) * kInlineTracks;
    std::uint32_t outputs = 0;
    for (TensorArg& tensor : task.tensors) {
        const Direction direction = tensor.direction;
        if (direction == Direction::out) {
            if (tensor.fresh) [[unlikely]] {
                enter_fresh(tensor);
            } else if (block) {
                tensor.base = block;
                tensor.region = {0, tensor.bytes, nullptr};
                tensor.owner = id;
                block += heap_.padded(tensor.bytes);
                if (outputs < kInlineTracks) {
                    map_.begin_track(tracks[outputs++], address_of(tensor.base), tensor.bytes, id);
                }
            }
        } else if (infers) {
            if (tensor.owner != kNoTask) producers.add(tensor.owner, Edge::Source::owner);
            if (tensor.made_by != kNoTask) [[unlikely]]
                producers.add(tensor.made_by, Edge::Source::owner);
            if (direction != Direction::nodep && tensor.region.begin != tensor.region.end) {
                if (uncollected && meets_failed(tensor)) [[unlikely]]
                    producers.poison();
                if (tensor.owner != kNoTask || tensor.apart) {
                    enter_access(tensor, producers);
                } else {
                    enter_anywhere(tensor, producers);
                }
            }
        } else if (tensor.owner != kNoTask) {
            // No edges in a manual scope, but the memory is in use until this task is done.
            producers.hold(tensor.owner);
        }
        *words++ = tensor.base ? static_cast<std::byte*>(tensor.base) + tensor.region.begin : nullptr;
    }
    tasks_.ledger(slot).tracks = outputs;
}

// Where the addresses of the tensors go, and the scalars behind them.
inline void** Runtime::Impl::place_arguments(std::uint32_t slot, const TaskSpec& task) {
    const std::size_t count = task.tensors.size() + task.scalars.size();
    void** words = arguments_.get() + static_cast<std::size_t>(slot) * kInlineArguments;
    if (count > kInlineArguments) words = tasks_.spill_arguments(slot, count);
    auto& own = core_.table()[slot];
    own.arguments.set(words);
    own.tensor_count.set(static_cast<std::uint16_t>(task.tensors.size()));
    void** scalars = words + task.tensors.size();
    for (const std::uint64_t scalar : task.scalars) std::memcpy(scalars++, &scalar, sizeof scalar);
    return words;
}

// Waits for room and looks again: what was there may have been retired meanwhile, and others may have submitted.
Code Runtime::Impl::admit_later(const TaskSpec& task, std::uint64_t bytes, std::uint32_t regions, const Terms& terms) {
    if (closing_) return refuse({Code::shut_down, 0, 0, {}});
    if (task.tensors.size() > kMostTensors) return refuse_wrong(task);
    while (!has_rooms(bytes, regions)) {
        if (!terms.may_wait) {
            reclaim();
            if (has_rooms(bytes, regions)) break;
            return Code::timed_out;
        }
        const Code code = make_rooms(bytes, regions, terms.watch);
        if (code != Code::ok) return code;
    }
    if (closing_) return refuse({Code::shut_down, 0, 0, {}});
    if (terms.expected != kNoTask && tasks_.head() != terms.expected) return Code::unknown_task;
    // From here to the end nothing is retired.
    return refuse_wrong(task);
}

// The first thing that is wrong with a task, if any.
Code Runtime::Impl::refuse_wrong(const TaskSpec& task) {
    if (task.tensors.size() > kMostTensors) return refuse({Code::too_many_tensors, tasks_.head(), 0, {}});
    for (const TaskId dependency : task.dependencies) {
        if (dependency >= tasks_.head()) return refuse({Code::unknown_task, dependency, 0, {}});
        if (outcomes_.forgot(dependency)) return refuse({Code::outcome_forgotten, dependency, 0, {}});
    }
    for (const TensorArg& tensor : task.tensors) {
        if (tensor.direction != Direction::out && is_misplaced(tensor)) return refuse_tensor(tensor);
    }
    return Code::ok;
}

// Whether the task may be entered, and what it needs of the rings. Changes nothing unless the answer is yes. What is
// hardly ever so is asked all at once, and sorted out elsewhere.
inline Code Runtime::Impl::admit(const TaskSpec& task, std::uint64_t& bytes, std::uint32_t& regions,
                                 const Terms& terms) {
    bool wrong = task.tensors.size() > kMostTensors;
    const std::uint64_t largest = heap_.capacity();
    for (const TensorArg& tensor : task.tensors) {
        if (tensor.direction == Direction::out) {
            if (tensor.fresh) continue;
            // One byte too many is enough to be refused, and cannot overflow the sum.
            bytes += tensor.bytes <= largest ? heap_.padded(tensor.bytes) : largest + 1;
        } else {
            ++regions;
            wrong |= is_misplaced(tensor);
            if (tensor.owner == kNoTask) map_.prefetch(address_of(tensor.base));
        }
    }
    if (!tasks_.infers()) regions = 0;
    if (closing_ || !has_rooms(bytes, regions)) [[unlikely]]
        return admit_later(task, bytes, regions, terms);
    const TaskId head = tasks_.head();
    const TaskId forgotten = outcomes_.forgotten();
    for (const TaskId dependency : task.dependencies) wrong |= dependency - forgotten >= head - forgotten;
    if (wrong) [[unlikely]]
        return refuse_wrong(task);
    return Code::ok;
}

Code Runtime::Impl::submit(TaskSpec& task, TaskId& id, const Terms& terms) {
    std::uint64_t bytes = 0;
    std::uint32_t regions = 0;
    if (const Code code = admit(task, bytes, regions, terms); code != Code::ok) return code;
    id = tasks_.head();
    const std::uint32_t slot = tasks_.begin(task.name);
    Producers producers(tasks_);
    for (const TaskId dependency : task.dependencies) producers.add(dependency, Edge::Source::given);
    void** const words = place_arguments(slot, task);
    if (!task.tensors.empty()) {
        map_.expect(regions, producers.uncollected());
        enter_tensors(task, producers, bytes, words);
    }
    tasks_.ledger(slot).heap_top = heap_.top();
    // The lines come from where a worker used them last.
    const std::uint32_t ahead = tasks_.slot_of(id + kPrefetchAhead);
    __builtin_prefetch(&core_.table()[ahead], 1);
    __builtin_prefetch(&tasks_.ledger(ahead), 1);
    auto& own = core_.table()[slot];
    own.body.set(task.body);
    own.user.set(task.user);
    own.kind.set(static_cast<std::uint8_t>(task.kind));
    tasks_.enter(slot, producers);
    if (regions != 0 && id >= reclaim_at_) {
        reclaim();
        reclaim_at_ = id + kReclaimEvery;
    }
    return Code::ok;
}

}  // namespace whet::graph
