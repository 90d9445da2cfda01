// The threads of a pool under the checker, for regions alone and for replays in them: one calls, the others serve.
#pragma once

#include <functional>
#include <vector>

#include "graph/pool/regions.hpp"
#include "interleave_model.hpp"

namespace whet::test {

using ModelRegions = graph::ParallelRegions<ModelSeam>;

// Another thread takes the place of one that a body has ended.
inline void serve_crew(ModelRegions& regions, unsigned worker) {
    for (bool again = true; again;) {
        again = false;
        try {
            regions.serve(worker, [](unsigned) {});
        } catch (const ModelSeam::ThreadEnd&) {
            again = true;
        }
    }
}

template <class Call>
bool drive_crew(Machine& machine, ModelRegions& regions, unsigned threads, Call&& call) {
    std::vector<std::function<void()>> bodies{call};
    for (unsigned worker = 1; worker < threads; ++worker) {
        bodies.emplace_back([&regions, worker] { serve_crew(regions, worker); });
    }
    return machine.run(bodies);
}

// Whether a body ended the caller's thread. Its region is over then.
inline bool ends_in_help(ModelRegions& regions, std::uint64_t groups) {
    try {
        regions.help(groups);
    } catch (const ModelSeam::ThreadEnd&) {
        return true;
    }
    return false;
}

}  // namespace whet::test
