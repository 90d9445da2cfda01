// The submitter's side of the protocol: which tasks are entered, told to the workers, done and retired; who uses whose
// outputs; scopes. Whoever has the lock calls it. The interleaving checker drives this very class.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "graph/plants.hpp"
#include "graph/protocol/core.hpp"
#include "graph/protocol/outcomes.hpp"
#include "graph/task.hpp"

namespace whet::graph {

template <class Seam>
class Reclaimer {
  public:
    template <class T>
    using Plain = typename Seam::template Plain<T>;

    // One line per slot.
    struct Ledger {
        // The newest task that uses this one's outputs, at first the task itself. Under `wired` references count the
        // consumers and this one only those that have no edge.
        std::uint64_t last_consumer = 0;
        std::uint64_t heap_top = 0;  // where the heap ring stood after this task's outputs
        TaskId stamp = kNoTask;      // the newest task that has this one in its producer list
        std::uint32_t name = 0;
        std::uint32_t scope = 0;    // number of the scope it was submitted in, 0: none
        std::uint32_t tracks = 0;   // outputs whose accesses are tracked beside the slot
        std::uint32_t spilled = 0;  // producers in the arrays below
        Plain<std::uint32_t>* fanin_spill = nullptr;
        Plain<std::uint64_t>* link_spill = nullptr;
        void** argument_spill = nullptr;
    };
    struct Scope {
        std::uint64_t begin;
        std::uint32_t number;
        ScopeMode mode;
        std::thread::id thread;            // whose it is
        std::vector<std::uint64_t> tasks;  // wired: the tasks to release at its end
    };

    Reclaimer(Core<Seam>& core, Outcomes<Seam>& outcomes, const Config& config)
        : core_(core), outcomes_(outcomes), config_(config), ledger_(config.window) {}
    ~Reclaimer() {
        for (std::uint64_t task = tail_; task < head_; ++task) free_spills(task);
    }
    Reclaimer(const Reclaimer&) = delete;
    Reclaimer& operator=(const Reclaimer&) = delete;

    TaskId head() const { return head_; }                   // next task
    std::uint64_t published() const { return published_; }  // tasks the workers know of
    std::uint64_t tail() const { return tail_; }            // oldest task not retired
    std::uint64_t watermark() const { return watermark_; }  // tasks below are done
    std::uint64_t edges() const { return edges_; }
    std::uint64_t spilled() const { return spilled_; }
    std::uint64_t window_peak() const { return std::max(window_peak_, head_ - tail_); }
    const std::vector<Edge>& edge_log() const { return edge_log_; }
    std::uint32_t slot_of(TaskId task) const { return static_cast<std::uint32_t>(task) & (config_.window - 1); }
    // The task in a slot that workers know of.
    TaskId task_in(std::uint32_t slot) const {
        return published_ - 1 - ((published_ - 1 - slot) & (config_.window - 1));
    }
    Ledger& ledger(std::uint32_t slot) { return ledger_[slot]; }
    const Ledger& ledger(std::uint32_t slot) const { return ledger_[slot]; }
    bool has_room() const { return head_ - tail_ < config_.window; }
    bool is_in_window(TaskId task) const { return task - tail_ < head_ - tail_; }

    bool done(TaskId task) const {
        if (task >= head_) return false;
        return task < tail_ || core_.progress(slot_of(task)) != Progress::pending;
    }
    bool all_done() {
        watermark_ = core_.watermark(watermark_, published_);
        return watermark_ == head_;
    }

    // ---- entering a task: begin(), add its producers, enter() ----

    // The producers of one task as they are found. What does not change meanwhile is held here, in registers.
    class Producers {
      public:
        explicit Producers(Reclaimer& owner)
            : owner_(owner),
              id_(owner.head_),
              tail_(owner.tail_),
              ledger_(owner.ledger_.data()),
              mask_(owner.config_.window - 1),
              records_(owner.config_.record_edges),
              uncollected_(owner.outcomes_.uncollected()),
              slots_(owner.producers_.data()),
              room_(static_cast<std::uint32_t>(owner.producers_.size())) {
            // Done and nothing in the window failed: no need to look again. The wired policy keeps the edge, it holds
            // the reference.
            const bool keeps =
                owner.config_.policy == Policy::wired ||
                ((uncollected_ || owner.outcomes_.end() > owner.tail_) && !WHET_GRAPH_PLANT(settled_ignores_failures));
            settled_ = keeps ? 0 : owner.watermark_ + (WHET_GRAPH_PLANT(settled_one_too_far) ? 1 : 0);
        }

        [[gnu::always_inline]] void add(TaskId producer, Edge::Source source) {
            if (producer < tail_) [[unlikely]] {
                if (!WHET_GRAPH_PLANT(retired_failure_forgotten) && owner_.outcomes_.has(producer)) poison();
                return;
            }
            const std::uint32_t slot = static_cast<std::uint32_t>(producer) & mask_;
            Ledger& ledger = ledger_[slot];
            if (ledger.stamp == id_) return;
            ledger.stamp = id_;
            if (!WHET_GRAPH_PLANT(last_consumer_not_kept)) ledger.last_consumer = id_;
            ++edges_;
            if (records_) [[unlikely]]
                owner_.edge_log_.push_back({producer, id_, source});
            if (producer < settled_) return;
            if (count_ == room_) [[unlikely]]
                grow();
            slots_[count_++] = slot;
        }
        // The memory of `producer` is in use until this task is done; no edge.
        void hold(TaskId producer) {
            if (!WHET_GRAPH_PLANT(manual_use_not_kept))
                ledger_[static_cast<std::uint32_t>(producer) & mask_].last_consumer = id_;
        }
        // A producer has failed: this task is not to run.
        void poison() { poisoned_ = true; }
        // Tasks had failed, and nobody had collected the error, when this one was begun.
        bool uncollected() const { return uncollected_; }

      private:
        friend class Reclaimer;

        [[gnu::noinline]] void grow() {
            owner_.producers_.resize(2 * static_cast<std::size_t>(room_));
            slots_ = owner_.producers_.data();
            room_ *= 2;
        }

        Reclaimer& owner_;
        const TaskId id_;
        const std::uint64_t tail_;
        std::uint64_t settled_;
        Ledger* const ledger_;
        const std::uint32_t mask_;
        const bool records_;
        const bool uncollected_;
        bool poisoned_ = false;
        std::uint32_t* slots_;
        std::uint32_t room_;
        std::uint32_t count_ = 0;
        std::uint64_t edges_ = 0;
    };

    // There is room. The task will be head(), in this slot.
    std::uint32_t begin(std::uint32_t name) {
        const std::uint32_t slot = slot_of(head_);
        Ledger& own = ledger_[slot];
        own.last_consumer = head_;
        own.stamp = head_;  // a task is no producer of its own
        own.name = name;
        own.scope = scope_ == nullptr ? 0 : scope_->number;
        own.tracks = 0;
        return slot;
    }
    void** spill_arguments(std::uint32_t slot, std::size_t count) {
        ++spills_alive_;
        return ledger_[slot].argument_spill = new void*[count];
    }
    // The slot's body and arguments are set. Workers know of it after flush().
    void enter(std::uint32_t slot, Producers& producers) {
        const std::uint32_t count = producers.count_;
        edges_ += producers.edges_;
        std::uint32_t* const slots = producers_.data();
        if (config_.wake_target == WakeTarget::first) std::reverse(slots, slots + count);
        if (count > Seam::kInlineFanin) spill_producers(slot, count);
        const bool pinned = config_.policy == Policy::wired && config_.retain == Retain::scope && scope_ != nullptr &&
                            !WHET_GRAPH_PLANT(scope_pins_nothing);
        if (pinned) scope_->tasks.push_back(head_);
        core_.prepare(slot, slots, count, producers.poisoned_ && !WHET_GRAPH_PLANT(poison_lost_at_entry), pinned);
        ++head_;
    }

    void flush() {
        if (published_ == head_) return;
        published_ = head_;
        core_.publish(head_ - (WHET_GRAPH_PLANT(last_of_group_untold) ? 1 : 0));
    }
    // With more tasks to follow at once: publishes now and then.
    void flush_some(std::uint64_t every) {
        if (head_ - published_ >= every) flush();
    }

    // ---- retiring ----

    // Moves the watermark over everything done and the tail over everything that nobody can ask for any more. Called
    // on demand: when a ring is full, when the submitter waits, and now and then for the tensor map. retired(from, to)
    // comes before the slots are anybody else's.
    template <class Retired>
    void reclaim(Retired&& retired) {
        watermark_ = core_.watermark(watermark_, published_);
        window_peak_ = window_peak();
        const std::uint64_t limit = config_.policy == Policy::wired ? watermark_ : std::min(watermark_, floor());
        const std::uint64_t before = tail_;
        while (tail_ < limit) {
            const std::uint32_t slot = slot_of(tail_);
            const std::uint64_t last = WHET_GRAPH_PLANT(last_consumer_ignored) ? tail_ : ledger_[slot].last_consumer;
            if (!core_.reclaimable(slot, last, watermark_)) break;
            ++tail_;
        }
        if (WHET_GRAPH_PLANT(tail_runs_ahead) && tail_ == watermark_ && tail_ + 1 < published_) ++tail_;
        if (tail_ == before) return;
        retired(before, tail_);
        if (spills_alive_ != 0) {
            for (std::uint64_t task = before; task < tail_; ++task) free_spills(task);
        }
        core_.recycle(before + (WHET_GRAPH_PLANT(first_byte_not_cleared) ? 1 : 0), tail_);
    }

    // retain=scope: nothing at or above the beginning of the oldest open scope may be retired.
    std::uint64_t floor() const {
        if (config_.retain == Retain::consumers || scopes_.empty() || WHET_GRAPH_PLANT(scope_has_no_floor))
            return head_;
        return (WHET_GRAPH_PLANT(floor_of_innermost) ? scopes_.back() : scopes_.front()).begin;
    }

    // At the end, when nothing runs any more.
    void retire_all() {
        for (; tail_ < head_; ++tail_) free_spills(tail_);
    }

    // ---- scopes: each belongs to the thread that opened it ----

    // The innermost of this thread, which has just got the lock.
    void find_scope() {
        if (scopes_.empty()) return;
        const std::thread::id caller = std::this_thread::get_id();
        if (scopes_.back().thread == caller) {
            scope_ = &scopes_.back();
            return;
        }
        const auto own = [caller](const Scope& scope) { return scope.thread == caller; };
        const auto found = std::find_if(scopes_.rbegin(), scopes_.rend(), own);
        scope_ = found == scopes_.rend() ? nullptr : &*found;
    }
    const Scope* scope() const { return scope_; }
    bool infers() const { return scope_ == nullptr || scope_->mode == ScopeMode::automatic; }
    // False, and nothing happens: an automatic one inside a manual one.
    bool scope_begin(ScopeMode mode, std::uint32_t* number) {
        if (mode == ScopeMode::automatic && !infers()) return false;
        scopes_.push_back({head_, ++scope_numbers_, mode, std::this_thread::get_id(), {}});
        scope_ = &scopes_.back();
        if (number) *number = scope_->number;
        return true;
    }
    // 0: the innermost of this thread. False if it is not open.
    bool scope_end(std::uint32_t number) {
        const std::uint32_t wanted = number != 0 ? number : scope_ != nullptr ? scope_->number : 0;
        // Nearly always the newest one.
        auto place = scopes_.empty() || scopes_.back().number != wanted ? scopes_.begin() : std::prev(scopes_.end());
        place = std::find_if(place, scopes_.end(), [wanted](const Scope& scope) { return scope.number == wanted; });
        if (place == scopes_.end()) return false;
        for (const std::uint64_t task : place->tasks) {
            if (WHET_GRAPH_PLANT(scope_keeps_its_first) && task == place->tasks.front()) continue;
            core_.unpin(slot_of(task));
        }
        scopes_.erase(place);
        scope_ = nullptr;
        find_scope();
        return true;
    }
    std::size_t scope_depth() const {
        const std::thread::id caller = std::this_thread::get_id();
        const auto own = [caller](const Scope& scope) { return scope.thread == caller; };
        return static_cast<std::size_t>(std::count_if(scopes_.begin(), scopes_.end(), own));
    }
    // Held by a scope that only this thread can end: nobody else can make it move.
    bool pinned_by_caller(std::uint64_t task) const {
        if (config_.retain == Retain::consumers) return false;
        const std::thread::id caller = std::this_thread::get_id();
        const std::uint32_t number = ledger_[slot_of(task)].scope;
        return std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& scope) {
            return scope.thread == caller &&
                   (config_.policy == Policy::wired ? scope.number == number : scope.begin <= task);
        });
    }

  private:
    void spill_producers(std::uint32_t slot, std::uint32_t count) {
        Ledger& own = ledger_[slot];
        ++spilled_;
        spills_alive_ += own.argument_spill == nullptr;
        own.spilled = count;
        own.fanin_spill = new Plain<std::uint32_t>[count];
        const std::uint32_t kept = count - (WHET_GRAPH_PLANT(spill_loses_last) ? 1 : 0);
        for (std::uint32_t index = 0; index < count; ++index) {
            own.fanin_spill[index].set(producers_[index < kept ? index : 0]);
        }
        if (config_.policy == Policy::wired) own.link_spill = new Plain<std::uint64_t>[count];
        core_.table().set_spill(slot, own.fanin_spill, own.link_spill);
    }

    void free_spills(std::uint64_t task) {
        Ledger& own = ledger_[slot_of(task)];
        if (own.fanin_spill == nullptr && own.argument_spill == nullptr) return;
        Seam::free_array(std::exchange(own.fanin_spill, nullptr), own.spilled);
        Seam::free_array(std::exchange(own.link_spill, nullptr), own.spilled);
        delete[] std::exchange(own.argument_spill, nullptr);
        --spills_alive_;
    }

    Core<Seam>& core_;
    Outcomes<Seam>& outcomes_;
    const Config& config_;
    std::vector<Ledger> ledger_;
    std::vector<std::uint32_t> producers_ = std::vector<std::uint32_t>(64);  // of the task being entered
    std::vector<Scope> scopes_;
    Scope* scope_ = nullptr;  // the innermost of the thread that has the lock
    std::uint32_t scope_numbers_ = 0;
    std::uint64_t head_ = 0;
    std::uint64_t published_ = 0;
    std::uint64_t tail_ = 0;
    std::uint64_t watermark_ = 0;
    std::uint64_t edges_ = 0;
    std::uint64_t spilled_ = 0;
    std::uint64_t window_peak_ = 0;
    std::uint64_t spills_alive_ = 0;  // slots with arrays to free at retirement
    std::vector<Edge> edge_log_;
};

}  // namespace whet::graph
