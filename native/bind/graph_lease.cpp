#include "graph_lease.hpp"

#include <chrono>

#include "interpreter_lock.hpp"

namespace whet::bind {

namespace {

PyThreadState* current_state() {
#if PY_VERSION_HEX >= 0x030d0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

bool has_lock() {
    PyThreadState* const mine = PyGILState_GetThisThreadState();
    return mine != nullptr && current_state() == mine;
}

// A thread that the interpreter did not know before keeps the state that it got with its first body: making one for
// every body costs more than the body, and what bodies keep in threading.local() would be lost each time.
struct Own {
    PyThreadState* state = nullptr;
    std::chrono::steady_clock::time_point since{};  // when it was taken
    // A body may wait in another runtime, which gives the lock up and takes it again for its own bodies.
    unsigned taken = 0;

    ~Own() {
        if (state == nullptr || is_finalizing()) return;
        hold_at_exit([this] {
            PyEval_RestoreThread(state);
            PyGILState_Release(PyGILState_UNLOCKED);
            return 0;
        });
    }
};
thread_local Own own;

}  // namespace

void Lease::take() {
    if (has_lock()) return;
    if (own.state != nullptr) {
        PyEval_RestoreThread(own.state);
    } else {
        const bool is_new = PyGILState_GetThisThreadState() == nullptr;
        (void)PyGILState_Ensure();
        if (is_new) own.state = PyGILState_GetThisThreadState();
    }
    ++own.taken;
    own.since = std::chrono::steady_clock::now();
}

void Lease::give_after_long() {
    constexpr std::chrono::milliseconds kLong{1};
    if (std::chrono::steady_clock::now() - own.since > kLong) give();
}

void Lease::give() {
    if (own.taken == 0 || !has_lock()) return;
    --own.taken;
    if (own.state != nullptr) {
        PyEval_SaveThread();
    } else {
        PyGILState_Release(PyGILState_UNLOCKED);
    }
}

}  // namespace whet::bind
