// whet._native.graph.locate: which memory a numpy array is a view of, in the common case that arrays alone lead to it.
#include "graph_array.hpp"

#include <array>

namespace nb = nanobind;
using namespace nb::literals;

namespace whet::bind {

namespace {

struct Numpy {
    PyTypeObject* array = nullptr;  // numpy.ndarray
    bool known = false;             // its layout is as in ArrayHead

    Numpy() {
        const nb::module_ numpy = nb::module_::import_("numpy");
        array = reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr());
        const nb::object whole = numpy.attr("zeros")(nb::make_tuple(3, 5), "int32");
        const nb::object view = whole[nb::make_tuple(nb::slice(nb::int_(1), nb::none(), nb::none()), 2)];
        const nb::object fixed = numpy.attr("zeros")(3);
        fixed.attr("setflags")("write"_a = false);
        known = agrees(whole, nb::none()) && agrees(view, whole) && has(whole, kOwnsData) && !has(view, kOwnsData) &&
                has(whole, kWritable) && has(view, kWritable) && !has(fixed, kWritable);
    }

    static bool has(nb::handle array, int flag) { return (head_of(array.ptr()).flags & flag) != 0; }
    static bool agrees(nb::handle array, nb::handle base) {
        const ArrayHead& of = head_of(array.ptr());
        const auto shape = nb::cast<nb::tuple>(array.attr("shape"));
        const auto strides = nb::cast<nb::tuple>(array.attr("strides"));
        bool same = of.data == reinterpret_cast<char*>(nb::cast<std::uintptr_t>(array.attr("ctypes").attr("data"))) &&
                    of.dimensions == static_cast<int>(shape.size()) &&
                    of.base == (base.is_none() ? nullptr : base.ptr()) &&
                    of.type == nb::object(array.attr("dtype")).ptr();
        for (int axis = 0; same && axis < of.dimensions; ++axis) {
            same = of.shape[axis] == nb::cast<Py_ssize_t>(shape[axis]) &&
                   of.strides[axis] == nb::cast<Py_ssize_t>(strides[axis]);
        }
        return same;
    }
};

const Numpy& numpy() {
    static const Numpy found;
    return found;
}

nb::tuple numbers(const Py_intptr_t* from, int count) {
    nb::object made = nb::steal<nb::object>(PyTuple_New(count));
    for (int at = 0; at < count; ++at) PyTuple_SET_ITEM(made.ptr(), at, PyLong_FromSsize_t(from[at]));
    return nb::cast<nb::tuple>(made);
}

bool ask(PyObject* type, ItemType& answer) {
    const nb::object bytes = nb::steal<nb::object>(PyObject_GetAttrString(type, "itemsize"));
    const nb::object objects = nb::steal<nb::object>(PyObject_GetAttrString(type, "hasobject"));
    if (!bytes.is_valid() || !objects.is_valid()) return false;
    answer.bytes = PyLong_AsSsize_t(bytes.ptr());
    answer.has_objects = PyObject_IsTrue(objects.ptr()) == 1;
    return !PyErr_Occurred();
}

}  // namespace

bool is_array(PyObject* object) {
    const Numpy& known = numpy();
    return known.known && PyObject_TypeCheck(object, known.array);
}

bool is_plain_array(PyObject* object) { return Py_TYPE(object) == numpy().array; }

// The types in use are few and numpy keeps one object for each, so the last ones are remembered, and held.
bool item_type_of(PyObject* array, ItemType& type) {
    struct Entry {
        PyObject* of = nullptr;
        ItemType type;
    };
    static std::array<Entry, 16> known;
    PyObject* const of = head_of(array).type;
    Entry& entry = known[(reinterpret_cast<std::uintptr_t>(of) >> 5) % known.size()];
    if (entry.of != of) {
        ItemType asked;
        if (!ask(of, asked)) return false;
        PyObject* const old = entry.of;
        Py_INCREF(of);
        entry = {of, asked};
        Py_XDECREF(old);
        type = asked;
        return true;
    }
    type = entry.type;
    return true;
}

bool locate(PyObject* array, Located& found) {
    if (!is_array(array)) return false;
    const ArrayHead& of = head_of(array);
    PyObject* owner = array;
    while (head_of(owner).base != nullptr) {
        owner = head_of(owner).base;
        if (!is_array(owner)) return false;
    }
    const ArrayHead& whole = head_of(owner);
    ItemType item;
    ItemType item_of_whole;
    if ((whole.flags & kOwnsData) == 0 || !item_type_of(array, item)) return false;
    if (whole.type == of.type) {
        item_of_whole = item;
    } else if (!item_type_of(owner, item_of_whole)) {
        return false;
    }
    Py_ssize_t bytes = item_of_whole.bytes;
    for (int axis = 0; axis < whole.dimensions; ++axis) bytes *= whole.shape[axis];
    Py_ssize_t low = of.data - whole.data;
    Py_ssize_t high = low + item.bytes;
    for (int axis = 0; axis < of.dimensions; ++axis) {
        if (of.shape[axis] == 0) return false;
        const Py_ssize_t reach = (of.shape[axis] - 1) * of.strides[axis];
        (reach < 0 ? low : high) += reach;
    }
    if (low < 0 || high > bytes) return false;
    found = {whole.data, bytes, item.bytes};
    return true;
}

}  // namespace whet::bind

namespace {

// (base, offset, item bytes, shape, strides, bytes of the buffer) or None.
nb::object located(nb::handle array) {
    whet::bind::Located found;
    if (!whet::bind::locate(array.ptr(), found)) {
        if (PyErr_Occurred()) throw nb::python_error();
        return nb::none();
    }
    const whet::bind::ArrayHead& of = whet::bind::head_of(array.ptr());
    return nb::make_tuple(reinterpret_cast<std::uintptr_t>(found.base), of.data - found.base, found.item_bytes,
                          whet::bind::numbers(of.shape, of.dimensions), whet::bind::numbers(of.strides, of.dimensions),
                          found.bytes);
}

}  // namespace

void bind_graph_array(nb::module_& m) { m.def("locate", &located, "array"_a); }
