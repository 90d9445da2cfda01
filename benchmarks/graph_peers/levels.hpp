// A graph cut into levels, for peers that know fork and join only: whatever is on a level depends on earlier ones alone.
#pragma once

#include "edges.hpp"

namespace peers {

struct Levels {
    std::vector<std::int64_t> order;   // tasks, level by level
    std::vector<std::size_t> begins;  // where each level begins, and the end

    void cut(const Edges& e) {
        std::vector<std::size_t> level(static_cast<std::size_t>(e.tasks));
        std::size_t deepest = 0;
        for (std::size_t t = 0; t < level.size(); ++t) {
            for (std::int64_t i = e.start[t]; i < e.start[t + 1]; ++i) {
                level[t] = std::max(level[t], level[static_cast<std::size_t>(e.preds[static_cast<std::size_t>(i)])] + 1);
            }
            deepest = std::max(deepest, level[t] + 1);
        }
        begins.assign(deepest + 1, 0);
        for (const std::size_t of : level) ++begins[of + 1];
        for (std::size_t at = 1; at < begins.size(); ++at) begins[at] += begins[at - 1];
        order.resize(level.size());
        std::vector<std::size_t> fill(begins.begin(), begins.end());
        for (std::size_t t = 0; t < level.size(); ++t) order[fill[level[t]]++] = static_cast<std::int64_t>(t);
    }
};

}  // namespace peers
