// Python callables as task bodies, and the signals of the interpreter while a thread is away in the core.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

#include "interpreter_lock.hpp"

namespace whet::bind {

namespace nb = nanobind;

// Takes the exception that the interpreter has set, as an object with its traceback.
inline nb::object take_exception() {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return nb::steal<nb::object>(value);
}

// Lets Python handle Ctrl-C while the calling thread has the lock released. Asking costs a clock read; the lock is
// taken at most every 20 ms. After a handler raised, `raised` holds its exception.
class Signals {
  public:
    bool ask() {
        const auto now = std::chrono::steady_clock::now();
        if (now < next_) return false;
        next_ = now + std::chrono::milliseconds(20);
        return ask_now();
    }
    bool ask_now() {
        const Locked lock;
        if (PyErr_CheckSignals() == 0) return false;
        raised = take_exception();
        return true;
    }
    void raise() const {
        if (!raised.is_valid()) return;
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
        throw nb::python_error();
    }
    nb::object raised;

  private:
    std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
};

}  // namespace whet::bind
