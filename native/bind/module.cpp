// The Python module whet._native: one submodule per native part, each bound in its own file.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

#ifdef WHET_BIND_field
void bind_field(nb::module_& m);
#endif
#ifdef WHET_BIND_curve
void bind_curve(nb::module_& m);
#endif
#ifdef WHET_BIND_graph
void bind_graph(nb::module_& m);
#endif
#ifdef WHET_BIND_msm
void bind_msm(nb::module_& m);
#endif
#ifdef WHET_BIND_decode
void bind_decode(nb::module_& m);
#endif

#if defined(__clang__)
#define WHET_COMPILER __VERSION__
#elif defined(__GNUC__)
#define WHET_COMPILER "GCC " __VERSION__
#else
#define WHET_COMPILER "unknown"
#endif

NB_MODULE(_native, m) {
    m.doc() = "Native core of whet";
    m.attr("compiler") = WHET_COMPILER;
#ifdef WHET_BIND_field
    auto field = m.def_submodule("field");
    bind_field(field);
#endif
#ifdef WHET_BIND_curve
    auto curve = m.def_submodule("curve");
    bind_curve(curve);
#endif
#ifdef WHET_BIND_graph
    auto graph = m.def_submodule("graph");
    bind_graph(graph);
#endif
#ifdef WHET_BIND_msm
    auto msm = m.def_submodule("msm");
    bind_msm(msm);
#endif
#ifdef WHET_BIND_decode
    auto decode = m.def_submodule("decode");
    bind_decode(decode);
#endif
}
