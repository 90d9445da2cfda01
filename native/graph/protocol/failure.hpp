// The one place for how a run fails: the record of one failure, as whoever waits is told, the words for what bodies do
// wrong, and the first failure of a run. Outcomes keeps what became of every task of a runtime.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "graph/plants.hpp"

namespace whet::graph {

inline constexpr const char* kEndedThread = "the body ended its thread";
inline constexpr const char* kUnknownException = "an exception that is no std::exception";

// In a handler: what was thrown, in words.
inline std::string thrown_in_words() {
    try {
        throw;
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return kUnknownException;
    }
}

struct Failure {
    int result = 0;                  // what the body returned
    std::uint32_t name = 0;          // of the task
    bool cancelled = false;          // it did not run
    std::string message{};           // instead of a result
    std::exception_ptr thrown = {};  // instead of words, where whoever waits gets it as it was: from a parallel region
};

// The first failure of a run: of a runtime since it was last asked, of a replay, of a parallel region.
template <class Seam>
class FirstFailure {
  public:
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};

    // By whoever fails, at any time. `number` is that of the task or chunk.
    void keep(std::uint64_t number, Failure failure) {
        const std::lock_guard guard(lock_);
        if (number_.get() != 0 && !WHET_GRAPH_PLANT(first_failure_replaced)) return;
        number_.set(number + 1);
        failure_.set(std::move(failure));
    }

    // Its number, kNone if nothing failed. Once, by whoever waits, when all who could fail are done.
    std::uint64_t take(Failure& failure) {
        const std::uint64_t number = number_.get();
        if (number == 0) return kNone;
        failure = failure_.get();
        if (!WHET_GRAPH_PLANT(first_failure_stays)) number_.set(0);
        failure_.set({});
        return number - 1;
    }

    // A new run, and nobody may have asked after the last one.
    void clear() {
        if (number_.get() == 0) return;
        number_.set(0);
        failure_.set({});
    }

  private:
    template <class T>
    using Plain = typename Seam::template Plain<T>;
    typename Seam::Mutex lock_;    // among those who fail
    Plain<std::uint64_t> number_;  // plus one; 0: nothing has failed
    Plain<Failure> failure_;
};

}  // namespace whet::graph
