// Faults that tests plant, the mechanism: an area lists its places by name (LIST(X), one X(name) each), makes an enum
// of them with WHET_PLANT_ENTRY, and asks WHET_PLANTED where the code should go wrong. That is the constant false, and
// costs nothing, unless the build defines WHET_FAULTS; then it is true while that fault is the active one. Only builds
// of the tests define it, and they try every name of a list.
#pragma once

#include <type_traits>

#define WHET_PLANT_ENTRY(name) name,
#define WHET_PLANT_TEXT(name) #name,

#ifdef WHET_FAULTS
#define WHET_PLANTED(Plant, name) (::whet::Planted<Plant>::active == Plant::name)
// In functions that are also evaluated by the compiler, where it is false. It must not initialise a const number, which
// counts as such a place.
#define WHET_PLANTED_IN_CONSTEXPR(Plant, name) ::whet::Planted<Plant>::at_run_time(Plant::name)
#else
#define WHET_PLANTED(Plant, name) (static_cast<void>(Plant::name), false)
#define WHET_PLANTED_IN_CONSTEXPR(Plant, name) WHET_PLANTED(Plant, name)
#endif

namespace whet {

template <class Plant>
struct Planted {
    static inline Plant active = Plant::none;
    static constexpr bool at_run_time(Plant plant) { return !std::is_constant_evaluated() && active == plant; }
};

}  // namespace whet
