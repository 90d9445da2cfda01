// Faults that the tests plant in the curve and in the reference variants: each name marks one place where the
// arithmetic can be made wrong on purpose. See planted.hpp for how. To add one: add its name here and use it where the
// code should go wrong.
#pragma once

#include "planted.hpp"

#define WHET_FAULT_LIST(X)        \
    X(add_misses_doubling)        \
    X(add_misses_opposite)        \
    X(add_ignores_left_infinity)  \
    X(add_ignores_right_infinity) \
    X(mixed_misses_doubling)      \
    X(mixed_misses_opposite)      \
    X(mixed_ignores_infinity)     \
    X(negation_keeps_y)           \
    X(scalar_not_reduced)         \
    X(digit_carry_dropped)        \
    X(digit_sign_wrong)           \
    X(window_skipped)             \
    X(last_window_missing)        \
    X(top_bucket_lost)            \
    X(lowest_bucket_lost)         \
    X(bucket_stale)               \
    X(bucket_index_off_by_one)    \
    X(running_sum_once_short)     \
    X(horner_doubles_too_few)     \
    X(horner_doubles_too_many)    \
    X(last_point_dropped)         \
    X(first_point_twice)          \
    X(glv_sign_of_k1_wrong)       \
    X(glv_sign_of_k2_wrong)       \
    X(glv_beta_not_applied)       \
    X(glv_drops_small_term)       \
    X(bucket_overwritten)         \
    X(plain_top_bit_lost)         \
    X(plain_skips_limb_border)    \
    X(result_ignores_z)

namespace whet {

enum class Fault : int { none, WHET_FAULT_LIST(WHET_PLANT_ENTRY) };
#define WHET_FAULT(name) WHET_PLANTED_IN_CONSTEXPR(::whet::Fault, name)

}  // namespace whet
