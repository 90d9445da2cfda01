// whet._native.graph.Runtime: waits, batches, scopes, and what there is to see. Single tasks go through Submitter.
#include "graph_runtime.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace whet::bind {

PyObject* status_error = nullptr;

namespace {

std::uint64_t whole(nb::handle number) { return nb::cast<std::uint64_t>(number); }

}  // namespace

void raise_status(const Status& status, const nb::object& cause) {
    const CodeText& text = text_of(status.code);
    const nb::tuple arguments =
        nb::make_tuple(text.name, text.cause, text.cure, status.detail, status.task, status.body_result, cause);
    PyErr_SetObject(status_error, arguments.ptr());
    throw nb::python_error();
}

void raise_status(const Status& status) { raise_status(status, nb::none()); }

void check(const Status& status) {
    if (!status.ok()) raise_status(status);
}

void describe(const nb::tuple& fields, TensorArg& tensor, View& view) {
    const auto shape = nb::cast<std::vector<std::int64_t>>(fields[3]);
    const auto strides = nb::cast<std::vector<std::int64_t>>(fields[4]);
    tensor.base = reinterpret_cast<void*>(whole(fields[0]));
    tensor.direction = static_cast<Direction>(nb::cast<int>(fields[5]));
    if (!fields[6].is_none()) tensor.made_by = whole(fields[6]);
    tensor.buffer_bytes = whole(fields[7]);
    if (tensor.direction == Direction::out) {
        tensor.fresh = true;
        tensor.bytes = tensor.buffer_bytes;
        return;
    }
    make_region(whole(fields[1]), whole(fields[2]), static_cast<int>(shape.size()), shape.data(), strides.data(), view,
                tensor.region);
}

}  // namespace whet::bind

void bind_graph_runtime(nb::module_& m) {
    using whet::bind::BoundRuntime;
    whet::bind::status_error = PyErr_NewException("whet._native.graph.StatusError", PyExc_RuntimeError, nullptr);
    m.attr("StatusError") = nb::borrow<nb::object>(whet::bind::status_error);
    nb::class_<whet::bind::OutputBlock>(m, "OutputBlock")
        .def_prop_ro("address", &whet::bind::OutputBlock::address)
        .def_prop_ro("bytes", &whet::bind::OutputBlock::bytes);
    nb::class_<whet::bind::Batch>(m, "Batch").def(nb::init<nb::dict>(), "arrays"_a);
    nb::class_<whet::bind::Rows>(m, "Rows").def(
        nb::init<std::size_t, whet::bind::Rows::Tensors, whet::bind::Rows::Words>(), "tasks"_a, "tensors"_a, "words"_a);
    nb::class_<BoundRuntime>(m, "Runtime", nb::is_weak_referenceable())
        .def(nb::init<nb::dict>(), "options"_a)
        .def("sketch", &BoundRuntime::sketch, "tensors"_a, "dependencies"_a)
        .def("submit_batch", &BoundRuntime::submit_batch, "batch"_a, "bodies"_a, "keep"_a)
        .def("submit_rows", &BoundRuntime::submit_rows, "rows"_a, "bodies"_a, "keep"_a)
        .def("allocate", &BoundRuntime::allocate, "bytes"_a)
        .def("wait_all", &BoundRuntime::wait_all, "timeout_ns"_a)
        .def("wait", &BoundRuntime::wait, "task"_a, "timeout_ns"_a)
        .def("wait_all_of", &BoundRuntime::wait_all_of, "tasks"_a, "timeout_ns"_a)
        .def("wait_any_of", &BoundRuntime::wait_any_of, "tasks"_a, "timeout_ns"_a)
        .def("look", &BoundRuntime::look, "tasks"_a)
        .def("state", &BoundRuntime::state, "task"_a)
        .def("listen", &BoundRuntime::listen, "tasks"_a, "timeout_ns"_a)
        .def("help", &BoundRuntime::help, "timeout_ns"_a)
        .def("cancel_these", &BoundRuntime::cancel_these, "tasks"_a)
        .def("cancel_one", &BoundRuntime::cancel_one, "task"_a)
        .def("shutdown", &BoundRuntime::shutdown, "timeout_ns"_a)
        .def("cancel", &BoundRuntime::cancel)
        .def("done", &BoundRuntime::done, "task"_a)
        .def("name_task", &BoundRuntime::name_task, "name"_a)
        .def("name_of", &BoundRuntime::name_of, "name"_a)
        .def("peaks", &BoundRuntime::peaks)
        .def("totals", &BoundRuntime::totals)
        .def("watchdog", &BoundRuntime::watchdog)
        .def("phases", &BoundRuntime::phases)
        .def("trace", &BoundRuntime::trace, "worker"_a)
        .def("edges", &BoundRuntime::edges)
        .def_prop_ro("errors_held", &BoundRuntime::errors_held)
        .def_prop_ro("workers", &BoundRuntime::workers)
        .def_prop_ro("next_id", &BoundRuntime::next_id);
    nb::class_<whet::bind::OpenScope>(m, "OpenScope")
        .def(nb::init<nb::object, bool>(), "runtime"_a, "manual"_a)
        .def("end", &whet::bind::OpenScope::end);
}
