// Faults that the tests plant in the fast engine, one list for every kernel: see planted.hpp for how, and
// field/plants.hpp for those of its arithmetic.
#pragma once

#include "planted.hpp"

#define WHET_PLANT_LIST(X)        \
    X(sign_lane_wrong)            \
    X(slow_pass_skipped)          \
    X(doubling_missed)            \
    X(cancellation_missed)        \
    X(infinite_sum_kept)          \
    X(padding_added)              \
    X(endomorphism_lost)          \
    X(last_mapping_lost)          \
    X(last_round_lost)            \
    X(split_list_lost)            \
    X(window_lost)                \
    X(row_lost)                   \
    X(top_bucket_lost)            \
    X(infinite_point_counted)     \
    X(slice_lost)                 \
    X(slice_point_wrong)          \
    X(slices_mapped_wrong)        \
    X(row_slice_lost)             \
    X(batch_sum_misplaced)        \
    X(block_wrong)                \
    X(block_sign_lost)            \
    X(block_carry_wrong)          \
    X(block_infinity_counted)     \
    X(straus_infinity_counted)    \
    X(straus_half_lost)           \
    X(straus_limb_lost)           \
    X(straus_carry_dropped)       \
    X(straus_sign_wrong)          \
    X(straus_beta_lost)           \
    X(straus_doubling_missed)     \
    X(straus_cancellation_missed) \
    X(few_last_lost)              \
    X(few_infinity_counted)       \
    X(few_zero_counted)           \
    X(few_beta_lost)              \
    X(few_fold_lost)              \
    X(few_doubling_missed)        \
    X(few_cancellation_missed)    \
    X(horner_bit_lost)

// Faults of calls at the same time, which the thread sanitizer must see; they need not change an answer.
#define WHET_RACE_PLANT_LIST(X) \
    X(turn_not_taken)           \
    X(seat_shared)              \
    X(trimmed_in_a_call)        \
    X(closed_without_lock)

namespace whet::msm {

enum class Plant : int { none, WHET_PLANT_LIST(WHET_PLANT_ENTRY) };
#define WHET_PLANT(name) WHET_PLANTED(::whet::msm::Plant, name)
enum class RacePlant : int { none, WHET_RACE_PLANT_LIST(WHET_PLANT_ENTRY) };
#define WHET_RACE_PLANT(name) WHET_PLANTED(::whet::msm::RacePlant, name)

}  // namespace whet::msm
