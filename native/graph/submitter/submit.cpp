// A task comes in: is it right, is there room, what does it depend on, where does its memory lie.
#include <algorithm>
#include <cstring>
#include <new>

#include "graph/submitter/submitter.hpp"

namespace whet::graph {

namespace {

constexpr std::size_t kMostTensors = 0xffff;

std::uint64_t address_of(const void* base) { return reinterpret_cast<std::uint64_t>(base); }

}  // namespace

Submitter::Submitter(const Config& config, Core<MachineSeam>& core, Outcomes<MachineSeam>& outcomes,
                     const TaskNames& names)
    : config_(config),
      core_(core),
      outcomes_(outcomes),
      names_(names),
      born_(fork_generation()),
      heap_(config.heap_bytes, config.output_align),
      map_(config.tensormap_capacity),
      tasks_(core, outcomes, config),
      tracks_(new Track[static_cast<std::size_t>(config.window) * kInlineTracks]),
      arguments_(new void*[static_cast<std::size_t>(config.window) * kInlineArguments]),
      trace_(config.trace, 0) {}

void Submitter::reclaim() {
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

std::string Submitter::occupancy(Code code, const Needs& needs) const {
    const TaskId oldest = tasks_.tail();
    std::string text = "oldest task " + std::to_string(oldest);
    text += names_.behind_task(tasks_.ledger(tasks_.slot_of(oldest)).name);
    text += tasks_.pinned_by_caller(oldest) ? " is held by an open scope" : " is not done";
    text += ", next task " + std::to_string(tasks_.head());
    text += ", first task not done " + std::to_string(tasks_.watermark());
    text += "; window " + std::to_string(tasks_.head() - oldest) + " of " + std::to_string(config_.window);
    text += ", heap " + std::to_string(heap_.used()) + " of " + std::to_string(heap_.capacity()) + " bytes";
    text += ", tensor map " + std::to_string(map_.used()) + " of " + std::to_string(map_.capacity());
    if (code == Code::heap_deadlock) text += "; wanted " + std::to_string(needs.bytes) + " bytes";
    if (code == Code::tensormap_deadlock) text += "; wanted " + std::to_string(needs.regions) + " entries";
    return text;
}

Code Submitter::refuse(Status status) {
    refusal_ = std::move(status);
    return refusal_.code;
}

inline bool Submitter::has_rooms(const Needs& needs) {
    return tasks_.has_room() && map_.room(needs.regions) && heap_.fits(needs.bytes);
}

Code Submitter::lacking(const Needs& needs) {
    if (!tasks_.has_room()) return Code::window_deadlock;
    if (!map_.room(needs.regions)) return Code::tensormap_deadlock;
    return heap_.fits(needs.bytes) ? Code::ok : Code::heap_deadlock;
}

void Submitter::count_blocked(Code ring) {
    ++blocked_[static_cast<std::size_t>(ring) - static_cast<std::size_t>(Code::window_deadlock)];
}

// The owner is not in the window, or the tensor has none though it lies in the heap.
inline bool Submitter::is_misplaced(const TensorArg& tensor) const {
    return tensor.owner == kNoTask ? heap_.owns(tensor.base) : !tasks_.is_in_window(tensor.owner);
}

Code Submitter::refuse_tensor(const TensorArg& tensor) {
    if (tensor.owner == kNoTask) {
        return refuse(
            {Code::bad_argument, tasks_.head(), 0, "memory of the output heap must come with the task that owns it"});
    }
    return refuse({tensor.owner < tasks_.tail() ? Code::output_retired : Code::unknown_task, tensor.owner, 0, {}});
}

// A conflict with an access of a failed task that has already left the map.
bool Submitter::meets_failed(const TensorArg& tensor) const {
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
inline Track& Submitter::track_of(const TensorArg& tensor) {
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

[[gnu::always_inline]] inline void Submitter::enter_access(const TensorArg& tensor, TaskId id, Producers& producers) {
    map_.access(track_of(tensor), tensor.region, tensor.direction != Direction::in, id,
                [&producers](TaskId producer) { producers.add(producer, Edge::Source::data); });
}

// Memory that may be known under other bases as well: what any of them knows about these bytes counts.
[[gnu::noinline]] void Submitter::enter_anywhere(const TensorArg& tensor, TaskId id, Producers& producers) {
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
    enter_access(*known, id, producers);
}

// What the other bases know of these bytes; then the tensor as it is known by the first one.
void Submitter::look_elsewhere(TensorArg& tensor, const std::vector<std::uint64_t>& bases, Producers& producers) {
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
void Submitter::enter_fresh(TensorArg& tensor) {
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
inline void Submitter::enter_tensors(TaskSpec& task, Producers& producers, std::uint64_t bytes, void** words) {
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
            const bool owned = tensor.owner != kNoTask;
            if (owned) {
                producers.add(tensor.owner, Edge::Source::owner);
            } else if (tensor.made_by != kNoTask) [[unlikely]] {
                producers.add(tensor.made_by, Edge::Source::owner);
            }
            if (direction != Direction::nodep && tensor.region.begin != tensor.region.end) {
                if (uncollected && meets_failed(tensor)) [[unlikely]]
                    producers.poison();
                if (owned || tensor.apart) {
                    enter_access(tensor, id, producers);
                } else {
                    enter_anywhere(tensor, id, producers);
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
inline void** Submitter::place_arguments(std::uint32_t slot, const TaskSpec& task) {
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

// No room at first sight, or the end has begun.
Code Submitter::admit_late(const TaskSpec& task, const Needs& needs) {
    if (!is_open()) return refuse({Code::shut_down, 0, 0, {}});
    if (task.tensors.size() > kMostTensors) return refuse_wrong(task);
    if (needs.bytes > heap_.capacity()) {
        return refuse({Code::output_too_large, tasks_.head(), 0,
                       std::to_string(needs.bytes) + " bytes wanted, heap_bytes " + std::to_string(heap_.capacity())});
    }
    if (needs.regions > map_.capacity()) {
        return refuse({Code::tensormap_deadlock, tasks_.head(), 0, occupancy(Code::tensormap_deadlock, needs)});
    }
    reclaim();
    // What was retired just now may have been an owner.
    if (has_rooms(needs)) return refuse_wrong(task);
    unmet_ = needs;
    return kNoRoom;
}

// The first thing that is wrong with a task, if any.
Code Submitter::refuse_wrong(const TaskSpec& task) {
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
[[gnu::always_inline]] inline Code Submitter::admit(const TaskSpec& task, Needs& needs) {
    bool wrong = task.tensors.size() > kMostTensors;
    std::uint64_t bytes = 0;
    std::uint32_t regions = 0;
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
    needs = {bytes, tasks_.infers() ? regions : 0};
    if (!is_open() || !has_rooms(needs)) [[unlikely]]
        return admit_late(task, needs);
    // Forgotten ones are below, and wrap round to the largest.
    const TaskId forgotten = outcomes_.forgotten();
    TaskId farthest = 0;
    for (const TaskId dependency : task.dependencies) farthest = std::max(farthest, dependency - forgotten);
    if (wrong || (farthest >= tasks_.head() - forgotten && !task.dependencies.empty())) [[unlikely]]
        return refuse_wrong(task);
    return Code::ok;
}

Code Submitter::submit(TaskSpec& task, TaskId& id) {
    Needs needs{};
    if (const Code code = admit(task, needs); code != Code::ok) return code;
    id = tasks_.head();
    const std::uint32_t slot = tasks_.begin(task.name);
    Producers producers(tasks_);
    for (const TaskId dependency : task.dependencies) producers.add(dependency, Edge::Source::given);
    void** const words = place_arguments(slot, task);
    if (!task.tensors.empty()) {
        map_.expect(needs.regions, producers.uncollected());
        enter_tensors(task, producers, needs.bytes, words);
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
    if (needs.regions != 0 && id >= reclaim_at_) {
        reclaim();
        reclaim_at_ = id + kReclaimEvery;
    }
    return Code::ok;
}

Peaks Submitter::peaks() const {
    Peaks peaks{};
    peaks.window_now = tasks_.head() - tasks_.tail();
    peaks.window_peak = tasks_.window_peak();
    peaks.window_capacity = config_.window;
    peaks.heap_now = heap_.used();
    peaks.heap_peak = heap_.peak();
    peaks.heap_capacity = heap_.capacity();
    peaks.tensormap_now = map_.used();
    peaks.tensormap_peak = map_.peak();
    peaks.tensormap_capacity = map_.capacity();
    peaks.blocked_on_window = blocked_[0];
    peaks.blocked_on_heap = blocked_[1];
    peaks.blocked_on_tensormap = blocked_[2];
    return peaks;
}

}  // namespace whet::graph
