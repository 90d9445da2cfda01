// The interpreter lock, taken and given up so that the interpreter's end harms nobody.
//
// Up to Python 3.13 a thread that comes for the lock while the interpreter ends is unwound by pthread_exit. Frames that
// cannot be unwound, such as destructors and what the core calls, would end the process with it: a thread of a user's
// that is inside of any call here when the main thread returns. It is held instead until the process is gone.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace whet::bind {

inline bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

// Runs what needs the interpreter. Held inside of the handler: whoever leaves it without passing the unwinding on is
// ended by the C library.
template <class Call>
auto hold_at_exit(Call&& call) {
    try {
        return std::forward<Call>(call)();
    } catch (const abi::__forced_unwind&) {
        for (;;) pause();
    }
}

// Has the lock while it lives.
class Locked {
  public:
    Locked() : state_(hold_at_exit([] { return PyGILState_Ensure(); })) {}
    ~Locked() { PyGILState_Release(state_); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

  private:
    const PyGILState_STATE state_;
};

// Has given the lock up while it lives.
class Unlocked {
  public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked() {
        hold_at_exit([this] { PyEval_RestoreThread(state_); });
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

  private:
    PyThreadState* const state_;
};

}  // namespace whet::bind
