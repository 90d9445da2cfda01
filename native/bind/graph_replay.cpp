// whet._native.graph.ReplayGraph: arrays in, replays out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "graph/replay/replay.hpp"
#include "graph_callable.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using whet::graph::Pool;
using whet::graph::ReplayBody;
using whet::graph::ReplayGraph;

namespace {

template <class T>
using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Spans = nb::ndarray<std::int64_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;

// One row of the body table that is a Python callable. The first exception of a replay is kept for the caller.
struct Row {
    nb::object callable;
    nb::object* failure;

    static int call(void* const*, const std::uint64_t* scalars, void* user) {
        return whet::bind::hold_at_exit([=] {
            const whet::bind::Locked lock;
            auto& row = *static_cast<Row*>(user);
            PyObject* const number = PyLong_FromUnsignedLongLong(scalars[0]);
            PyObject* const result = number ? PyObject_CallOneArg(row.callable.ptr(), number) : nullptr;
            Py_XDECREF(number);
            if (result) {
                Py_DECREF(result);
                return 0;
            }
            nb::object error = whet::bind::take_exception();
            if (!row.failure->is_valid()) *row.failure = std::move(error);
            return 1;
        });
    }
};

class BoundGraph {
  public:
    // `bodies` holds (address, user) pairs, callables, or None for a barrier.
    nb::dict build(const Flat<std::int64_t>& start, const Flat<std::int64_t>& preds,
                   const std::optional<Flat<std::uint16_t>>& kind, const nb::list& bodies,
                   const std::optional<Flat<std::uint64_t>>& tensors,
                   const std::optional<Flat<std::int64_t>>& tensor_start,
                   const std::optional<Flat<std::uint64_t>>& scalars,
                   const std::optional<Flat<std::int64_t>>& scalar_start) {
        rows_.clear();
        std::vector<ReplayBody> table;
        for (nb::handle body : bodies) table.push_back(body_of(body));
        whet::graph::ReplayInput input;
        input.tasks = static_cast<std::int64_t>(start.shape(0)) - 1;
        input.start = start.data();
        input.preds = preds.data();
        input.kind = kind ? kind->data() : nullptr;
        // The arrays themselves stay alive through the Python object that owns this one.
        if (tensors && tensor_start) {
            input.tensors = reinterpret_cast<void* const*>(tensors->data());
            input.tensor_start = tensor_start->data();
        }
        if (scalars && scalar_start) {
            input.scalars = scalars->data();
            input.scalar_start = scalar_start->data();
        }
        whet::graph::BuildReport report;
        {
            const whet::bind::Unlocked unlock;
            report = graph_.build(input, std::move(table));
        }
        nb::dict answer;
        answer["ok"] = report.ok;
        answer["message"] = report.message;
        answer["index"] = report.index;
        answer["cycle"] = report.cycle;
        return answer;
    }

    // `owner` is the Python object that the arrays belong to; it stays as long as bodies that were left are running.
    nb::dict replay(Pool& pool, bool coarsen, std::optional<Spans> spans, std::uint64_t timeout_ns, nb::object owner) {
        whet::bind::Signals signals;
        whet::graph::ReplayOptions options;
        options.coarsen = coarsen;
        options.timeout_ns = timeout_ns;
        options.poll = [&signals] { return signals.ask(); };
        std::vector<whet::graph::ReplaySpan> seen;
        if (spans) {
            seen.resize(static_cast<std::size_t>(graph_.tasks()));
            options.spans = seen.data();
        }
        failure_ = nb::object();
        whet::graph::ReplayReport report;
        {
            const whet::bind::Unlocked unlock;
            report = graph_.replay(pool, options);
        }
        nb::dict answer = told(report);
        answer["interrupt"] = signals.raised.is_valid() ? signals.raised : nb::none();
        if (report.refused) return answer;
        if (owner_.is_valid()) owner_.reset();
        if (report.left) {
            owner_ = std::move(owner);
            seen_ = std::move(seen);
            return answer;
        }
        for (std::size_t t = 0; t < seen.size(); ++t) {
            (*spans)(t, 0) = seen[t].start_ns;
            (*spans)(t, 1) = seen[t].end_ns;
            (*spans)(t, 2) = seen[t].worker;
        }
        answer["error"] = failure_.is_valid() ? failure_ : nb::none();
        failure_ = nb::object();
        return answer;
    }

    const ReplayGraph& graph() const { return graph_; }

  private:
    static nb::dict told(const whet::graph::ReplayReport& report) {
        nb::dict answer;
        answer["executed"] = report.executed;
        answer["cancelled"] = report.cancelled;
        answer["failed"] = report.failure.task;
        answer["status"] = report.failure.status;
        answer["message"] = report.failure.message;
        answer["error"] = nb::none();
        answer["timed_out"] = report.timed_out;
        answer["stalled"] = report.stalled;
        answer["left"] = report.left;
        answer["refused"] = report.refused;
        nb::list running;
        for (const auto& body : report.running) running.append(nb::make_tuple(body.task, body.seat, body.seen_ns));
        answer["running"] = running;
        return answer;
    }

    ReplayBody body_of(nb::handle body) {
        if (body.is_none()) return {};
        if (nb::isinstance<nb::tuple>(body)) {
            const auto [address, user] = nb::cast<std::pair<std::uintptr_t, std::uintptr_t>>(body);
            ReplayBody native;
            native.call = reinterpret_cast<decltype(native.call)>(address);
            native.user = reinterpret_cast<void*>(user);
            return native;
        }
        rows_.push_back(std::make_unique<Row>(Row{nb::borrow<nb::object>(body), &failure_}));
        return {Row::call, rows_.back().get()};
    }

    ReplayGraph graph_;
    std::vector<std::unique_ptr<Row>> rows_;
    nb::object failure_;
    // While bodies are running that a replay has left: what they may still use.
    nb::object owner_;
    std::vector<whet::graph::ReplaySpan> seen_;
};

}  // namespace

void bind_graph_replay(nb::module_& m) {
    nb::class_<Pool>(m, "Pool")
        .def(nb::init<unsigned>(), "workers"_a)
        .def_prop_ro("workers", &Pool::workers)
        .def_static("hardware_workers", &Pool::hardware_workers);
    nb::class_<BoundGraph>(m, "ReplayGraph")
        .def(nb::init<>())
        .def("build", &BoundGraph::build, "start"_a, "preds"_a, "kind"_a.none(), "bodies"_a, "tensors"_a.none(),
             "tensor_start"_a.none(), "scalars"_a.none(), "scalar_start"_a.none())
        .def("replay", &BoundGraph::replay, "pool"_a, "coarsen"_a, "spans"_a.none(), "timeout_ns"_a, "owner"_a)
        .def_prop_ro("tasks", [](const BoundGraph& g) { return g.graph().tasks(); })
        .def_prop_ro("edges", [](const BoundGraph& g) { return g.graph().edges(); })
        .def_prop_ro("components", [](const BoundGraph& g) { return g.graph().components(); })
        .def_prop_ro("solo_tasks", [](const BoundGraph& g) { return g.graph().solo_tasks(); });
}
