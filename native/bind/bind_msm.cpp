// whet._native.msm: the reference algorithms. Points as in whet._native.curve; scalars (n, 4) plain limbs, any integers
// below 2^256. A result is ((8,) canonical limbs, work counters).
#include "bind/arrays.hpp"
#include "bind/interpreter_lock.hpp"
#include "bind/signal_watch.hpp"
#include "curve/batch.hpp"
#include "msm/reference.hpp"

namespace nb = nanobind;
using namespace whet;
using namespace whet::bind;

namespace {

using Points = Rows<8>;
using Scalars = Rows<4>;

template <class Function>
nb::tuple compute(const Points& points, const Scalars& scalars, Function&& function) {
    const auto p = elements<G1Affine>(points);
    const auto k = elements<Scalar256>(scalars);
    require_same_length(p, k);
    Output<Limbs<8>> out(1);
    MsmWork work;
    SignalWatch signals;
    if (constexpr std::size_t few = 64; p.size() > few) signals.start();
    const Pause pause = [&signals] {
        if (!signals.started() || !signals.arrived()) return;
        const Locked locked;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        signals.renew();
    };
    {
        const Unlocked unlocked;
        const G1Jacobian sum = function(p, k, work, pause);
        const G1Affine result = sum.affine();
        write_points({&result, 1}, out.span());
    }
    nb::dict counters;
    counters["additions"] = work.additions;
    counters["doublings"] = work.doublings;
    counters["window_bits"] = work.window_bits;
    counters["windows"] = work.windows;
    return nb::make_tuple(out.release(), counters);
}

nb::tuple plain(const Points& points, const Scalars& scalars) { return compute(points, scalars, msm_plain); }

nb::tuple pippenger(const Points& points, const Scalars& scalars, unsigned window_bits, bool glv) {
    if (window_bits > max_window_bits) throw nb::value_error("window_bits is above 20");
    return compute(points, scalars, [&](auto p, auto k, MsmWork& work, const Pause& pause) {
        return msm_pippenger(p, k, {.window_bits = window_bits, .glv = glv, .pause = pause}, work);
    });
}

}  // namespace

void bind_msm_engine(nb::module_& m);
void bind_msm_integers(nb::module_& m);

void bind_msm(nb::module_& m) {
    bind_msm_engine(m);
    bind_msm_integers(m);
    m.def("plain", plain, nb::arg("points"), nb::arg("scalars"));
    m.def("pippenger", pippenger, nb::arg("points"), nb::arg("scalars"), nb::arg("window_bits") = 0,
          nb::arg("glv") = false);
    m.attr("max_window_bits") = max_window_bits;
}
