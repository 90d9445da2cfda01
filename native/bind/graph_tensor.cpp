// whet._native.graph.Tensor and what makes one: In, InOut, OutExisting, NoDep; and Body.
#include "graph_array.hpp"
#include "graph_objects.hpp"

namespace whet::bind {

PyTypeObject* tensor_type = nullptr;
PyTypeObject* body_type = nullptr;
Face face;

PyObject* refuse(const char* cause, const char* cure) {
    const nb::object nothing = nb::steal<nb::object>(PyObject_CallFunction(face.refuse, "ss", cause, cure));
    if (nothing.is_valid()) PyErr_SetString(PyExc_SystemError, "refuse() did not raise");
    return nullptr;
}

namespace {

PyObject* new_tensor(graph::Direction direction, PyObject* array, PyObject* shape, PyObject* dtype) {
    auto* made = PyObject_GC_New(TensorObject, tensor_type);
    if (made == nullptr) return nullptr;
    Py_XINCREF(array);
    Py_XINCREF(shape);
    Py_XINCREF(dtype);
    made->array = array;
    made->shape = shape;
    made->dtype = dtype;
    made->direction = static_cast<std::uint8_t>(direction);
    // A plain array leads nowhere that could lead back here.
    if (array != nullptr && !is_plain_array(array)) PyObject_GC_Track(made);
    return reinterpret_cast<PyObject*>(made);
}

// An array with a direction. What is no array, or may not be written, is for Python to judge.
template <graph::Direction kDirection, bool kWrites>
PyObject* directed(const char* how, PyObject* given) {
    ItemType item;
    if (is_array(given) && item_type_of(given, item) && !item.has_objects &&
        (!kWrites || (head_of(given).flags & kWritable) != 0)) {
        return new_tensor(kDirection, given, nullptr, nullptr);
    }
    if (PyErr_Occurred()) return nullptr;
    const nb::object array =
        nb::steal<nb::object>(PyObject_CallFunction(face.array_of, "OsO", given, how, kWrites ? Py_True : Py_False));
    return array.is_valid() ? new_tensor(kDirection, array.ptr(), nullptr, nullptr) : nullptr;
}

PyObject* make_in(PyObject*, PyObject* given) { return directed<graph::Direction::in, false>("In", given); }
PyObject* make_inout(PyObject*, PyObject* given) { return directed<graph::Direction::inout, true>("InOut", given); }
PyObject* make_out_existing(PyObject*, PyObject* given) {
    return directed<graph::Direction::out_existing, true>("OutExisting", given);
}
PyObject* make_no_dep(PyObject*, PyObject* given) { return directed<graph::Direction::nodep, false>("NoDep", given); }

PyObject* tensor_new(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"direction", "array", "shape", "dtype", nullptr};
    int direction = 0;
    PyObject *array = Py_None, *shape = nullptr, *dtype = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "i|OO!O", const_cast<char**>(names), &direction, &array,
                                     &PyTuple_Type, &shape, &dtype)) {
        return nullptr;
    }
    if (direction < 0 || direction > static_cast<int>(graph::Direction::nodep)) {
        PyErr_SetString(PyExc_ValueError, "there is no such direction");
        return nullptr;
    }
    const auto which = static_cast<graph::Direction>(direction);
    if (array != Py_None && !is_array(array)) {
        PyErr_SetString(PyExc_TypeError, "a tensor is over a numpy array");
        return nullptr;
    }
    if ((array == Py_None) != (which == graph::Direction::out)) {
        PyErr_SetString(PyExc_ValueError, "what is allocated has no array, everything else has one");
        return nullptr;
    }
    return new_tensor(which, array == Py_None ? nullptr : array, shape, dtype == Py_None ? nullptr : dtype);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
    auto& tensor = as<TensorObject>(self);
    Py_VISIT(tensor.array);
    Py_VISIT(tensor.shape);
    Py_VISIT(tensor.dtype);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

int tensor_clear(PyObject* self) {
    auto& tensor = as<TensorObject>(self);
    Py_CLEAR(tensor.array);
    Py_CLEAR(tensor.shape);
    Py_CLEAR(tensor.dtype);
    return 0;
}

void tensor_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    tensor_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyObject* or_none(PyObject* object) {
    PyObject* const answer = object != nullptr ? object : Py_None;
    Py_INCREF(answer);
    return answer;
}

PyObject* tensor_array(PyObject* self, void*) { return or_none(as<TensorObject>(self).array); }
PyObject* tensor_dtype(PyObject* self, void*) { return or_none(as<TensorObject>(self).dtype); }
PyObject* tensor_shape(PyObject* self, void*) {
    PyObject* const shape = as<TensorObject>(self).shape;
    return shape == nullptr ? PyTuple_New(0) : or_none(shape);
}
PyObject* tensor_direction(PyObject* self, void*) {
    const std::uint8_t direction = as<TensorObject>(self).direction;
    if (face.directions == nullptr) return PyLong_FromLong(direction);
    return or_none(PyTuple_GetItem(face.directions, direction));
}
// How much there is to allocate.
PyObject* tensor_nbytes(PyObject* self, void*) {
    const auto& tensor = as<TensorObject>(self);
    if (tensor.dtype == nullptr) return PyLong_FromLong(0);
    nb::object bytes = nb::steal<nb::object>(PyObject_GetAttrString(tensor.dtype, "itemsize"));
    const Py_ssize_t axes = tensor.shape == nullptr ? 0 : PyTuple_GET_SIZE(tensor.shape);
    for (Py_ssize_t axis = 0; bytes.is_valid() && axis < axes; ++axis) {
        bytes = nb::steal<nb::object>(PyNumber_Multiply(bytes.ptr(), PyTuple_GET_ITEM(tensor.shape, axis)));
    }
    return bytes.release().ptr();
}

PyGetSetDef tensor_fields[] = {
    {"direction", tensor_direction, nullptr, "what the task does with it", nullptr},
    {"array", tensor_array, nullptr, "the array, None if it is to be allocated", nullptr},
    {"shape", tensor_shape, nullptr, "of what is to be allocated", nullptr},
    {"dtype", tensor_dtype, nullptr, "of what is to be allocated", nullptr},
    {"nbytes", tensor_nbytes, nullptr, "how much there is to allocate", nullptr},
    {},
};
PyType_Slot tensor_slots[] = {
    {Py_tp_doc, const_cast<char*>("One tensor argument. Make it with In, InOut, OutExisting, NoDep or Out.")},
    {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
    {Py_tp_getset, tensor_fields},
    {0, nullptr},
};
PyType_Spec tensor_spec{"whet._native.graph.Tensor", sizeof(TensorObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                        tensor_slots};

int body_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(as<BodyObject>(self).name);
    Py_VISIT(as<BodyObject>(self).keep);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

int body_clear(PyObject* self) {
    Py_CLEAR(as<BodyObject>(self).name);
    Py_CLEAR(as<BodyObject>(self).keep);
    return 0;
}

void body_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    body_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* body_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"name", "address", "user", "keep", "built_in", nullptr};
    PyObject *name = nullptr, *keep = nullptr;
    unsigned long long address = 0;
    unsigned long long user = 0;
    int built_in = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "UK|KO!p", const_cast<char**>(names), &name, &address, &user,
                                     &PyTuple_Type, &keep, &built_in)) {
        return nullptr;
    }
    nb::object held = keep != nullptr ? nb::borrow<nb::object>(keep) : nb::steal<nb::object>(PyTuple_New(0));
    PyObject* const self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    auto& body = as<BodyObject>(self);
    Py_INCREF(name);
    body.name = name;
    body.keep = held.release().ptr();
    body.address = address;
    body.user = user;
    body.built_in = built_in != 0;
    return self;
}

PyMemberDef body_fields[] = {
    {"name", T_OBJECT_EX, offsetof(BodyObject, name), READONLY, nullptr},
    {"keep", T_OBJECT_EX, offsetof(BodyObject, keep), READONLY, nullptr},
    {"address", T_ULONGLONG, offsetof(BodyObject, address), READONLY, nullptr},
    {"user", T_ULONGLONG, offsetof(BodyObject, user), READONLY, nullptr},
    {"built_in", T_BOOL, offsetof(BodyObject, built_in), READONLY, nullptr},
    {},
};
PyType_Slot body_slots[] = {
    {Py_tp_doc, const_cast<char*>("The fields of a native function that is a task body.")},
    {Py_tp_new, reinterpret_cast<void*>(body_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(body_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(body_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(body_clear)},
    {Py_tp_members, body_fields},
    {0, nullptr},
};
PyType_Spec body_spec{"whet._native.graph.Body", sizeof(BodyObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, body_slots};

PyMethodDef makers[] = {
    {"In", make_in, METH_O, "The task reads it."},
    {"InOut", make_inout, METH_O, "The task reads and writes it."},
    {"OutExisting", make_out_existing, METH_O, "The task overwrites it without reading."},
    {"NoDep", make_no_dep, METH_O, "Passed on without being tracked; only the task that allocated it is waited for."},
    {},
};

// Takes what Python provides, piece by piece as its modules are loaded.
void configure(const nb::kwargs& given) {
    const std::pair<const char*, PyObject**> places[] = {
        {"refuse", &face.refuse},     {"raise_for", &face.raise_for},     {"array_of", &face.array_of},
        {"describe", &face.describe}, {"output", &face.output},           {"resolve", &face.resolve},
        {"name_of", &face.name_of},   {"scalar_word", &face.scalar_word}, {"directions", &face.directions},
        {"task", &face.task},         {"function", &face.function},       {"note", &face.note},
    };
    for (const auto& [name, place] : places) {
        if (!given.contains(name)) continue;
        PyObject* const old = *place;
        *place = nb::object(given[name]).release().ptr();
        Py_XDECREF(old);
    }
}

}  // namespace

// An In argument is a view that cannot be written, whatever the array allows.
PyObject* for_body(const TensorObject& tensor) {
    PyObject* const array = tensor.array;
    if (tensor.direction != static_cast<std::uint8_t>(graph::Direction::in)) {
        Py_INCREF(array);
        return array;
    }
    static PyObject* const view_name = PyUnicode_InternFromString("view");
    PyObject* const view = PyObject_CallMethodNoArgs(array, view_name);
    if (view != nullptr && is_array(view)) head_of(view).flags &= ~kWritable;
    return view;
}

}  // namespace whet::bind

void bind_graph_tensor(nanobind::module_& m) {
    namespace nb = nanobind;
    using namespace whet::bind;
    tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&tensor_spec));
    body_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&body_spec));
    if (tensor_type == nullptr || body_type == nullptr) throw nb::python_error();
    m.attr("Tensor") = nb::borrow<nb::object>(reinterpret_cast<PyObject*>(tensor_type));
    m.attr("Body") = nb::borrow<nb::object>(reinterpret_cast<PyObject*>(body_type));
    if (PyModule_AddFunctions(m.ptr(), makers) != 0) throw nb::python_error();
    m.def("configure", &configure);
    m.def("for_body", [](nb::handle tensor) {
        if (!is_tensor(tensor.ptr()) || as<TensorObject>(tensor.ptr()).array == nullptr)
            throw nb::type_error("for_body");
        nb::object made = nb::steal<nb::object>(for_body(as<TensorObject>(tensor.ptr())));
        if (!made.is_valid()) throw nb::python_error();
        return made;
    });
}
