// The deque of a replay's workers under the checker: one owner pushes and pops, thieves steal, every item is taken
// once, with what its owner wrote before it.
#pragma once

#include <vector>

#include "graph/replay/deque.hpp"
#include "interleave_model.hpp"

namespace whet::test {

struct DequeRun {
    using Deque = graph::StealDeque<ModelSeam>;

    Deque deque;
    std::vector<ModelSeam::Plain<std::uint64_t>> cells;
    std::vector<unsigned> taken;
    unsigned left;

    // `capacity` is also how many the owner pushes before it pops.
    DequeRun(unsigned items, unsigned capacity)
        : deque(capacity), cells(items), taken(items), left(items), at_once(capacity) {}

    void take(std::uint64_t item) {
        Machine& machine = *Machine::active;
        if (item >= taken.size()) machine.fail("an item that nobody pushed");
        if (cells[item].get() != item + 1) machine.fail("an item without what came before it");
        if (taken[item]++ != 0) machine.fail("an item was taken twice");
        --left;
    }

    void own() {
        std::uint64_t pushed = 0;
        while (pushed != taken.size()) {
            for (unsigned count = 0; count < at_once && pushed != taken.size(); ++count, ++pushed) {
                cells[pushed].set(pushed + 1);
                deque.push(pushed);
            }
            // Down to the last one and over the end.
            for (unsigned count = 0; count <= at_once; ++count) {
                const std::uint64_t item = deque.pop();
                if (item == Deque::kNothing) break;
                take(item);
            }
        }
        while (left != 0) Machine::active->yield();
    }

    void steal() {
        while (left != 0) {
            const std::uint64_t item = deque.steal();
            if (item == Deque::kNothing) {
                Machine::active->yield();
            } else if (item != Deque::kLost) {
                take(item);
            }
        }
    }

  private:
    const unsigned at_once;
};

}  // namespace whet::test
