// Faults that the tests plant in the decode kernel: see planted.hpp for how.
#pragma once

#include "planted.hpp"

#define WHET_DECODE_PLANT_LIST(X) \
    X(norm_ignores_eps)           \
    X(norm_divides_by_padding)    \
    X(norm_drops_weight)          \
    X(dot_skips_last_block)       \
    X(rest_of_rows_lost)          \
    X(last_unit_unclaimed)        \
    X(share_of_next_worker_lost)  \
    X(int8_scale_of_next_row)     \
    X(fp4_nibbles_swapped)        \
    X(fp4_scale_of_first_block)   \
    X(fp4_sign_lost)              \
    X(rotary_sign_wrong)          \
    X(rotary_forgets_keys)        \
    X(attention_scale_missing)    \
    X(group_takes_wrong_head)     \
    X(page_table_ignored)         \
    X(tail_token_dropped)         \
    X(tail_reads_beyond)          \
    X(softmax_not_rescaled)       \
    X(softmax_sum_not_rescaled)   \
    X(own_token_forgotten)        \
    X(gate_without_sigmoid)       \
    X(e4m3_subnormal_lost)        \
    X(wo_slot_lost)               \
    X(wo_split_overlaps)          \
    X(residual_not_added)         \
    X(silu_on_up)                 \
    X(quantise_scale_unrounded)   \
    X(fc1_last_rows_stale)        \
    X(batch_rows_mixed)           \
    X(final_residual_missing)     \
    X(counters_not_reset)         \
    X(barrier_relaxed)

namespace whet::decode {

enum class Plant : int { none, WHET_DECODE_PLANT_LIST(WHET_PLANT_ENTRY) };
#define WHET_DECODE_PLANT(name) WHET_PLANTED(::whet::decode::Plant, name)

}  // namespace whet::decode
