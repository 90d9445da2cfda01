// Faults that the tests plant in the fast engine, one list for every kernel: see fault.hpp for the idea.
// WHET_PLANT(name) is the constant false unless the build defines WHET_PLANTS; then it is true while that plant is the
// active one.
#pragma once

#define WHET_PLANT_LIST(X) \
    X(carry_dropped)       \
    X(reduction_missing)   \
    X(sign_lane_wrong)     \
    X(slow_pass_skipped)   \
    X(lazy_zero_missed)    \
    X(doubling_missed)     \
    X(cancellation_missed) \
    X(infinite_sum_kept)   \
    X(padding_added)       \
    X(endomorphism_lost)   \
    X(last_round_lost)     \
    X(split_list_lost)     \
    X(window_lost)         \
    X(row_lost)            \
    X(top_bucket_lost)     \
    X(infinite_point_counted)

namespace whet::msm {

enum class Plant : int {
    none = 0,
#define WHET_PLANT_ENTRY(name) name,
    WHET_PLANT_LIST(WHET_PLANT_ENTRY)
#undef WHET_PLANT_ENTRY
};

#ifdef WHET_PLANTS
inline Plant active_plant = Plant::none;
#define WHET_PLANT(name) (::whet::msm::active_plant == ::whet::msm::Plant::name)
#else
#define WHET_PLANT(name) (static_cast<void>(::whet::msm::Plant::name), false)
#endif

}  // namespace whet::msm
