// Faults that the tests plant in the vector and assembly arithmetic of the fields: see planted.hpp for how. The sums of
// msm/planted.cpp find each of them on every kernel that has such arithmetic.
#pragma once

#include "planted.hpp"

#define WHET_FIELD_PLANT_LIST(X) \
    X(carry_dropped)             \
    X(reduction_missing)         \
    X(lazy_zero_missed)

namespace whet {

enum class FieldPlant : int { none, WHET_FIELD_PLANT_LIST(WHET_PLANT_ENTRY) };
#define WHET_FIELD_PLANT(name) WHET_PLANTED(::whet::FieldPlant, name)

}  // namespace whet
