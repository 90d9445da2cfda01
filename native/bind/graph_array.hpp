// numpy arrays as the runtime sees them, read without a call into numpy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace whet::bind {

// The beginning of every numpy array, part of numpy's public binary interface since its first version. What is read
// through it is compared with what Python says, once, before it is used.
struct ArrayHead {
    PyObject_HEAD char* data;
    int dimensions;
    Py_intptr_t* shape;
    Py_intptr_t* strides;
    PyObject* base;
    PyObject* type;
    int flags;
};
inline constexpr int kOwnsData = 0x0004;
inline constexpr int kWritable = 0x0400;

// An array of any kind, whose head can be read.
bool is_array(PyObject* object);
// An array of numpy's own kind, which nobody has derived from.
bool is_plain_array(PyObject* object);
inline ArrayHead& head_of(PyObject* array) { return *reinterpret_cast<ArrayHead*>(array); }

struct ItemType {
    Py_ssize_t bytes = 0;
    bool has_objects = false;
};
// False with an exception set.
bool item_type_of(PyObject* array, ItemType& type);

// The memory behind an array.
struct Located {
    char* base = nullptr;
    Py_ssize_t bytes = 0;
    Py_ssize_t item_bytes = 0;
};
// False where something else than arrays is at the end, the array reaches beyond what it is said to be a view of, or it
// has no items; or with an exception set.
bool locate(PyObject* array, Located& found);

}  // namespace whet::bind
