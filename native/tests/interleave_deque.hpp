// The deque of a replay's workers under the checker: one owner pushes and pops, thieves steal, every item is taken
// once, with what its owner wrote before it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/replay/deque.hpp"
#include "interleave_model.hpp"

namespace whet::test {

struct DequeCase {
    std::string name;
    unsigned threads;
    unsigned capacity;  // also how many the owner pushes before it pops
    unsigned items = 5;
};

// Deques of one, two and four places, one to three thieves.
inline std::vector<DequeCase> deque_cases() {
    std::vector<DequeCase> all;
    for (const unsigned threads : {2U, 3U, 4U}) {
        for (const unsigned capacity : {1U, 2U, 4U}) {
            all.push_back({"deque of " + std::to_string(capacity), threads, capacity});
        }
    }
    return all;
}

struct DequeRun {
    using Deque = graph::StealDeque<ModelSeam>;

    Deque deque;
    std::vector<ModelSeam::Plain<std::uint64_t>> cells;
    std::vector<unsigned> taken;
    unsigned left;

    explicit DequeRun(const DequeCase& from)
        : deque(from.capacity),
          cells(from.items),
          taken(from.items),
          left(from.items),
          at_once(from.capacity),
          threads(from.threads) {}

    bool drive(Machine& machine) {
        std::vector<std::function<void()>> bodies{[this] { own(); }};
        for (unsigned thief = 1; thief < threads; ++thief) bodies.emplace_back([this] { steal(); });
        return machine.run(bodies);
    }

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
    const unsigned threads;
};

}  // namespace whet::test
