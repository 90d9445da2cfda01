// Python integers to limbs, without a Python object for each step. What is not as expected is left to the caller: the
// result says how many elements were converted, and the element after them is the one to complain about.
#include <algorithm>
#include <memory>

#include "bind/arrays.hpp"

namespace nb = nanobind;
using namespace whet::bind;

namespace {

constexpr std::size_t number_bytes = 32;

// A new reference to the integer that `item` is or stands for; null, with no error set, where it is none. Ctrl-C in the
// caller's own conversion is no error of the item.
PyObject* integer_of(PyObject* item) {
    if (PyLong_Check(item)) return Py_NewRef(item);
    PyObject* const integer = PyNumber_Index(item);
    if (integer == nullptr) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
        PyErr_Clear();
    }
    return integer;
}

// 32 bytes, little-endian; false, with no error set, for what is negative or does not fit.
bool write_integer(PyObject* integer, unsigned char* to) {
#if PY_VERSION_HEX >= 0x030D0000
    constexpr int flags =
        Py_ASNATIVEBYTES_LITTLE_ENDIAN | Py_ASNATIVEBYTES_UNSIGNED_BUFFER | Py_ASNATIVEBYTES_REJECT_NEGATIVE;
    const Py_ssize_t needed = PyLong_AsNativeBytes(integer, to, number_bytes, flags);
    const bool fits = needed >= 0 && needed <= static_cast<Py_ssize_t>(number_bytes);
#else
    const bool fits = _PyLong_AsByteArray(reinterpret_cast<PyLongObject*>(integer), to, number_bytes, 1, 0) == 0;
#endif
    if (!fits) PyErr_Clear();
    return fits;
}

bool write_item(PyObject* item, unsigned char* to) {
    const nb::object integer = nb::steal(integer_of(item));
    return integer.is_valid() && write_integer(integer.ptr(), to);
}

// One item may run code of its own that changes the list: its length is asked for each time, and items are held.
template <class Write>
nb::tuple convert(const nb::sequence& given, std::size_t numbers, Write&& write) {
    const nb::object items = nb::steal(PySequence_Fast(given.ptr(), "not a sequence"));
    if (!items.is_valid()) throw nb::python_error();
    const auto length = [&] { return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr())); };
    const std::size_t n = length();
    auto limbs = std::make_unique<std::uint64_t[]>(std::max<std::size_t>(4 * numbers * n, 1));
    auto* const bytes = reinterpret_cast<unsigned char*>(limbs.get());
    std::size_t done = 0;
    while (done < n && done < length()) {
        const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(done)));
        if (!write(item.ptr(), bytes + done * numbers * number_bytes)) break;
        ++done;
    }
    std::uint64_t* const data = limbs.release();
    const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::uint64_t*>(p); });
    const nb::ndarray<nb::numpy, std::uint64_t> rows(data, {n, 4 * numbers}, owner);
    return nb::make_tuple(rows, done);
}

nb::tuple integers(const nb::sequence& given) { return convert(given, 1, write_item); }

// (x, y) as tuple or list; None is infinity.
bool write_pair(PyObject* item, unsigned char* to) {
    if (item == Py_None) {
        std::fill_n(to, 2 * number_bytes, static_cast<unsigned char>(0));
        return true;
    }
    if (!(PyTuple_CheckExact(item) || PyList_CheckExact(item)) || PySequence_Fast_GET_SIZE(item) != 2) return false;
    const nb::object x = nb::borrow(PySequence_Fast_GET_ITEM(item, 0)),
                     y = nb::borrow(PySequence_Fast_GET_ITEM(item, 1));
    return write_item(x.ptr(), to) && write_item(y.ptr(), to + number_bytes);
}

nb::tuple pairs(const nb::sequence& given) { return convert(given, 2, write_pair); }

}  // namespace

void bind_msm_integers(nb::module_& m) {
    m.def("integers", integers, nb::arg("items"),
          "((n, 4) limbs, how many were converted): non-negative integers below 2^256.");
    m.def("pairs", pairs, nb::arg("items"), "((n, 8) limbs, how many were converted): pairs of such, None as zeros.");
}
