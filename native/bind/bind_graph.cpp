// whet._native.graph: the parts of the runtime, each bound in a file of its own, and the table of built-in kernels.
#include <nanobind/nanobind.h>

#include "graph/kernels/kernels.hpp"

namespace nb = nanobind;

void bind_graph_array(nb::module_& m);
void bind_graph_replay(nb::module_& m);
void bind_graph_runtime(nb::module_& m);
void bind_graph_submit(nb::module_& m);
void bind_graph_task(nb::module_& m);
void bind_graph_tensor(nb::module_& m);

void bind_graph(nb::module_& m) {
    // An exception that the interpreter keeps to its end (sys.last_value) keeps runtimes alive through its traceback;
    // that is no leak of ours. tests/graph/test_graph_face_faults.py counts threads back to zero instead.
    nb::set_leak_warnings(false);
    bind_graph_array(m);
    bind_graph_replay(m);
    bind_graph_runtime(m);
    bind_graph_tensor(m);
    bind_graph_task(m);
    bind_graph_submit(m);
    nb::list table;
    for (const whet::graph::Kernel& kernel : whet::graph::kernels()) {
        table.append(
            nb::make_tuple(kernel.name, reinterpret_cast<std::uintptr_t>(kernel.call), kernel.tensors, kernel.scalars));
    }
    m.attr("KERNELS") = table;
}
