#include <cstdlib>

#include "msm/engine/engine.hpp"
#include "msm/engine/errors.hpp"

namespace whet::msm {

std::vector<const Kernel*> all_kernels() {
    return {
#if defined(__x86_64__)
        &ifma_kernel, &avx2_kernel, &adx_kernel,
#endif
        &portable_kernel};
}

const Kernel& find_kernel(const std::string& name) {
    std::string usable;
    for (const Kernel* kernel : all_kernels()) {
        if (!kernel->usable()) continue;
        if (name == "auto" || name == kernel->name) return *kernel;
        usable += usable.empty() ? kernel->name : std::string(", ") + kernel->name;
    }
    throw EngineError(Trouble::unsupported, "this CPU or this build has no backend " + name,
                      "usable here: auto, " + usable);
}

}  // namespace whet::msm
