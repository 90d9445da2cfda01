// whet._native.graph.locate: which memory a numpy array is a view of, in the common case that arrays alone lead to it.
#include <nanobind/nanobind.h>

#include <cstdint>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

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
constexpr int kOwnsData = 0x0004;

struct Numpy {
    PyObject* array = nullptr;  // numpy.ndarray
    bool known = false;         // its layout is as above

    Numpy() {
        const nb::module_ numpy = nb::module_::import_("numpy");
        array = nb::object(numpy.attr("ndarray")).release().ptr();
        const nb::object whole = numpy.attr("zeros")(nb::make_tuple(3, 5), "int32");
        const nb::object view = whole[nb::make_tuple(nb::slice(nb::int_(1), nb::none(), nb::none()), 2)];
        known = agrees(whole, nb::none()) && agrees(view, whole) && owns(whole) && !owns(view);
    }

    static const ArrayHead& head(nb::handle array) { return *reinterpret_cast<const ArrayHead*>(array.ptr()); }
    static bool owns(nb::handle array) { return (head(array).flags & kOwnsData) != 0; }
    static bool agrees(nb::handle array, nb::handle base) {
        const ArrayHead& of = head(array);
        const auto shape = nb::cast<nb::tuple>(array.attr("shape"));
        const auto strides = nb::cast<nb::tuple>(array.attr("strides"));
        bool same = of.data == reinterpret_cast<char*>(nb::cast<std::uintptr_t>(array.attr("ctypes").attr("data"))) &&
                    of.dimensions == static_cast<int>(shape.size()) &&
                    of.base == (base.is_none() ? nullptr : base.ptr());
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

// (base, offset, item bytes, shape, strides, bytes of the buffer), or None where something else than arrays is at the
// end, or the array reaches beyond what it is said to be a view of.
nb::object locate(nb::handle array) {
    const Numpy& known = numpy();
    const auto is_array = [&](PyObject* object) {
        return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(known.array));
    };
    if (!known.known || !is_array(array.ptr())) return nb::none();
    const ArrayHead& of = Numpy::head(array);
    nb::handle owner = array;
    while (Numpy::head(owner).base != nullptr) {
        owner = Numpy::head(owner).base;
        if (!is_array(owner.ptr())) return nb::none();
    }
    if (!Numpy::owns(owner)) return nb::none();
    const auto item_bytes = nb::cast<Py_ssize_t>(array.attr("itemsize"));
    const auto nbytes = nb::cast<Py_ssize_t>(owner.attr("nbytes"));
    const char* const base = Numpy::head(owner).data;
    Py_ssize_t low = of.data - base;
    Py_ssize_t high = low + item_bytes;
    for (int axis = 0; axis < of.dimensions; ++axis) {
        if (of.shape[axis] == 0) return nb::none();
        const Py_ssize_t reach = (of.shape[axis] - 1) * of.strides[axis];
        (reach < 0 ? low : high) += reach;
    }
    if (low < 0 || high > nbytes) return nb::none();
    return nb::make_tuple(reinterpret_cast<std::uintptr_t>(base), of.data - base, item_bytes,
                          numbers(of.shape, of.dimensions), numbers(of.strides, of.dimensions), nbytes);
}

}  // namespace

void bind_graph_array(nb::module_& m) { m.def("locate", &locate, "array"_a); }
