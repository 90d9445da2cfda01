// The two reference algorithms for S = sum s_i P_i, on one thread, in portable C++: the plain one that is right by
// inspection, and Pippenger's in its textbook form. Fast backends are compared with them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "curve/bn254.hpp"

namespace whet {

// What a computation did, so that one which did nothing can be told from one which was fast.
struct MsmWork {
    u64 additions = 0;  // point additions, of any kind
    u64 doublings = 0;
    unsigned window_bits = 0;  // 0 where there are no windows
    unsigned windows = 0;
};

// Scalars are any integers below 2^256 and count modulo r; points may be infinity, repeated or opposite.
// Both spans have the same length, which may be zero.
// `pause` is called now and then, every few milliseconds up to a second or so, where there is one: what it throws ends
// the computation.
using Pause = std::function<void()>;

G1Jacobian msm_plain(std::span<const G1Affine> points, std::span<const Scalar256> scalars, MsmWork& work,
                     const Pause& pause = {});

constexpr unsigned max_window_bits = 20;

struct PippengerOptions {
    unsigned window_bits = 0;  // 1 .. max_window_bits; 0 takes the cheapest by operation count
    bool glv = false;          // twice the points, half the scalar length
    Pause pause = {};
};

G1Jacobian msm_pippenger(std::span<const G1Affine> points, std::span<const Scalar256> scalars,
                         const PippengerOptions& options, MsmWork& work);

}  // namespace whet
