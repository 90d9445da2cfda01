// Faults that the tests plant in the task-graph core: see planted.hpp for how. Every one is killed by a native program,
// most by the interleaving checker (tests/test_graph_interleave.cpp --plants), the others by test_graph_failed_memory.
#pragma once

#include "planted.hpp"

#define WHET_GRAPH_PLANT_LIST(X)     \
    X(walk_forgets_poison)           \
    X(late_registrar_not_poisoned)   \
    X(single_forgets_poison)         \
    X(single_late_not_poisoned)      \
    X(wake_forgets_poison)           \
    X(polling_forgets_poison)        \
    X(byte_before_wake_close)        \
    X(walk_skips_a_producer)         \
    X(second_waiter_lost)            \
    X(late_registrar_waits)          \
    X(wired_keeps_own_reference)     \
    X(wired_holds_nothing)           \
    X(wired_byte_after_close)        \
    X(wired_consumer_lost)           \
    X(wired_waits_for_done_producer) \
    X(wired_claim_not_counted)       \
    X(poison_of_last_lap_kept)       \
    X(publish_wakes_nobody)          \
    X(abandon_loses_successor)       \
    X(step_aside_silent)             \
    X(step_drops_next)               \
    X(held_back_lost)                \
    X(steal_drops_rest)              \
    X(woken_batch_dropped)           \
    X(nap_without_limit)             \
    X(claim_announces_nothing)       \
    X(references_ignored)            \
    X(watermark_one_too_far)         \
    X(mark_of_rouse_kept)            \
    X(sleeper_not_counted)           \
    X(recheck_dropped)               \
    X(ticket_read_late)              \
    X(overflow_lost)                 \
    X(pending_lost_when_polled)      \
    X(steal_leaves_middle)           \
    X(claim_shows_first_again)       \
    X(take_beside_thieves)           \
    X(wake_closed_beside_others)     \
    X(settled_ignores_failures)      \
    X(settled_one_too_far)           \
    X(retired_failure_forgotten)     \
    X(last_consumer_not_kept)        \
    X(manual_use_not_kept)           \
    X(scope_pins_nothing)            \
    X(poison_lost_at_entry)          \
    X(last_of_group_untold)          \
    X(last_consumer_ignored)         \
    X(tail_runs_ahead)               \
    X(first_byte_not_cleared)        \
    X(scope_has_no_floor)            \
    X(floor_of_innermost)            \
    X(scope_keeps_its_first)         \
    X(spill_loses_last)              \
    X(poisoned_task_runs)            \
    X(wired_ignores_failed_producer) \
    X(failure_end_not_moved)         \
    X(first_failure_replaced)        \
    X(first_failure_stays)           \
    X(cancel_below_one_more)         \
    X(cancelled_one_runs)            \
    X(failed_region_not_kept)        \
    X(failed_region_forgotten)       \
    X(deque_bottom_before_item)      \
    X(deque_last_without_race)       \
    X(deque_bottom_not_restored)     \
    X(crew_number_kept)              \
    X(crew_not_closed)               \
    X(crew_open_too_early)           \
    X(crew_skips_for_ever)           \
    X(crew_done_kept)                \
    X(crew_opens_silently)           \
    X(crew_ended_group_not_done)     \
    X(crew_failure_lost)             \
    X(crew_ended_caller_leaves)      \
    X(crew_bars_nothing)             \
    X(crew_ends_silently)            \
    X(replay_poison_kept)            \
    X(replay_goes_up_again)          \
    X(replay_poisons_first_only)     \
    X(replay_poison_stops)           \
    X(replay_ended_successor_lost)   \
    X(replay_arrives_once)           \
    X(replay_second_successor_lost)  \
    X(replay_wide_first_twice)       \
    X(replay_half_lost)              \
    X(replay_ended_range_again)      \
    X(replay_ended_held_lost)        \
    X(replay_rest_lost)              \
    X(replay_rest_taken_twice)       \
    X(replay_ended_not_counted)

namespace whet::graph {

enum class Plant : int { none, WHET_GRAPH_PLANT_LIST(WHET_PLANT_ENTRY) };
#define WHET_GRAPH_PLANT(name) WHET_PLANTED(::whet::graph::Plant, name)

}  // namespace whet::graph
