// The batch-affine sums in portable C++ over Fp: the reference of the other kernels, and what other machines run.
#include "curve/bn254.hpp"
#include "msm/affine/scalar_input.hpp"
#include "msm/affine/scalar_sums.hpp"
#include "msm/affine/small.hpp"

namespace whet::msm {

const Kernel portable_kernel = {"portable",
                                256,
                                sizeof(ScalarSums<Fp>::Scratch),
                                [] { return true; },
                                ScalarSums<Fp>::sum_lists,
                                prepare_scalar,
                                decompose_scalar};

const StrausSum straus_portable = Straus<Fp>::sum;
const HornerSum horner_portable = horner<Fp>;
const Multiples multiples_portable = multiples<Fp>;

}  // namespace whet::msm
