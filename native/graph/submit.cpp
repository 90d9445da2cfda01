// The submitting thread: dependencies, heap, scopes, retirement. Everything it owns is plain memory; it meets the
// workers only in Core::prepare, Core::publish and the completion bytes.
#include <algorithm>
#include <cstring>
#include <new>

#include "graph/runtime_impl.hpp"

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

bool Runtime::Impl::failed(TaskId task) const {
    if (task >= head_ || trouble_.load(std::memory_order_relaxed) == 0) return false;
    if (task < tail_) return failed_.count(task) != 0;
    auto& core = const_cast<Core<MachineSeam>&>(core_);
    return core.progress(core.table().slot_of(task)) == Progress::failed;
}

// retain=scope: nothing at or above the beginning of the oldest open scope may be retired.
std::uint64_t Runtime::Impl::floor() const {
    if (config_.retain == Retain::consumers || scopes_.empty()) return head_;
    return scopes_.front().begin;
}

void Runtime::Impl::retire(std::uint64_t task) {
    Ledger& ledger = ledger_[core_.table().slot_of(task)];
    heap_.free_to(ledger.heap_top);
    if (ledger.fanin_spill) {
        delete[] std::exchange(ledger.fanin_spill, nullptr);
        delete[] std::exchange(ledger.link_spill, nullptr);
    }
    if (ledger.argument_spill) delete[] std::exchange(ledger.argument_spill, nullptr);
    if (trouble_.load(std::memory_order_relaxed) != 0 &&
        core_.progress(core_.table().slot_of(task)) == Progress::failed) {
        failed_.insert(task);
    }
}

// Moves the watermark over everything done and the tail over everything that nobody can ask for any more. Called on
// demand: when a ring is full, when a scope ends, when the submitter waits, and now and then for the tensor map.
void Runtime::Impl::reclaim() {
    watermark_ = core_.watermark(watermark_, published_);
    const bool counted = config_.policy == Policy::wired;
    const std::uint64_t limit = counted ? watermark_ : std::min(watermark_, floor());
    while (tail_ < limit) {
        const std::uint32_t slot = core_.table().slot_of(tail_);
        if (ledger_[slot].last_consumer >= watermark_ || (counted && !core_.unreferenced(slot))) break;
        retire(tail_++);
    }
    map_.reclaim(watermark_, [this](TaskId task, std::uint64_t base, const Region& region, bool writes) {
        if (failed(task)) lost_.push_back({base, {region.begin, region.end, nullptr}, writes});
    });
}

bool Runtime::Impl::pinned_for_ever(std::uint64_t task) const {
    if (config_.retain == Retain::consumers) return false;
    const auto& scope_of_task = ledger_[static_cast<std::uint32_t>(task) & (config_.window - 1)].scope;
    if (config_.policy != Policy::wired) return task >= floor();
    return std::any_of(scopes_.begin(), scopes_.end(),
                       [scope_of_task](const Scope& scope) { return scope.number == scope_of_task; });
}

std::string Runtime::Impl::occupancy(Code code, std::uint64_t wanted) const {
    std::string text = "oldest task " + std::to_string(tail_);
    const std::uint32_t name = ledger_[static_cast<std::uint32_t>(tail_) & (config_.window - 1)].name;
    if (name != 0) text += " (" + names_[name] + ")";
    text += pinned_for_ever(tail_) ? " is held by an open scope" : " is not done";
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
Status Runtime::Impl::make_room(Code code, Room&& room) {
    if (room()) return {};
    reclaim();
    if (room()) return {};
    flush();
    ++blocked_[static_cast<std::size_t>(code) - static_cast<std::size_t>(Code::window_deadlock)];
    Patience patience(may_spin_);
    std::uint64_t progress = completions();
    std::uint64_t since = now_ns();
    for (;;) {
        reclaim();
        if (room()) return {};
        if (code != Code::tensormap_deadlock && pinned_for_ever(tail_)) return {code, tail_, 0, {}};
        if (config_.submitter_helps && step(0)) {
            patience.reset();
            continue;
        }
        pause_submitter(patience);
        const std::uint64_t now_done = completions();
        if (now_done != progress || any_running()) {
            progress = now_done;
            since = now_ns();
        } else if (now_ns() - since > config_.stall_ns) {
            return stalled();
        }
    }
}

// Makes room in all three rings before anything is changed.
Status Runtime::Impl::reserve(const TaskSpec& task, std::uint64_t& bytes) {
    std::uint32_t regions = 0;
    for (const TensorArg& tensor : task.tensors) {
        if (tensor.direction == Direction::out) {
            bytes += heap_.padded(tensor.bytes);
        } else {
            regions += tensor.direction != Direction::nodep;
        }
    }
    if (bytes > heap_.capacity()) {
        return {Code::output_too_large, head_, 0,
                std::to_string(bytes) + " bytes wanted, heap_bytes " + std::to_string(heap_.capacity())};
    }
    if (!scopes_.empty() && scopes_.back().mode == ScopeMode::manual) regions = 0;
    if (regions > map_.capacity()) {
        return {Code::tensormap_deadlock, head_, 0, occupancy(Code::tensormap_deadlock, regions)};
    }
    Status status;
    std::uint64_t wanted = 1;
    if (head_ - tail_ >= config_.window) {
        status = make_room(Code::window_deadlock, [this] { return head_ - tail_ < config_.window; });
    }
    if (status.ok() && !map_.room(regions)) {
        wanted = regions;
        status = make_room(Code::tensormap_deadlock, [this, regions] { return map_.room(regions); });
    }
    if (status.ok() && bytes != 0 && !heap_.fits(bytes)) {
        wanted = bytes;
        status = make_room(Code::heap_deadlock, [this, bytes] { return heap_.fits(bytes); });
    }
    if (!status.ok() && status.detail.empty()) status.detail = occupancy(status.code, wanted);
    return status;
}

// After reserve(): from here to the end of the submission nothing is retired.
Status Runtime::Impl::check_producers(const TaskSpec& task) const {
    for (const TaskId dependency : task.dependencies) {
        if (dependency >= head_) return {Code::unknown_task, dependency, 0, {}};
    }
    for (const TensorArg& tensor : task.tensors) {
        if (tensor.direction == Direction::out || tensor.owner == kNoTask) continue;
        if (tensor.owner >= head_) return {Code::unknown_task, tensor.owner, 0, {}};
        if (tensor.owner < tail_) return {Code::output_retired, tensor.owner, 0, {}};
    }
    return {};
}

void Runtime::Impl::allocate(TaskSpec& task, std::uint64_t bytes) {
    auto* block = static_cast<std::byte*>(heap_.take(bytes));
    for (TensorArg& tensor : task.tensors) {
        if (tensor.direction != Direction::out) continue;
        tensor.base = block;
        tensor.region = {0, tensor.bytes, nullptr};
        tensor.owner = head_;
        block += heap_.padded(tensor.bytes);
    }
}

void Runtime::Impl::add_producer(TaskId producer, TaskId id, Edge::Source source) {
    if (producer < tail_) {
        poisoned_ = poisoned_ || failed(producer);
        return;
    }
    const std::uint32_t slot = core_.table().slot_of(producer);
    Ledger& ledger = ledger_[slot];
    if (ledger.stamp == id) return;
    ledger.stamp = id;
    ++edges_;
    if (config_.record_edges) edge_log_.push_back({producer, id, source});
    if (config_.policy != Policy::wired) {
        ledger.last_consumer = id;
        // Done and nothing failed: no need to look again. The wired policy keeps the edge, it holds the reference.
        if (producer < watermark_ && trouble_.load(std::memory_order_relaxed) == 0) return;
    }
    producers_.push_back(slot);
}

// A conflict with an access of a failed task that has already left the map.
bool Runtime::Impl::meets_lost(const TensorArg& tensor) const {
    return std::any_of(lost_.begin(), lost_.end(), [&tensor](const LostRegion& lost) {
        return lost.base == address_of(tensor.base) && (lost.writes || tensor.direction != Direction::in) &&
               overlap(lost.region, tensor.region) != Overlap::none;
    });
}

void Runtime::Impl::find_producers(const TaskSpec& task, TaskId id) {
    producers_.clear();
    poisoned_ = false;
    for (const TaskId dependency : task.dependencies) add_producer(dependency, id, Edge::Source::given);
    if (task.tensors.empty()) return;
    const bool trouble = trouble_.load(std::memory_order_relaxed) != 0;
    const bool manual = !scopes_.empty() && scopes_.back().mode == ScopeMode::manual;
    for (const TensorArg& tensor : task.tensors) {
        if (tensor.direction == Direction::out) continue;
        if (tensor.owner != kNoTask) {
            // No edge in a manual scope, but the memory is in use until this task is done.
            if (manual) ledger_[core_.table().slot_of(tensor.owner)].last_consumer = id;
            if (!manual) add_producer(tensor.owner, id, Edge::Source::owner);
        }
        if (manual || tensor.direction == Direction::nodep || tensor.region.begin == tensor.region.end) continue;
        if (trouble) poisoned_ = poisoned_ || meets_lost(tensor);
        map_.lookup(address_of(tensor.base), tensor.region, tensor.direction != Direction::in, trouble,
                    [this, id](TaskId found) { add_producer(found, id, Edge::Source::data); });
    }
    if (manual) return;
    for (const TensorArg& tensor : task.tensors) {
        if (tensor.direction == Direction::out || tensor.direction == Direction::nodep) continue;
        if (tensor.region.begin == tensor.region.end) continue;
        map_.insert(address_of(tensor.base), tensor.region, tensor.direction != Direction::in, id);
    }
}

void Runtime::Impl::store_arguments(std::uint32_t slot, const TaskSpec& task) {
    const std::size_t count = task.tensors.size() + task.scalars.size();
    void** words = arguments_.get() + static_cast<std::size_t>(slot) * kInlineArguments;
    if (count > kInlineArguments) words = ledger_[slot].argument_spill = new void*[count];
    auto& own = core_.table()[slot];
    own.arguments.set(words);
    own.tensor_count.set(static_cast<std::uint16_t>(task.tensors.size()));
    for (const TensorArg& tensor : task.tensors) {
        *words++ = tensor.base ? static_cast<std::byte*>(tensor.base) + tensor.region.begin : nullptr;
    }
    if (!task.scalars.empty()) std::memcpy(words, task.scalars.data(), task.scalars.size_bytes());
}

Status Runtime::Impl::submit(TaskSpec& task, TaskId& id) {
    if (task.tensors.size() > 0xffff) return {Code::too_many_tensors, head_, 0, {}};
    std::uint64_t bytes = 0;
    Status status = reserve(task, bytes);
    if (status.ok()) status = check_producers(task);
    if (!status.ok()) return status;
    id = head_;
    if (!task.tensors.empty()) allocate(task, bytes);
    find_producers(task, id);
    const std::uint32_t slot = core_.table().slot_of(id);
    Ledger& ledger = ledger_[slot];
    ledger.last_consumer = id;
    ledger.heap_top = heap_.top();
    ledger.name = task.name;
    ledger.scope = scopes_.empty() ? 0 : scopes_.back().number;
    const auto count = static_cast<std::uint32_t>(producers_.size());
    if (config_.wake_target == WakeTarget::first) std::reverse(producers_.begin(), producers_.end());
    if (count > kInlineFanin) {
        ++spilled_;
        ledger.fanin_spill = new std::uint32_t[count];
        std::copy(producers_.begin(), producers_.end(), ledger.fanin_spill);
        if (config_.policy == Policy::wired) ledger.link_spill = new std::uint64_t[count];
        core_.table().set_spill(slot, ledger.fanin_spill, ledger.link_spill);
    }
    auto& own = core_.table()[slot];
    own.body.set(task.body);
    own.user.set(task.user);
    own.kind.set(static_cast<std::uint8_t>(task.kind));
    if (task.body) store_arguments(slot, task);
    const bool pinned = config_.policy == Policy::wired && config_.retain == Retain::scope && !scopes_.empty();
    if (pinned) scopes_.back().tasks.push_back(id);
    core_.prepare(slot, producers_.data(), count, poisoned_, pinned);
    ++head_;
    window_peak_ = std::max(window_peak_, head_ - tail_);
    if (head_ % kReclaimEvery == 0 && map_.used() != 0) reclaim();
    return {};
}

void Runtime::Impl::flush() {
    if (published_ == head_) return;
    published_ = head_;
    core_.publish(head_);
}

Status Runtime::Impl::scope_begin(ScopeMode mode) {
    if (mode == ScopeMode::automatic && !scopes_.empty() && scopes_.back().mode == ScopeMode::manual) {
        return {Code::scope_mismatch, head_, 0, "an automatic scope cannot begin inside a manual one"};
    }
    scopes_.push_back({head_, ++scope_numbers_, mode, {}});
    return {};
}

Status Runtime::Impl::scope_end() {
    if (scopes_.empty()) return {Code::scope_mismatch, head_, 0, "no scope is open"};
    for (const std::uint64_t task : scopes_.back().tasks) core_.unpin(core_.table().slot_of(task));
    scopes_.pop_back();
    return {};
}

}  // namespace whet::graph
