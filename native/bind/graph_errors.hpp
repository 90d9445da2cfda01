// What Python bodies raised, for the wait that collects the first error of all tasks.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace whet::bind {

namespace nb = nanobind;

// The core keeps the first error that reaches it. Of those that are raised here, at most one per thread is on its way
// to the core at a time, so the core's first one is among the first `most` since the last collection, and no more are
// kept: a program that never waits does not gather exceptions. A task has its own error in any case. Touched with the
// interpreter lock held.
class BodyErrors {
  public:
    explicit BodyErrors(std::size_t most) : most_(most) {}

    void add(std::uint64_t task, nb::handle error, bool is_interrupt) {
        if (is_interrupt) {
            interrupt_ = nb::borrow<nb::object>(error);
        } else if (raised_.size() < most_) {
            raised_.insert_or_assign(task, nb::borrow<nb::object>(error));
        }
    }
    // None if it is not known.
    nb::object of(std::uint64_t task) const {
        const auto place = raised_.find(task);
        return place == raised_.end() ? nb::none() : place->second;
    }
    // The interrupt that a body has met, once.
    nb::object take_interrupt() {
        nb::object taken = std::exchange(interrupt_, nb::object());
        return taken.is_valid() ? taken : nb::none();
    }
    // The errors of these tasks have been collected. What they refer to may run code when it goes, which may come here.
    void forget_below(std::uint64_t task) {
        std::map<std::uint64_t, nb::object> gone;
        while (!raised_.empty() && raised_.begin()->first < task) gone.insert(raised_.extract(raised_.begin()));
    }
    std::size_t size() const { return raised_.size(); }

  private:
    const std::size_t most_;
    std::map<std::uint64_t, nb::object> raised_;
    nb::object interrupt_;
};

}  // namespace whet::bind
