// The batch-affine sums with mulx, adcx and adox: the scalar kernel over AdxFp.
#include "field/adx_fp.hpp"
#include "field/cpuid.hpp"
#include "msm/affine/scalar_input.hpp"
#include "msm/affine/scalar_sums.hpp"
#include "msm/affine/small.hpp"

namespace whet::msm {

namespace {

// Asked once: in a virtual machine each question is a way out of it and back, 20 us.
bool usable() {
    static const bool has_both = has_mulx_and_adx(ask_cpuid);
    return has_both;
}

}  // namespace

const Kernel adx_kernel = {
    "adx",           256, sizeof(ScalarSums<AdxFp>::Scratch), usable, ScalarSums<AdxFp>::sum_lists, prepare_scalar,
    decompose_scalar};

const StrausSum straus_adx = Straus<AdxFp>::sum;
const HornerSum horner_adx = horner<AdxFp>;
const Multiples multiples_adx = multiples<AdxFp>;

}  // namespace whet::msm
