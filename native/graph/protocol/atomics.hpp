// The one seam between the runtime's protocol and the machine. Protocol code is a template over a Seam and names, for
// every shared access, the Site it is; the order of each Site is written once, in this table. The interleaving checker
// supplies another Seam that runs the same code under a deterministic scheduler and can weaken one Site at a time.
#pragma once

#include <cxxabi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "graph/protocol/park.hpp"

namespace whet::graph {

// Who accesses what is explained per field in README.md; the pairs are named here.
enum class Site : std::uint8_t {
    head_publish,   // submitter: tasks below head are complete records        -> head_observe, idle_recheck
    head_observe,   // worker: how far may I claim
    claim_peek,     // worker: next unclaimed task
    claim_take,     // worker: takes a run of tasks
    range_give,     // worker: shows the rest of its run to thieves             -> range_steal, idle_recheck
    range_peek,     // owner or thief: what is left
    range_take,     // owner: takes the next task of its run
    range_steal,    // thief: takes half of the run
    flag_clear,     // submitter: slot is retired, published by head_publish
    flag_done,      // worker: task has completed                               -> flag_check, flag_reclaim
    flag_check,     // worker: is this producer done
    flag_reclaim,   // submitter: may the watermark pass
    wake_clear,     // submitter: empty wake list, published by head_publish
    wake_peek,      // worker about to register                                 <- wake_close
    wake_register,  // worker: hands the waiting task to the producer           -> wake_close
    wake_close,     // completing worker: takes all waiters, refuses later ones
    wake_alone,     // the same by the only worker, who alone registers
    wired_count,    // claimer or completing producer: one fan-in fewer         -> itself
    wired_reset,    // submitter: fan-in count of a new task, published by head_publish
    wired_link,     // submitter: adds the consumer to the producer's list      -> wired_close
    wired_peek,     // submitter: is the producer's list still open             <- wired_close
    wired_close,    // completing worker: takes the list
    wired_hold,     // submitter: one more reference on a producer
    wired_release,  // worker or scope end: one reference fewer                 -> wired_reclaim
    wired_reclaim,  // submitter: are all references gone
    lock_take,      // queue lock                                               <- lock_drop
    lock_drop,
    size_show,           // under the lock: how many tasks are queued                 -> size_peek, idle_recheck
    size_peek,           // anyone: is a look worth a lock
    idle_enter,          // worker: about to sleep                                    -> idle_check
    idle_leave,          // worker: awake again
    idle_check,          // whoever made work: does anybody sleep
    idle_recheck,        // worker, after idle_enter: is there work after all
    idle_glance,         // the same where a sleeper that was missed wakes by itself
    rouse_claim,         // whoever made work: only one wake-up at a time              -> rouse_clear
    rouse_clear,         // woken worker, before it looks for work
    idle_ticket,         // worker: value to sleep on
    idle_rouse,          // whoever made work: changes the value, then wakes
    failure_count,       // worker: one more failed or cancelled; submitter: collected
    failure_note,        // worker, before flag_done: tasks from here on have not failed  (published by flag_done)
    failure_look,        // anyone who knows that the task is done
    cancel_set,          // anyone: what is not to begin
    cancel_look,         // worker, before a body
    deque_own,           // owner: its own bottom
    deque_item,          // owner puts it, owner or thief takes it; published by deque_push
    deque_push,          // owner: one more item                                  -> deque_steal_bottom
    deque_look,          // anyone: is a try worth it
    deque_claim,         // owner: takes the bottom item unless it is the last    -> deque_steal_bottom
    deque_pop_top,       // owner, after deque_claim: has a thief come so far     <- deque_steal
    deque_last,          // owner: races for the last item
    deque_restore,       // owner: the deque is empty
    deque_steal_top,     // thief: where to take
    deque_steal_bottom,  // thief, after deque_steal_top: is there anything
    deque_steal,         // thief: takes it
    crew_close,          // caller: no group of the last region follows; published by crew_count
    crew_field,          // caller: what the region is; workers: published by crew_open
    crew_count,          // caller, after crew_close: how many groups                  -> crew_count_look
    crew_count_look,     // worker: is my next group one of them
    crew_open,           // caller: groups may be taken                                -> crew_peek, crew_take
    crew_peek,           // worker: which group is next
    crew_take,           // worker: takes it
    crew_epoch,          // caller: there is a region                                  -> crew_epoch_look, idle_recheck
    crew_epoch_look,     // worker
    crew_done,           // worker: a group is done                                    -> crew_done_look, idle_recheck
    crew_done_look,      // caller: are all
    crew_stop,           // caller: no region follows; published by idle_rouse
    replay_run,          // worker: takes a run of whole components
    replay_arrive,       // worker: predecessors are done                              -> itself
    replay_bar,          // anyone: what is not to begin; published by replay_arrive, or late
    replay_note,         // counts for those who look now and then
    replay_left,         // worker: tasks fewer that are counted
    count_,
};

struct SiteOrder {
    const char* name;
    std::memory_order order;
};

inline constexpr SiteOrder kSites[static_cast<std::size_t>(Site::count_)] = {
    {"head_publish", std::memory_order_seq_cst},       {"head_observe", std::memory_order_acquire},
    {"claim_peek", std::memory_order_relaxed},         {"claim_take", std::memory_order_relaxed},
    {"range_give", std::memory_order_seq_cst},         {"range_peek", std::memory_order_relaxed},
    {"range_take", std::memory_order_relaxed},         {"range_steal", std::memory_order_acquire},
    {"flag_clear", std::memory_order_relaxed},         {"flag_done", std::memory_order_release},
    {"flag_check", std::memory_order_acquire},         {"flag_reclaim", std::memory_order_acquire},
    {"wake_clear", std::memory_order_relaxed},         {"wake_peek", std::memory_order_acquire},
    {"wake_register", std::memory_order_acq_rel},      {"wake_close", std::memory_order_acq_rel},
    {"wake_alone", std::memory_order_relaxed},         {"wired_count", std::memory_order_acq_rel},
    {"wired_reset", std::memory_order_relaxed},        {"wired_link", std::memory_order_acq_rel},
    {"wired_peek", std::memory_order_acquire},         {"wired_close", std::memory_order_acq_rel},
    {"wired_hold", std::memory_order_relaxed},         {"wired_release", std::memory_order_release},
    {"wired_reclaim", std::memory_order_acquire},      {"lock_take", std::memory_order_acquire},
    {"lock_drop", std::memory_order_release},          {"size_show", std::memory_order_seq_cst},
    {"size_peek", std::memory_order_relaxed},          {"idle_enter", std::memory_order_seq_cst},
    {"idle_leave", std::memory_order_relaxed},         {"idle_check", std::memory_order_seq_cst},
    {"idle_recheck", std::memory_order_seq_cst},       {"idle_glance", std::memory_order_relaxed},
    {"rouse_claim", std::memory_order_release},        {"rouse_clear", std::memory_order_acquire},
    {"idle_ticket", std::memory_order_acquire},        {"idle_rouse", std::memory_order_release},
    {"failure_count", std::memory_order_relaxed},      {"failure_note", std::memory_order_relaxed},
    {"failure_look", std::memory_order_relaxed},       {"cancel_set", std::memory_order_relaxed},
    {"cancel_look", std::memory_order_relaxed},        {"deque_own", std::memory_order_relaxed},
    {"deque_item", std::memory_order_relaxed},         {"deque_push", std::memory_order_release},
    {"deque_look", std::memory_order_relaxed},         {"deque_claim", std::memory_order_seq_cst},
    {"deque_pop_top", std::memory_order_seq_cst},      {"deque_last", std::memory_order_seq_cst},
    {"deque_restore", std::memory_order_relaxed},      {"deque_steal_top", std::memory_order_seq_cst},
    {"deque_steal_bottom", std::memory_order_seq_cst}, {"deque_steal", std::memory_order_seq_cst},
    {"crew_close", std::memory_order_relaxed},         {"crew_field", std::memory_order_relaxed},
    {"crew_count", std::memory_order_release},         {"crew_count_look", std::memory_order_acquire},
    {"crew_open", std::memory_order_release},          {"crew_peek", std::memory_order_acquire},
    {"crew_take", std::memory_order_acquire},          {"crew_epoch", std::memory_order_seq_cst},
    {"crew_epoch_look", std::memory_order_acquire},    {"crew_done", std::memory_order_seq_cst},
    {"crew_done_look", std::memory_order_acquire},     {"crew_stop", std::memory_order_relaxed},
    {"replay_run", std::memory_order_relaxed},         {"replay_arrive", std::memory_order_acq_rel},
    {"replay_bar", std::memory_order_relaxed},         {"replay_note", std::memory_order_relaxed},
    {"replay_left", std::memory_order_relaxed},
};

constexpr std::memory_order order_of(Site site) { return kSites[static_cast<std::size_t>(site)].order; }

// A failed compare-exchange only reads.
constexpr std::memory_order order_of_failure(std::memory_order success) {
    switch (success) {
        case std::memory_order_acq_rel:
        case std::memory_order_acquire:
            return std::memory_order_acquire;
        case std::memory_order_seq_cst:
            return std::memory_order_seq_cst;
        default:
            return std::memory_order_relaxed;
    }
}

// The real machine: std::atomic with the orders of the table, folded at compile time.
struct MachineSeam {
    static constexpr std::uint32_t kInlineFanin = 5;    // producers that fit into the slot's line
    static constexpr std::uint32_t kWide = 16;          // successors from which a replay hands on a range
    static constexpr std::uint32_t kGrains = 8;         // into which a worker's share of a range is cut, ...
    static constexpr std::uint32_t kLargestGrain = 32;  // ... of so many tasks at most
    using Mutex = std::mutex;
    using Patience = graph::Patience;
    using ThreadEnd = abi::__forced_unwind;  // what unwinds a thread that its body ends (pthread_exit)

    template <class T>
    class Atomic {
      public:
        Atomic() = default;
        explicit Atomic(T value) : value_(value) {}
        T load(Site site) const { return value_.load(order_of(site)); }
        void store(T value, Site site) { value_.store(value, order_of(site)); }
        T exchange(T value, Site site) { return value_.exchange(value, order_of(site)); }
        T fetch_add(T value, Site site) { return value_.fetch_add(value, order_of(site)); }
        T fetch_sub(T value, Site site) { return value_.fetch_sub(value, order_of(site)); }
        T fetch_or(T value, Site site) { return value_.fetch_or(value, order_of(site)); }
        bool compare_exchange(T& expected, T desired, Site site) {
            return value_.compare_exchange_strong(expected, desired, order_of(site), order_of_failure(order_of(site)));
        }
        std::atomic<T>& raw() { return value_; }
        const std::atomic<T>& raw() const { return value_; }

      private:
        std::atomic<T> value_{};
    };

    // A field that only one thread at a time may touch; the checker verifies that.
    template <class T>
    class Plain {
      public:
        T get() const { return value_; }
        void set(T value) { value_ = std::move(value); }
        void add(T value) { value_ += value; }

      private:
        T value_{};
    };

    // Nobody reads the elements any more; the checker verifies that.
    template <class T>
    static void free_array(Plain<T>* array, std::uint32_t) {
        delete[] array;
    }

    // Links are slot numbers; the checker verifies that they are.
    static void check_index(std::uint32_t, std::uint32_t) {}

    static void pause() { cpu_pause(); }
    static void yield() { thread_yield(); }
    static void park(Atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns) {
        graph::park(word.raw(), expected, timeout_ns);
    }
    static void unpark_all(Atomic<std::uint32_t>& word) { graph::unpark_all(word.raw()); }
    static void unpark_one(Atomic<std::uint32_t>& word) { graph::unpark_one(word.raw()); }
};

}  // namespace whet::graph
