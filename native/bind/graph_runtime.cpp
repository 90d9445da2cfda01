// whet._native.graph.Runtime: one call per task, one call per batch, and what there is to see.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <span>

#include "graph/runtime.hpp"
#include "graph_batch.hpp"
#include "graph_callable.hpp"
#include "graph_keep.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace whet::graph;

namespace whet::bind {

namespace {

PyObject* status_error = nullptr;

// A Python task: an object whose call runs it and answers whether it went well, None if it was interrupted,
// NotImplemented if it was told before not to begin. The submission owns one reference, which the body or the
// cancellation gives back.
int run_callable(void* const*, const std::uint64_t*, void* user) {
    return hold_at_exit([user] {
        const nb::gil_scoped_acquire lock;
        const nb::object task = nb::steal<nb::object>(static_cast<PyObject*>(user));
        const nb::object went_well = nb::steal<nb::object>(PyObject_CallNoArgs(task.ptr()));
        if (!went_well.is_valid()) {
            PyErr_WriteUnraisable(task.ptr());
            return 1;
        }
        if (went_well.is(Py_NotImplemented)) return kDroppedBody;
        return went_well.is(Py_True) ? 0 : went_well.is_none() ? kInterruptedBody : 1;
    });
}

void drop_callable(void* user, Kind kind) {
    if (kind != Kind::callable || is_finalizing()) return;
    const nb::gil_scoped_acquire lock;
    Py_DECREF(static_cast<PyObject*>(user));
}

std::uint64_t whole(nb::handle number) { return nb::cast<std::uint64_t>(number); }

// (base, offset, item bytes, shape, strides, direction, the task that made it or None, bytes of the buffer or 0). For
// Direction::out the memory is fresh.
struct Argument {
    TensorArg tensor;
    View view;

    explicit Argument(nb::handle given) {
        const auto fields = nb::cast<nb::tuple>(given);
        const auto shape = nb::cast<std::vector<std::int64_t>>(fields[3]);
        const auto strides = nb::cast<std::vector<std::int64_t>>(fields[4]);
        tensor.base = reinterpret_cast<void*>(whole(fields[0]));
        tensor.direction = static_cast<Direction>(nb::cast<int>(fields[5]));
        if (!fields[6].is_none()) tensor.made_by = whole(fields[6]);
        tensor.buffer_bytes = whole(fields[7]);
        if (tensor.direction == Direction::out) {
            tensor.fresh = true;
            tensor.bytes = tensor.buffer_bytes;
        } else {
            make_region(whole(fields[1]), whole(fields[2]), static_cast<int>(shape.size()), shape.data(),
                        strides.data(), view, tensor.region);
        }
    }
};

}  // namespace

[[noreturn]] void raise_status(const Status& status) {
    const CodeText& text = text_of(status.code);
    const nb::tuple arguments =
        nb::make_tuple(text.name, text.cause, text.cure, status.detail, status.task, status.body_result);
    PyErr_SetObject(status_error, arguments.ptr());
    throw nb::python_error();
}

void check(const Status& status) {
    if (!status.ok()) raise_status(status);
}

class BoundRuntime {
  public:
    using Ids = Flat<const std::uint64_t>;

    explicit BoundRuntime(const nb::dict& options) {
        Config config;
        config.policy = static_cast<Policy>(nb::cast<int>(options["policy"]));
        config.wake_target = static_cast<WakeTarget>(nb::cast<int>(options["wake_target"]));
        config.workers = nb::cast<unsigned>(options["workers"]);
        config.window = nb::cast<std::uint32_t>(options["window"]);
        config.heap_bytes = nb::cast<std::uint64_t>(options["heap_bytes"]);
        config.output_align = nb::cast<std::uint64_t>(options["output_align"]);
        config.ready_capacity = nb::cast<std::uint32_t>(options["ready_capacity"]);
        config.tensormap_capacity = nb::cast<std::uint32_t>(options["tensormap_capacity"]);
        config.retain = static_cast<Retain>(nb::cast<int>(options["retain"]));
        config.stall_ns = nb::cast<std::uint64_t>(options["stall_ns"]);
        config.submitter_helps = nb::cast<bool>(options["submitter_helps"]);
        config.trace = static_cast<TraceLevel>(nb::cast<int>(options["trace"]));
        config.trace_capacity = nb::cast<std::uint32_t>(options["trace_capacity"]);
        config.record_edges = nb::cast<bool>(options["record_edges"]);
        config.on_cancelled = drop_callable;
        config.keep = keeps_;
        heap_bytes_ = config.heap_bytes;
        output_align_ = config.output_align;
        Status status;
        {
            const nb::gil_scoped_release unlock;
            status = Runtime::make(config, runtime_);
        }
        check(status);
    }

    // Workers may need the interpreter lock to end.
    ~BoundRuntime() {
        const nb::gil_scoped_release unlock;
        runtime_.reset();
    }

    // `callable` is a Python task or None; then `address` is a native body, or 0 for a barrier, and `keep` what it
    // uses. The number of a Python task is set before anybody can interrupt.
    TaskId submit(nb::handle callable, std::uintptr_t address, std::uintptr_t user, bool built_in, std::uint32_t name,
                  const nb::list& tensors, const std::vector<std::uint64_t>& scalars,
                  const std::vector<TaskId>& dependencies, nb::handle keep) {
        check_usable();
        std::vector<Argument> arguments;
        arguments.reserve(tensors.size());
        for (nb::handle given : tensors) arguments.emplace_back(given);
        std::vector<TensorArg> list;
        list.reserve(arguments.size());
        for (Argument& argument : arguments) {
            list.push_back(argument.tensor);
            // A region made in place points at a view that has moved along with its argument.
            if (list.back().region.view) list.back().region.view = &argument.view;
        }
        TaskSpec spec;
        spec.name = name;
        spec.tensors = list;
        spec.scalars = scalars;
        spec.dependencies = dependencies;
        if (!callable.is_none()) {
            spec.body = run_callable;
            spec.user = callable.inc_ref().ptr();
            spec.kind = Kind::callable;
        } else if (address) {
            spec.body = reinterpret_cast<Body>(address);
            spec.user = reinterpret_cast<void*>(user);
            spec.kind = built_in ? Kind::kernel : Kind::native;
        }
        TaskId id = 0;
        Status status;
        Signals signals;
        {
            const nb::gil_scoped_release unlock;
            status = runtime_->submit(spec, id, false, watch(signals));
        }
        if (!status.ok() && !callable.is_none()) callable.dec_ref();
        finish(signals, status);
        if (!callable.is_none()) {
            nb::setattr(callable, "number", nb::int_(id));
        } else if (!keep.is_none()) {
            prune();
            keeps_->add(id, keep);
        }
        return id;
    }

    // The id of the first task; and the bytes of all ids, unless they are consecutive.
    nb::tuple submit_batch(const Batch& given, const nb::list& bodies, nb::handle keep) {
        Batch batch = given;
        check_usable();
        Signals signals;
        Status status;
        TaskId first = 0;
        TaskId last = 0;
        std::vector<Batch::Row> table = Batch::rows_of(bodies);
        {
            const nb::gil_scoped_release unlock;
            status = batch.submit(*runtime_, std::move(table), watch(signals), first, last);
        }
        batch.tell_bases();
        keeps_->add(last, keep);
        finish(signals, status);
        return nb::make_tuple(first, batch.told_ids());
    }

    // Memory for an output. Waits while what is held leaves no room for it.
    std::unique_ptr<OutputBlock> allocate(std::uint64_t wanted) {
        constexpr std::uint64_t kLookAgainNs = 2'000'000;
        check_usable();
        const std::uint64_t bytes =
            std::max<std::uint64_t>(1, (wanted + output_align_ - 1) / output_align_) * output_align_;
        if (wanted > heap_bytes_ || bytes > heap_bytes_) {
            check({Code::output_too_large, 0, 0,
                   std::to_string(wanted) + " bytes wanted, heap_bytes " + std::to_string(heap_bytes_)});
        }
        Signals signals;
        for (bool last_try = false; !held_->take(bytes, heap_bytes_);) {
            prune();
            if (held_->take(bytes, heap_bytes_)) break;
            if (last_try) {
                check({Code::heap_deadlock, 0, 0,
                       "every task is done and " + std::to_string(held_->now.load()) + " of " +
                           std::to_string(heap_bytes_) + " bytes are held by outputs that Python refers to; wanted " +
                           std::to_string(bytes) + " bytes"});
            }
            Status status;
            {
                const nb::gil_scoped_release unlock;
                status = runtime_->settle(kLookAgainNs, watch(signals));
            }
            last_try = status.ok();
            if (last_try) PyGC_Collect();
            if (!status.ok() && status.code != Code::timed_out) finish(signals, status);
        }
        return std::make_unique<OutputBlock>(held_, bytes, output_align_);
    }

    std::uint32_t scope_begin(bool manual) {
        std::uint32_t number = 0;
        check(unlocked(
            [&] { return runtime_->scope_begin(manual ? ScopeMode::manual : ScopeMode::automatic, &number); }));
        return number;
    }
    void scope_end(std::uint32_t number) {
        check(unlocked([&] { return runtime_->scope_end(number); }));
    }
    void wait_all(std::uint64_t timeout_ns) {
        waiting([&](Watch watch) { return runtime_->wait_all(timeout_ns, watch); });
    }
    void wait(TaskId task, std::uint64_t timeout_ns) {
        waiting([&](Watch watch) { return runtime_->wait(task, timeout_ns, watch); });
    }
    void wait_all_of(const Ids& tasks, std::uint64_t timeout_ns) {
        waiting([&](Watch watch) { return runtime_->wait_all_of(span_of(tasks), timeout_ns, watch); });
    }
    void wait_any_of(const Ids& tasks, std::uint64_t timeout_ns) {
        waiting([&](Watch watch) { return runtime_->wait_any_of(span_of(tasks), timeout_ns, watch); });
    }
    // One byte per task, see TaskState.
    nb::bytes look(const Ids& tasks) const {
        check_usable();
        std::vector<TaskState> states(tasks.size());
        runtime_->look(span_of(tasks), states.data());
        return nb::bytes(reinterpret_cast<const char*>(states.data()), states.size());
    }
    int state(TaskId task) const {
        check_usable();
        TaskState state{};
        runtime_->look({&task, 1}, &state);
        return static_cast<int>(state);
    }
    // False when the runtime is shut down.
    bool listen(const Ids& tasks, std::uint64_t timeout_ns) {
        check_usable();
        const Status status = unlocked([&] { return stay_at_exit(runtime_->listen(span_of(tasks), timeout_ns)); });
        return status.code != Code::shut_down;
    }
    void help(std::uint64_t timeout_ns) {
        check_usable();
        (void)unlocked([&] {
            runtime_->help(timeout_ns);
            return stay_at_exit(Status{});
        });
    }
    void cancel_these(const Ids& tasks) {
        check_usable();
        runtime_->cancel_these(span_of(tasks));
    }
    void shutdown(std::uint64_t timeout_ns) {
        waiting([&](Watch watch) { return runtime_->shutdown(timeout_ns, watch); });
    }
    void cancel() {
        check_usable();
        runtime_->cancel();
    }
    bool done(TaskId task) const {
        check_usable();
        return runtime_->done(task);
    }
    std::uint32_t name_task(const std::string& name) {
        check_usable();
        return runtime_->name_task(name);
    }
    std::string name_of(std::uint32_t name) const { return runtime_->name_of(name); }

    nb::dict peaks() const {
        check_usable();
        Peaks p = runtime_->peaks();
        p.heap_now += held_->now.load(std::memory_order_relaxed);
        p.heap_peak += held_->peak.load(std::memory_order_relaxed);
        nb::dict answer;
        answer["window"] = nb::make_tuple(p.window_now, p.window_peak, p.window_capacity, p.blocked_on_window);
        answer["heap_bytes"] = nb::make_tuple(p.heap_now, p.heap_peak, p.heap_capacity, p.blocked_on_heap);
        answer["tensormap_capacity"] =
            nb::make_tuple(p.tensormap_now, p.tensormap_peak, p.tensormap_capacity, p.blocked_on_tensormap);
        answer["ready_overflows"] = p.ready_overflows;
        return answer;
    }

    nb::dict totals() const {
        check_usable();
        const Totals t = runtime_->totals();
        nb::dict answer;
        answer["submitted"] = t.submitted;
        answer["completed"] = t.completed;
        answer["failed"] = t.failed;
        answer["cancelled"] = t.cancelled;
        answer["retired"] = t.retired;
        answer["edges"] = t.edges;
        answer["spilled_fanins"] = t.spilled_fanins;
        return answer;
    }

    // (task, name, running, worker, running_ns, unmet producers)
    nb::list watchdog() const {
        check_usable();
        nb::list answer;
        for (const Waiting& w : runtime_->watchdog()) {
            answer.append(nb::make_tuple(w.task, runtime_->name_of(w.name), w.running, w.worker, w.running_ns,
                                         nb::cast(w.unmet)));
        }
        return answer;
    }

    nb::list phases() const {
        nb::list answer;
        for (const PhaseCounters& counters : runtime_->phases()) {
            nb::dict of_worker;
            for (std::size_t phase = 0; phase < kPhases; ++phase) {
                of_worker[whet::graph::name_of(static_cast<Phase>(phase))] =
                    nb::make_tuple(counters.ns[phase], counters.count[phase]);
            }
            answer.append(of_worker);
        }
        return answer;
    }

    // (task, name, slot, begin_ns, end_ns) of one worker
    nb::list trace(unsigned worker) const {
        nb::list answer;
        for (const TraceRecord& r : runtime_->trace(worker)) {
            answer.append(nb::make_tuple(r.task, runtime_->name_of(r.name), r.slot, r.begin_ns, r.end_ns));
        }
        return answer;
    }

    // (producer, consumer, how it came about)
    nb::list edges() const {
        static constexpr const char* kSources[] = {"owner", "data", "given"};
        check_usable();
        nb::list answer;
        for (const Edge& edge : runtime_->edges()) {
            answer.append(
                nb::make_tuple(edge.producer, edge.consumer, kSources[static_cast<std::size_t>(edge.source)]));
        }
        return answer;
    }

    unsigned workers() const { return runtime_->config().workers; }
    TaskId next_id() const {
        check_usable();
        return runtime_->next_id();
    }

  private:
    // In a forked child nothing may be touched: a lock may be held by a thread that is not there.
    void check_usable() const { check({runtime_->usable(), 0, 0, {}}); }

    static Watch watch(Signals& signals) {
        return {[](void* asked) { return static_cast<Signals*>(asked)->ask_now(); }, &signals};
    }
    // What a signal handler raised comes first.
    static void finish(const Signals& signals, const Status& status) {
        signals.raise();
        check(status);
    }
    template <class Wait>
    void waiting(Wait&& wait) {
        check_usable();
        Signals signals;
        Status status;
        {
            const nb::gil_scoped_release unlock;
            status = wait(watch(signals));
        }
        prune();
        finish(signals, status);
    }
    void prune() {
        keeps_->prune([this](TaskId task) { return runtime_->done(task); });
    }

    static std::span<const TaskId> span_of(const Ids& ids) { return {ids.data(), ids.size()}; }
    // A thread that is not waited for must not ask for the interpreter lock while the interpreter ends.
    static Status stay_at_exit(Status status) {
        while (is_finalizing()) pause();
        return status;
    }

    template <class Call>
    static Status unlocked(Call&& call) {
        const nb::gil_scoped_release unlock;
        return call();
    }

    const std::shared_ptr<Keeps> keeps_ = std::make_shared<Keeps>();
    const std::shared_ptr<HeldBytes> held_ = std::make_shared<HeldBytes>();
    std::uint64_t heap_bytes_ = 0;
    std::uint64_t output_align_ = 64;
    std::unique_ptr<Runtime> runtime_;
};

}  // namespace whet::bind

void bind_graph_runtime(nb::module_& m) {
    using whet::bind::BoundRuntime;
    whet::bind::status_error = PyErr_NewException("whet._native.graph.StatusError", PyExc_RuntimeError, nullptr);
    m.attr("StatusError") = nb::borrow<nb::object>(whet::bind::status_error);
    nb::class_<whet::bind::OutputBlock>(m, "OutputBlock")
        .def_prop_ro("address", &whet::bind::OutputBlock::address)
        .def_prop_ro("bytes", &whet::bind::OutputBlock::bytes);
    nb::class_<whet::bind::Batch>(m, "Batch").def(nb::init<nb::dict>(), "arrays"_a);
    nb::class_<BoundRuntime>(m, "Runtime", nb::is_weak_referenceable())
        .def(nb::init<nb::dict>(), "options"_a)
        .def("submit", &BoundRuntime::submit, "callable"_a.none(), "address"_a, "user"_a, "built_in"_a, "name"_a,
             "tensors"_a, "scalars"_a, "dependencies"_a, "keep"_a.none())
        .def("submit_batch", &BoundRuntime::submit_batch, "batch"_a, "bodies"_a, "keep"_a)
        .def("allocate", &BoundRuntime::allocate, "bytes"_a)
        .def("scope_begin", &BoundRuntime::scope_begin, "manual"_a)
        .def("scope_end", &BoundRuntime::scope_end, "number"_a)
        .def("wait_all", &BoundRuntime::wait_all, "timeout_ns"_a)
        .def("wait", &BoundRuntime::wait, "task"_a, "timeout_ns"_a)
        .def("wait_all_of", &BoundRuntime::wait_all_of, "tasks"_a, "timeout_ns"_a)
        .def("wait_any_of", &BoundRuntime::wait_any_of, "tasks"_a, "timeout_ns"_a)
        .def("look", &BoundRuntime::look, "tasks"_a)
        .def("state", &BoundRuntime::state, "task"_a)
        .def("listen", &BoundRuntime::listen, "tasks"_a, "timeout_ns"_a)
        .def("help", &BoundRuntime::help, "timeout_ns"_a)
        .def("cancel_these", &BoundRuntime::cancel_these, "tasks"_a)
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
        .def_prop_ro("workers", &BoundRuntime::workers)
        .def_prop_ro("next_id", &BoundRuntime::next_id);
}
