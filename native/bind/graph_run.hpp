// Python bodies as the core runs them.
#pragma once

#include <cstdint>

#include "graph/runtime.hpp"

namespace whet::bind {

// The serial number of the runtime whose Python body this thread is in, 0: none.
std::uint64_t running_serial();

// The core's three calls: run a body, whose `user` is a CallObject; drop one that is cancelled; let go of the
// interpreter lock, which is kept from one body to the next.
int run_callable(void* const* tensors, const std::uint64_t* scalars, void* user);
void drop_callable(void* user, graph::Kind kind);

}  // namespace whet::bind
