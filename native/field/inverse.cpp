#include "field/inverse.hpp"

namespace whet {

template Limbs<4> inverse_vartime<4>(const Limbs<4>&, const Limbs<4>&);

}  // namespace whet
