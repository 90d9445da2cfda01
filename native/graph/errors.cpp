#include "graph/errors.hpp"

#include <cstddef>

namespace whet::graph {

namespace {

constexpr CodeText kTexts[static_cast<std::size_t>(Code::count_)] = {
    {"ok", "", ""},
    {"bad_argument", "an argument is out of range", "see the detail for the argument and its range"},
    {"window_deadlock", "the task window is full and no task in it can be retired",
     "raise window, end the scope earlier, or use retain=consumers"},
    {"heap_deadlock", "the output heap is full and nothing in it can be freed",
     "raise heap_bytes, end the scope earlier, or use retain=consumers"},
    {"tensormap_deadlock", "the tensor map is full with the regions of one task", "raise tensormap_capacity"},
    {"output_too_large", "the outputs of one task are larger than the whole output heap", "raise heap_bytes"},
    {"too_many_tensors", "a task has more than 65535 tensors", "split the task"},
    {"output_retired", "an output is used after the runtime has reclaimed it",
     "use it inside the scope it was made in with retain=scope, or submit its consumers earlier"},
    {"unknown_task", "a dependency names a task that was never submitted", "pass identifiers that submit returned"},
    {"scope_mismatch", "scopes do not nest",
     "end scopes in the reverse order of their beginning; no auto scope in a manual one"},
    {"nested_submit", "a task body waits for the runtime that runs it, or submits many tasks at once to it",
     "let it submit single tasks, and wait from the thread that owns the runtime"},
    {"task_failed", "a task failed", "see the task's own error; its dependents were cancelled"},
    {"cancelled", "tasks were cancelled before they began", "submit them again if they are wanted"},
    {"timed_out", "the wait ended before the tasks did", "wait longer; the watchdog names what is running"},
    {"stalled", "no task runs, none is ready, and some are not done",
     "see the detail for the tasks and their producers"},
    {"forked", "the runtime was made before a fork and its workers are not in this process",
     "make a runtime in the child"},
    {"shut_down", "the runtime has been shut down", "make another one"},
    {"interrupted", "the wait was interrupted", "what had not begun was cancelled; submit it again if it is wanted"},
    {"outcome_forgotten", "more than a million tasks have failed since, and this task's outcome was dropped",
     "ask for a task's outcome while it is among the newest million failures"},
};

}  // namespace

const CodeText& text_of(Code code) { return kTexts[static_cast<std::size_t>(code)]; }

}  // namespace whet::graph
