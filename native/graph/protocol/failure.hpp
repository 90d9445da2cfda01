// What is known of a task that failed or was cancelled, as whoever waits for it is told. Outcomes keeps them.
#pragma once

#include <cstdint>
#include <string>

namespace whet::graph {

inline constexpr const char* kEndedThread = "the body ended its thread";
inline constexpr const char* kUnknownException = "an exception that is no std::exception";

struct Failure {
    int result = 0;          // what the body returned
    std::uint32_t name = 0;  // of the task
    bool cancelled = false;  // it did not run
    std::string message{};   // instead of a result
};

}  // namespace whet::graph
