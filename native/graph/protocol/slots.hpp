// The ring of task slots: one cache line per task, one completion byte per task in an array of its own, and for the
// wired policy one more line per task. A task's slot is its sequence number modulo the window.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/protocol/atomics.hpp"

namespace whet::graph {

// What a task runs: tensor addresses, scalar words, and the pointer given at submission. Nonzero means it failed.
using Body = int (*)(void* const* tensors, const std::uint64_t* scalars, void* user);

// A body's result that ends the wait of whoever waits: the task fails, tasks that have not begun are cancelled, and the
// wait returns Code::interrupted. For bodies that an interrupt has reached.
inline constexpr int kInterruptedBody = -0x40000001;
// A body's result that says it did nothing because it was told not to begin: the task counts as cancelled.
inline constexpr int kDroppedBody = -0x40000002;

enum class Policy : std::uint8_t { wired, polling, hybrid };

// Where a waiting task registers under `hybrid`: at its last or first unmet producer (and again at the next one when
// woken), or only once a single producer is unmet (until then it is polled).
enum class WakeTarget : std::uint8_t { last, first, single };

// The completion byte. `failed` also stands for cancelled: consumers of either do not run.
enum class Progress : std::uint8_t { pending, done, failed };

// Lists of slots are linked by slot number plus one.
inline constexpr std::uint32_t kEmpty = 0;
inline constexpr std::uint32_t kClosedDone = 0xffffffff;
inline constexpr std::uint32_t kClosedFailed = 0xfffffffe;

// Written by the submitter before head_publish, then owned by whoever holds the task: the worker that claimed it, the
// wake list it is registered in, or the queue it is linked in. `wake` alone is shared.
template <class Seam>
struct alignas(64) Slot {
    template <class T>
    using Plain = typename Seam::template Plain<T>;

    Plain<Body> body;
    Plain<void*> user;
    Plain<void**> arguments;  // tensor addresses, then scalar words
    typename Seam::template Atomic<std::uint32_t> wake;
    Plain<std::uint32_t> next;         // link in a wake list, a pending list or a queue's overflow
    Plain<std::uint32_t> fanin_count;  // producers that were not retired at submission
    Plain<std::uint16_t> tensor_count;
    Plain<std::uint8_t> kind;
    Plain<std::uint8_t> poisoned;  // a producer failed: do not run
    Plain<std::uint32_t> cursor;   // producers below this index are not yet known to be done
    Plain<std::uint32_t> fanin[Seam::kInlineFanin];
};

// The wired policy's part of a slot. An edge is (consumer slot + 1) << 32 | fan-in index.
template <class Seam>
struct alignas(64) WiredSlot {
    typename Seam::template Atomic<std::uint64_t> fanout;      // list of edges, or closed
    typename Seam::template Atomic<std::uint32_t> fanin_left;  // unmet producers, plus one until claimed
    typename Seam::template Atomic<std::uint32_t> references;  // own completion, scope, consumers
    typename Seam::template Plain<std::uint64_t> link[Seam::kInlineFanin];
};

inline constexpr std::uint64_t kFanoutClosed = ~std::uint64_t{0};

template <class Seam>
class SlotTable {
  public:
    using Flag = typename Seam::template Atomic<std::uint8_t>;
    template <class T>
    using Plain = typename Seam::template Plain<T>;

    SlotTable(std::uint32_t window, bool wired)
        : window_(window),
          slots_(new Slot<Seam>[window]),
          flags_(new Flag[window]),
          fanin_spill_(new const Plain<std::uint32_t>*[window]()),
          link_spill_(wired ? new Plain<std::uint64_t>*[window]() : nullptr),
          wired_(wired ? new WiredSlot<Seam>[window] : nullptr) {}

    std::uint32_t slot_of(std::uint64_t sequence) const { return static_cast<std::uint32_t>(sequence) & (window_ - 1); }
    // The task that a slot holds, given that it is in use: the only number below `head` within one window.
    std::uint64_t task_in(std::uint32_t slot, std::uint64_t head) const {
        return head - 1 - ((head - 1 - slot) & (window_ - 1));
    }
    Slot<Seam>& operator[](std::uint32_t slot) {
        Seam::check_index(slot, window_);
        return slots_[slot];
    }
    WiredSlot<Seam>& wired(std::uint32_t slot) {
        Seam::check_index(slot, window_);
        return wired_[slot];
    }
    Flag& flag(std::uint32_t slot) { return flags_[slot]; }

    // Slot numbers of the producers. Beyond kInlineFanin they live in an array that the submitter frees at retirement.
    std::uint32_t producer(std::uint32_t slot, std::uint32_t index) {
        Slot<Seam>& own = slots_[slot];
        if (own.fanin_count.get() <= Seam::kInlineFanin) return own.fanin[index].get();
        return fanin_spill_[slot][index].get();
    }
    void set_spill(std::uint32_t slot, const Plain<std::uint32_t>* producers, Plain<std::uint64_t>* links) {
        fanin_spill_[slot] = producers;
        if (link_spill_) link_spill_[slot] = links;
    }

    std::uint64_t link(std::uint64_t edge) {
        const std::uint32_t slot = static_cast<std::uint32_t>(edge >> 32) - 1;
        const std::uint32_t index = static_cast<std::uint32_t>(edge);
        Seam::check_index(slot, window_);
        if (slots_[slot].fanin_count.get() <= Seam::kInlineFanin) return wired_[slot].link[index].get();
        return link_spill_[slot][index].get();
    }
    void set_link(std::uint32_t slot, std::uint32_t index, std::uint64_t edge) {
        if (slots_[slot].fanin_count.get() <= Seam::kInlineFanin) {
            wired_[slot].link[index].set(edge);
        } else {
            link_spill_[slot][index].set(edge);
        }
    }

  private:
    const std::uint32_t window_;
    std::unique_ptr<Slot<Seam>[]> slots_;
    std::unique_ptr<Flag[]> flags_;
    std::unique_ptr<const Plain<std::uint32_t>*[]> fanin_spill_;
    std::unique_ptr<Plain<std::uint64_t>*[]> link_spill_;
    std::unique_ptr<WiredSlot<Seam>[]> wired_;
};

static_assert(sizeof(Slot<MachineSeam>) == 64);
static_assert(sizeof(WiredSlot<MachineSeam>) == 64);

}  // namespace whet::graph
