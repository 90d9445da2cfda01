#include "msm/affine/roots.hpp"

#include "msm/affine/chunk.hpp"

namespace whet::msm {

RootBatch fastest_roots() {
#if defined(__x86_64__)
    if (ifma_kernel.usable()) return roots_ifma;
#endif
    return root_candidates;
}

}  // namespace whet::msm
