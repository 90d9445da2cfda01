#include "msm/affine/points_in.hpp"

#include "msm/affine/chunk.hpp"

namespace whet::msm {

FirstDefect read_points_fast(std::span<const Limbs<8>> raw, bool montgomery, bool check_curve,
                             std::span<G1Affine> out) {
    std::size_t done = 0;
#if defined(__x86_64__)
    if (ifma_kernel.usable())
        done = read_points_ifma(reinterpret_cast<const std::byte*>(raw.data()), raw.size(), montgomery, check_curve,
                                reinterpret_cast<std::byte*>(out.data()));
#endif
    // The rest of less than eight, or eight of which one is bad: the plain code says which, and why.
    FirstDefect defect = read_points(raw.subspan(done), montgomery, check_curve, out.subspan(done));
    defect.index += done;
    return defect;
}

}  // namespace whet::msm
