// Every way in which the runtime can refuse or fail, and for each the cause and the cure in words.
#pragma once

#include <cstdint>
#include <string>

namespace whet::graph {

enum class Code : std::uint8_t {
    ok,
    bad_argument,
    window_deadlock,
    heap_deadlock,
    tensormap_deadlock,
    output_too_large,
    too_many_tensors,
    output_retired,
    unknown_task,
    scope_mismatch,
    nested_submit,
    task_failed,
    cancelled,
    timed_out,
    stalled,
    forked,
    shut_down,
    interrupted,
    outcome_forgotten,
    count_,
};

struct CodeText {
    const char* name;
    const char* cause;
    const char* cure;
};
const CodeText& text_of(Code code);

// What a call returns. `detail` names tasks, ring and occupancy; it is empty when the code says it all.
struct [[nodiscard]] Status {
    Code code = Code::ok;
    std::uint64_t task = 0;  // the task concerned, where there is one
    int body_result = 0;     // task_failed: what the body returned
    std::string detail{};

    bool ok() const { return code == Code::ok; }
};

}  // namespace whet::graph
