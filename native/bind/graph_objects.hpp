// The Python types of a submission, as plain CPython types: a call on them costs a fifth of one through nanobind, and a
// program makes several of them per task. Their fields are touched with the interpreter lock held.
#pragma once

#include <nanobind/nanobind.h>
#include <structmember.h>

#include <cstdint>
#include <memory>

#include "graph/runtime.hpp"

namespace whet::bind {

namespace nb = nanobind;

// A tensor argument: an array with a direction, or a shape and a type that the runtime allocates.
struct TensorObject {
    PyObject_HEAD PyObject* array;  // null: to be allocated
    PyObject* shape;                // of what is allocated, a tuple
    PyObject* dtype;
    std::uint8_t direction;
};

// A native function as a task body. `keep` is what must stay alive for `address` and `user` to be good.
struct BodyObject {
    PyObject_HEAD PyObject* name;
    PyObject* keep;
    unsigned long long address;
    unsigned long long user;
    bool built_in;
};

class BodyErrors;

// A Python body with its arguments. Of another task among them only its call is held: the task would keep its runtime.
struct CallObject {
    PyObject_HEAD PyObject* body;
    PyObject* arguments;  // a tuple
    PyObject* outputs;    // a tuple of arrays, or null
    PyObject* value;
    PyObject* error;
    graph::TaskId number;  // set before anybody can run it
    std::uint64_t serial;  // of its runtime
    bool begun;            // or dropped: whoever sets it decides whether the body runs
    bool dropped;
    std::shared_ptr<BodyErrors> errors;
};

// A submitted task as Python holds it; the class in Python adds what a future can do.
struct TaskObject {
    PyObject_HEAD PyObject* runtime;
    PyObject* name;
    PyObject* outputs;   // a tuple
    PyObject* call;      // None for native bodies
    PyObject* standard;  // what concurrent.futures looks at, once it does; null before
    bool withdrawn;      // cancelled before a native body began
    unsigned long long id;
};

extern PyTypeObject* tensor_type;
extern PyTypeObject* body_type;
extern PyTypeObject* call_type;
extern PyTypeObject* task_type;

template <class Object>
Object& as(PyObject* object) {
    return *reinterpret_cast<Object*>(object);
}
inline bool is_tensor(PyObject* object) { return PyObject_TypeCheck(object, tensor_type); }
inline bool is_task(PyObject* object) { return PyObject_TypeCheck(object, task_type); }
inline bool is_body(PyObject* object) { return PyObject_TypeCheck(object, body_type); }

// What stands in Python and is called from here: errors are made there, and so is what is rare. See configure().
struct Face {
    PyObject* refuse = nullptr;       // (cause, cure): raises BadInput
    PyObject* raise_for = nullptr;    // (status): raises what it means
    PyObject* array_of = nullptr;     // (anything, name of the direction) -> array
    PyObject* describe = nullptr;     // (array, serial) -> what `locate` does not find
    PyObject* output = nullptr;       // (tensor, block, serial) -> array over the block
    PyObject* resolve = nullptr;      // body of any maker -> Body, callable or None
    PyObject* name_of = nullptr;      // body -> text
    PyObject* scalar_word = nullptr;  // anything -> 64 bits
    PyObject* directions = nullptr;   // tuple of the members of Direction
    PyObject* task = nullptr;         // the class of tasks
    PyObject* function = nullptr;     // the class that @task makes
    PyObject* note = nullptr;         // (runtime, task, (body, arguments, scalars, before)): for the recording
};
extern Face face;

// Raises BadInput; always null.
PyObject* refuse(const char* cause, const char* cure);

PyObject* new_call(PyObject* body, PyObject* arguments, PyObject* outputs, std::uint64_t serial,
                   std::shared_ptr<BodyErrors> errors);
PyObject* new_task(PyObject* runtime, graph::TaskId id, PyObject* name, PyObject* outputs, PyObject* call);

// What a Python body gets for a tensor that has an array: a new reference; for `in` a view that it cannot write.
PyObject* for_body(const TensorObject& tensor);

}  // namespace whet::bind
