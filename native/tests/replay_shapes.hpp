// Graphs for the tests of replays, as arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "graph/replay/replay.hpp"

namespace whet::test {

using graph::ReplayInput;

struct Shape {
    std::vector<std::int64_t> start{0};
    std::vector<std::int64_t> preds;
    void task(const std::vector<std::int64_t>& before) {
        preds.insert(preds.end(), before.begin(), before.end());
        start.push_back(static_cast<std::int64_t>(preds.size()));
    }
    std::int64_t tasks() const { return static_cast<std::int64_t>(start.size()) - 1; }
    ReplayInput input() const {
        ReplayInput in;
        in.tasks = tasks();
        in.start = start.data();
        in.preds = preds.data();
        return in;
    }
};

inline Shape random_shape(std::mt19937& rng, int tasks, int fan_in, int reach) {
    Shape s;
    for (int t = 0; t < tasks; ++t) {
        std::vector<std::int64_t> before;
        const int wanted = t ? static_cast<int>(rng() % static_cast<unsigned>(fan_in + 1)) : 0;
        for (int i = 0; i < wanted; ++i) before.push_back(t - 1 - static_cast<int>(rng() % std::min(reach, t)));
        s.task(before);
    }
    return s;
}

// `copies` independent fans 1 -> width -> 1, one after the other in numbering.
inline Shape fans(int copies, int width) {
    Shape s;
    for (int c = 0; c < copies; ++c) {
        const std::int64_t source = s.tasks();
        s.task({});
        std::vector<std::int64_t> leaves;
        for (int i = 0; i < width; ++i) {
            leaves.push_back(s.tasks());
            s.task({source});
        }
        s.task(leaves);
    }
    return s;
}

}  // namespace whet::test
