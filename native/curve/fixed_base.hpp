// Many multiples of the generator: k_i G from a table of its shifted multiples, 22 additions each.
#pragma once

#include <span>

#include "curve/bn254.hpp"

namespace whet {

// out[i] = scalars[i] G; scalars may be any integers below 2^256. The table (2.9 MB) is made at the first call.
void multiply_generator(std::span<const Scalar256> scalars, std::span<G1Affine> out);

}  // namespace whet
