// Whoever has the lock and submits: dependencies, heap, scopes, retirement. Everything here is plain memory; it meets
// the workers only in Core::prepare, Core::publish and the completion bytes.
#include <algorithm>
#include <cstring>
#include <new>

#include "graph/runtime_impl.hpp"
#include "graph/submitter/vigil.hpp"

namespace whet::graph {

namespace {

std::uint64_t address_of(const void* base) { return reinterpret_cast<std::uint64_t>(base); }

}  // namespace

bool Runtime::Impl::done(TaskId task) const {
    if (task >= head_) return false;
    if (task < tail_) return true;
    auto& core = const_cast<Core<MachineSeam>&>(core_);
    return core.progress(core.table().slot_of(task)) != Progress::pending;
}

// retain=scope: nothing at or above the beginning of the oldest open scope may be retired.
std::uint64_t Runtime::Impl::floor() const {
    if (config_.retain == Retain::consumers || scopes_.empty()) return head_;
    return scopes_.front().begin;
}

// What a retired task leaves behind, apart from its heap bytes.
void Runtime::Impl::retire(std::uint64_t task) {
    const std::uint32_t slot = core_.table().slot_of(task);
    Ledger& ledger = ledger_[slot];
    if (ledger.fanin_spill || ledger.argument_spill) {
        delete[] std::exchange(ledger.fanin_spill, nullptr);
        delete[] std::exchange(ledger.link_spill, nullptr);
        delete[] std::exchange(ledger.argument_spill, nullptr);
        --spills_alive_;
    }
}

// Moves the watermark over everything done and the tail over everything that nobody can ask for any more. Called on
// demand: when a ring is full, when the submitter waits, and now and then for the tensor map.
void Runtime::Impl::reclaim() {
    watermark_ = core_.watermark(watermark_, published_);
    window_peak_ = std::max(window_peak_, head_ - tail_);
    const std::uint64_t limit = config_.policy == Policy::wired ? watermark_ : std::min(watermark_, floor());
    const std::uint64_t before = tail_;
    while (tail_ < limit) {
        const std::uint32_t slot = core_.table().slot_of(tail_);
        if (!core_.reclaimable(slot, ledger_[slot].last_consumer, watermark_)) break;
        ++tail_;
    }
    if (tail_ != before) {
        heap_.free_to(ledger_[core_.table().slot_of(tail_ - 1)].heap_top);
        if (spills_alive_ != 0) {
            for (std::uint64_t task = before; task < tail_; ++task) retire(task);
        }
        core_.recycle(before, tail_);
    }
    const bool troubled = trouble_.load(std::memory_order_relaxed) != 0;
    map_.reclaim(watermark_, [this, troubled](TaskId task, std::uint64_t base, const Region& region, bool writes) {
        if (troubled && failed(task)) lost_.push_back({base, {region.begin, region.end, nullptr}, writes});
    });
}

void Runtime::Impl::find_scope() {
    const std::thread::id caller = std::this_thread::get_id();
    const auto own = [caller](const Scope& scope) { return scope.thread == caller; };
    const auto found = std::find_if(scopes_.rbegin(), scopes_.rend(), own);
    scope_ = found == scopes_.rend() ? nullptr : &*found;
}

// Held by a scope that only this thread can end: nobody else can make it move.
bool Runtime::Impl::pinned_by_caller(std::uint64_t task) const {
    if (config_.retain == Retain::consumers) return false;
    const std::thread::id caller = std::this_thread::get_id();
    const std::uint32_t number = ledger_[static_cast<std::uint32_t>(task) & (config_.window - 1)].scope;
    return std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& scope) {
        return scope.thread == caller &&
               (config_.policy == Policy::wired ? scope.number == number : scope.begin <= task);
    });
}

std::string Runtime::Impl::occupancy(Code code, std::uint64_t wanted) const {
    std::string text = "oldest task " + std::to_string(tail_);
    text += name_text(ledger_[static_cast<std::uint32_t>(tail_) & (config_.window - 1)].name);
    text += pinned_by_caller(tail_) ? " is held by an open scope" : " is not done";
    text += ", next task " + std::to_string(head_) + ", first task not done " + std::to_string(watermark_);
    text += "; window " + std::to_string(head_ - tail_) + " of " + std::to_string(config_.window);
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
        if (code != Code::tensormap_deadlock && pinned_by_caller(tail_)) return {code, tail_, 0, {}};
        if (Status status = vigil.pass(); !status.ok()) return status;
    }
}

Code Runtime::Impl::refuse(Status status) {
    refusal_ = std::move(status);
    return refusal_.code;
}

inline bool Runtime::Impl::has_rooms(std::uint64_t bytes, std::uint32_t regions) {
    return head_ - tail_ < config_.window && map_.room(regions) && heap_.fits(bytes);
}

// Room in all three rings, before anything is changed.
Code Runtime::Impl::make_rooms(std::uint64_t bytes, std::uint32_t regions, Watch watch) {
    if (bytes > heap_.capacity()) {
        return refuse({Code::output_too_large, head_, 0,
                       std::to_string(bytes) + " bytes wanted, heap_bytes " + std::to_string(heap_.capacity())});
    }
    if (regions > map_.capacity()) {
        return refuse({Code::tensormap_deadlock, head_, 0, occupancy(Code::tensormap_deadlock, regions)});
    }
    std::uint64_t wanted = 1;
    Status status = make_room(Code::window_deadlock, watch, [this] { return head_ - tail_ < config_.window; });
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
    return tensor.owner == kNoTask ? heap_.owns(tensor.base) : tensor.owner - tail_ >= head_ - tail_;
}

Code Runtime::Impl::refuse_tensor(const TensorArg& tensor) {
    if (tensor.owner == kNoTask) {
        return refuse({Code::bad_argument, head_, 0, "memory of the output heap must come with the task that owns it"});
    }
    return refuse({tensor.owner < tail_ ? Code::output_retired : Code::unknown_task, tensor.owner, 0, {}});
}

void Runtime::Impl::add_retired_producer(TaskId producer) { poisoned_ = poisoned_ || failed(producer); }

// The producers of one task as they are found. What does not change meanwhile is held here, in registers.
class Runtime::Impl::Finder {
  public:
    Finder(Impl& impl, TaskId id, bool troubled)
        : impl_(impl),
          id_(id),
          tail_(impl.tail_),
          // Done and nothing in the window failed: no need to look again. The wired policy keeps the edge, it holds the
          // reference.
          settled_(impl.config_.policy == Policy::wired || troubled || impl.failures_.end() > impl.tail_
                       ? 0
                       : impl.watermark_),
          ledger_(impl.ledger_.data()),
          mask_(impl.config_.window - 1),
          records_(impl.config_.record_edges),
          slots_(impl.producers_.data()),
          room_(static_cast<std::uint32_t>(impl.producers_.size())) {}

    [[gnu::always_inline]] void add(TaskId producer, Edge::Source source) {
        if (producer < tail_) [[unlikely]] {
            impl_.add_retired_producer(producer);
            return;
        }
        const std::uint32_t slot = static_cast<std::uint32_t>(producer) & mask_;
        Ledger& ledger = ledger_[slot];
        if (ledger.stamp == id_) return;
        ledger.stamp = id_;
        ledger.last_consumer = id_;
        ++edges_;
        if (records_) [[unlikely]]
            impl_.edge_log_.push_back({producer, id_, source});
        if (producer < settled_) return;
        if (count_ == room_) [[unlikely]]
            grow();
        slots_[count_++] = slot;
    }
    std::uint32_t count() const { return count_; }
    std::uint64_t edges() const { return edges_; }

  private:
    [[gnu::noinline]] void grow() {
        impl_.producers_.resize(2 * static_cast<std::size_t>(room_));
        slots_ = impl_.producers_.data();
        room_ *= 2;
    }

    Impl& impl_;
    const TaskId id_;
    const std::uint64_t tail_;
    const std::uint64_t settled_;
    Ledger* const ledger_;
    const std::uint32_t mask_;
    const bool records_;
    std::uint32_t* slots_;
    std::uint32_t room_;
    std::uint32_t count_ = 0;
    std::uint64_t edges_ = 0;
};

// A conflict with an access of a failed task that has already left the map.
bool Runtime::Impl::meets_lost(const TensorArg& tensor) const {
    const std::uint64_t base = address_of(tensor.base);
    return std::any_of(lost_.begin(), lost_.end(), [&tensor, base](const LostRegion& lost) {
        if (!lost.writes && tensor.direction == Direction::in) return false;
        if (lost.base == base) return overlap(lost.region, tensor.region) != Overlap::none;
        return lost.base + lost.region.begin < base + tensor.region.end &&
               base + tensor.region.begin < lost.base + lost.region.end;
    });
}

// Outputs are tracked beside the slot of their owner; those beyond the first few, and all other memory, by address.
inline Track& Runtime::Impl::track_of(const TensorArg& tensor) {
    const std::uint64_t base = address_of(tensor.base);
    if (tensor.owner != kNoTask) {
        const std::uint32_t slot = core_.table().slot_of(tensor.owner);
        Track* track = tracks_.get() + static_cast<std::size_t>(slot) * kInlineTracks;
        for (std::uint32_t left = ledger_[slot].tracks; left != 0; --left, ++track) {
            if (track->base == base) return *track;
        }
    }
    return map_.track_of(base);
}

inline void Runtime::Impl::enter_access(const TensorArg& tensor, Finder& finder) {
    map_.access(track_of(tensor), tensor.region, tensor.direction != Direction::in, head_,
                [&finder](TaskId producer) { finder.add(producer, Edge::Source::data); });
}

// Memory that may be known under other bases as well: what any of them knows about these bytes counts.
void Runtime::Impl::enter_anywhere(const TensorArg& tensor, Finder& finder) {
    const std::uint64_t base = address_of(tensor.base);
    const std::uint64_t end = base + std::max(tensor.region.end, tensor.buffer_bytes);
    const auto& bases = buffers_.locate(base, end, [this](std::uint64_t other) { return map_.live(other); });
    const bool writes = tensor.direction != Direction::in;
    const std::uint64_t begins = base + tensor.region.begin;
    const std::uint64_t ends = base + tensor.region.end;
    for (std::size_t other = 1; other < bases.size(); ++other) {
        if (ends <= bases[other]) continue;
        map_.look(bases[other], std::max(begins, bases[other]) - bases[other], ends - bases[other], writes,
                  [&finder](TaskId producer) { finder.add(producer, Edge::Source::data); });
    }
    TensorArg entered = tensor;
    entered.base = reinterpret_cast<void*>(bases.front());
    entered.region.begin = begins - bases.front();
    entered.region.end = ends - bases.front();
    enter_access(entered, finder);
}

// Memory that the caller has just got: whatever is known of its bytes concerns others that have been given back.
void Runtime::Impl::enter_fresh(TensorArg& tensor) {
    const std::uint64_t base = address_of(tensor.base);
    tensor.region = {0, tensor.bytes, nullptr};
    buffers_.renew(base, base + tensor.bytes, [this](std::uint64_t old) { map_.forget(old); });
    std::erase_if(lost_, [base, &tensor](const LostRegion& lost) {
        return lost.base + lost.region.begin < base + tensor.bytes && base < lost.base + lost.region.end;
    });
    Track& track = map_.track_of(base);
    map_.begin_track(track, base, tensor.bytes, head_);
    track.plain.writer = head_ + 1;
}

// Allocates the outputs, finds the producers and writes the addresses down, in one pass.
inline void Runtime::Impl::enter_tensors(TaskSpec& task, Finder& finder, std::uint64_t bytes, void** words) {
    auto* block = bytes != 0 ? static_cast<std::byte*>(heap_.take(bytes)) : nullptr;
    const TaskId id = head_;
    const bool infers = scope_ == nullptr || scope_->mode == ScopeMode::automatic;
    const bool troubled = troubled_;
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
            if (tensor.owner != kNoTask) finder.add(tensor.owner, Edge::Source::owner);
            if (tensor.made_by != kNoTask) [[unlikely]]
                finder.add(tensor.made_by, Edge::Source::owner);
            if (direction != Direction::nodep && tensor.region.begin != tensor.region.end) {
                if (troubled) [[unlikely]]
                    poisoned_ = poisoned_ || meets_lost(tensor);
                if (tensor.owner != kNoTask || tensor.apart) {
                    enter_access(tensor, finder);
                } else {
                    enter_anywhere(tensor, finder);
                }
            }
        } else if (tensor.owner != kNoTask) {
            // No edges in a manual scope, but the memory is in use until this task is done.
            ledger_[core_.table().slot_of(tensor.owner)].last_consumer = id;
        }
        *words++ = tensor.base ? static_cast<std::byte*>(tensor.base) + tensor.region.begin : nullptr;
    }
    ledger_[slot].tracks = outputs;
}

// Where the addresses of the tensors go, and the scalars behind them.
inline void** Runtime::Impl::place_arguments(std::uint32_t slot, const TaskSpec& task) {
    const std::size_t count = task.tensors.size() + task.scalars.size();
    void** words = arguments_.get() + static_cast<std::size_t>(slot) * kInlineArguments;
    if (count > kInlineArguments) {
        words = ledger_[slot].argument_spill = new void*[count];
        ++spills_alive_;
    }
    auto& own = core_.table()[slot];
    own.arguments.set(words);
    own.tensor_count.set(static_cast<std::uint16_t>(task.tensors.size()));
    void** scalars = words + task.tensors.size();
    for (const std::uint64_t scalar : task.scalars) std::memcpy(scalars++, &scalar, sizeof scalar);
    return words;
}

void Runtime::Impl::spill_producers(std::uint32_t slot, std::uint32_t count) {
    Ledger& ledger = ledger_[slot];
    ++spilled_;
    spills_alive_ += ledger.argument_spill == nullptr;
    ledger.fanin_spill = new std::uint32_t[count];
    std::copy_n(producers_.data(), count, ledger.fanin_spill);
    if (config_.policy == Policy::wired) ledger.link_spill = new std::uint64_t[count];
    core_.table().set_spill(slot, ledger.fanin_spill, ledger.link_spill);
}

// Whether the task may be entered, and what it needs of the rings. Changes nothing unless the answer is yes.
inline Code Runtime::Impl::admit(const TaskSpec& task, std::uint64_t& bytes, std::uint32_t& regions, Watch watch,
                                 TaskId expected, bool may_wait) {
    if (closing_) [[unlikely]]
        return refuse({Code::shut_down, 0, 0, {}});
    bool wrong = false;
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
    if (task.tensors.size() > 0xffff) return refuse({Code::too_many_tensors, head_, 0, {}});
    if (scope_ != nullptr && scope_->mode == ScopeMode::manual) regions = 0;
    while (!has_rooms(bytes, regions)) {
        if (!may_wait) {
            reclaim();
            wrong = true;
            if (has_rooms(bytes, regions)) break;
            return Code::timed_out;
        }
        const Code code = make_rooms(bytes, regions, watch);
        if (code != Code::ok) return code;
        wrong = true;  // what was there may have been retired meanwhile, and others may have submitted: look again
    }
    if (expected != kNoTask && head_ != expected) return Code::unknown_task;
    // From here to the end nothing is retired.
    for (const TaskId dependency : task.dependencies) {
        if (dependency >= head_) return refuse({Code::unknown_task, dependency, 0, {}});
        if (failures_.forgot(dependency)) return refuse({Code::outcome_forgotten, dependency, 0, {}});
    }
    for (const TensorArg& tensor : task.tensors) {
        if (!wrong) break;
        if (tensor.direction != Direction::out && is_misplaced(tensor)) return refuse_tensor(tensor);
    }
    return Code::ok;
}

Code Runtime::Impl::submit(TaskSpec& task, TaskId& id, Watch watch, TaskId expected, bool may_wait) {
    std::uint64_t bytes = 0;
    std::uint32_t regions = 0;
    if (const Code code = admit(task, bytes, regions, watch, expected, may_wait); code != Code::ok) return code;
    id = head_;
    const std::uint32_t slot = core_.table().slot_of(id);
    Ledger& ledger = ledger_[slot];
    ledger.last_consumer = id;
    ledger.stamp = id;  // a task is no producer of its own
    ledger.name = task.name;
    ledger.scope = scope_ == nullptr ? 0 : scope_->number;
    ledger.tracks = 0;
    poisoned_ = false;
    troubled_ = trouble_.load(std::memory_order_relaxed) != 0;
    Finder finder(*this, id, troubled_);
    for (const TaskId dependency : task.dependencies) finder.add(dependency, Edge::Source::given);
    void** const words = place_arguments(slot, task);
    if (!task.tensors.empty()) {
        map_.expect(regions, troubled_);
        enter_tensors(task, finder, bytes, words);
    }
    ledger.heap_top = heap_.top();
    const std::uint32_t count = finder.count();
    edges_ += finder.edges();
    std::uint32_t* const producers = producers_.data();
    if (config_.wake_target == WakeTarget::first) std::reverse(producers, producers + count);
    if (count > kInlineFanin) spill_producers(slot, count);
    // The lines come from where a worker used them last.
    const std::uint32_t ahead = core_.table().slot_of(id + kPrefetchAhead);
    __builtin_prefetch(&core_.table()[ahead], 1);
    __builtin_prefetch(&ledger_[ahead], 1);
    auto& own = core_.table()[slot];
    own.body.set(task.body);
    own.user.set(task.user);
    own.kind.set(static_cast<std::uint8_t>(task.kind));
    const bool pinned = config_.policy == Policy::wired && config_.retain == Retain::scope && scope_ != nullptr;
    if (pinned) scope_->tasks.push_back(id);
    core_.prepare(slot, producers, count, poisoned_, pinned);
    ++head_;
    if (regions != 0 && head_ >= reclaim_at_) {
        reclaim();
        reclaim_at_ = head_ + kReclaimEvery;
    }
    return Code::ok;
}

void Runtime::Impl::flush() {
    if (published_ == head_) return;
    published_ = head_;
    core_.publish(head_);
}

Status Runtime::Impl::scope_begin(ScopeMode mode, std::uint32_t* number) {
    if (mode == ScopeMode::automatic && scope_ != nullptr && scope_->mode == ScopeMode::manual) {
        return {Code::scope_mismatch, head_, 0, "an automatic scope cannot begin inside a manual one"};
    }
    scopes_.push_back({head_, ++scope_numbers_, mode, std::this_thread::get_id(), {}});
    scope_ = &scopes_.back();
    if (number) *number = scope_->number;
    return {};
}

Status Runtime::Impl::scope_end(std::uint32_t number) {
    const std::uint32_t wanted = number != 0 ? number : scope_ != nullptr ? scope_->number : 0;
    const auto place =
        std::find_if(scopes_.begin(), scopes_.end(), [wanted](const Scope& scope) { return scope.number == wanted; });
    if (place == scopes_.end()) return {Code::scope_mismatch, head_, 0, "no scope is open"};
    for (const std::uint64_t task : place->tasks) core_.unpin(core_.table().slot_of(task));
    scopes_.erase(place);
    find_scope();
    return {};
}

std::size_t Runtime::Impl::scope_depth() const {
    const std::thread::id caller = std::this_thread::get_id();
    const auto own = [caller](const Scope& scope) { return scope.thread == caller; };
    return static_cast<std::size_t>(std::count_if(scopes_.begin(), scopes_.end(), own));
}

}  // namespace whet::graph
