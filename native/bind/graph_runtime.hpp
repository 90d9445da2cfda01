// The runtime as Python's bindings hold it: the core, what Python lends to it, and what its bodies raised.
#pragma once

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/runtime.hpp"
#include "graph_batch.hpp"
#include "graph_callable.hpp"
#include "graph_errors.hpp"
#include "graph_keep.hpp"
#include "graph_lease.hpp"
#include "graph_rows.hpp"
#include "graph_run.hpp"

namespace whet::bind {

using namespace whet::graph;

extern PyObject* status_error;
// Raises StatusError(name, cause, cure, detail, task, body result, what the body raised or None).
[[noreturn]] void raise_status(const Status& status, const nb::object& cause);
void check(const Status& status);

// (base, offset, item bytes, shape, strides, direction, the task that made it or None, bytes of the buffer or 0). For
// Direction::out the memory is fresh. The region may point at `view`.
void describe(const nb::tuple& fields, TensorArg& tensor, View& view);

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
        config.on_rest = Lease::give;
        config.keep = keeps_;
        heap_bytes_ = config.heap_bytes;
        output_align_ = config.output_align;
        Status status;
        {
            const Unlocked unlock;
            status = Runtime::make(config, runtime_);
        }
        check(status);
        constexpr std::size_t kSpareErrors = 16;  // for threads that replace others
        errors_ = std::make_shared<BodyErrors>(runtime_->config().workers + kSpareErrors);
    }

    // Workers may need the interpreter lock to end.
    ~BoundRuntime() {
        const Unlocked unlock;
        runtime_.reset();
    }

    // Submits a task of one thread of Python. Without giving the interpreter lock up if that need not wait.
    void submit(TaskSpec& spec, TaskId& id) {
        Status status;
        if (runtime_->submit_at_once(spec, id, status)) {
            check_with_cause(status);
            return;
        }
        Signals signals;
        {
            const Unlocked unlock;
            status = runtime_->submit(spec, id, false, watch(signals));
        }
        finish(signals, status);
    }
    // Holds what a native task uses until it is done.
    void keep(TaskId id, nb::handle object) {
        constexpr unsigned kPruneEvery = 64;
        if (++kept_ % kPruneEvery == 0) prune();
        keeps_->add(id, object);
    }

    // A task without a body, of arguments as `describe` gives them.
    TaskId sketch(const nb::list& tensors, const std::vector<TaskId>& dependencies) {
        check_usable();
        std::vector<TensorArg> list(tensors.size());
        std::vector<View> views(tensors.size());
        for (std::size_t at = 0; at < list.size(); ++at) {
            describe(nb::cast<nb::tuple>(tensors[at]), list[at], views[at]);
        }
        TaskSpec spec;
        spec.tensors = list;
        spec.dependencies = dependencies;
        TaskId id = 0;
        submit(spec, id);
        return id;
    }

    // The id of the first task; and the bytes of all ids, unless they are consecutive.
    nb::tuple submit_batch(const Batch& given, const nb::list& bodies, nb::handle keep) {
        Batch batch = given;
        check_usable();
        Signals signals;
        Status status;
        TaskId last = 0;
        std::vector<Batch::Row> table = Batch::rows_of(bodies);
        {
            const Unlocked unlock;
            status = batch.submit(*runtime_, std::move(table), watch(signals), last);
        }
        keeps_->add(last, keep);
        finish(signals, status);
        return nb::make_tuple(batch.ids().first(), batch.ids().told());
    }
    // Likewise.
    nb::tuple submit_rows(const Rows& given, const nb::list& bodies, nb::handle keep) {
        Rows rows = given;
        check_usable();
        Signals signals;
        Status status;
        TaskId last = 0;
        const std::vector<Batch::Row> table = Batch::rows_of(bodies);
        if (table.size() != 1) raise_status({graph::Code::bad_argument, 0, 0, "rows: one body for all"});
        {
            const Unlocked unlock;
            status = rows.submit(*runtime_, table.front(), watch(signals), last);
        }
        keeps_->add(last, keep);
        finish(signals, status);
        return nb::make_tuple(rows.ids().first(), rows.ids().told());
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
                const Unlocked unlock;
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
    Status scope_end(std::uint32_t number) {
        return unlocked([&] { return runtime_->scope_end(number); });
    }
    void wait_all(std::uint64_t timeout_ns) {
        TaskId collected = 0;
        const auto wait = [&](Watch watch) { return runtime_->wait_all(timeout_ns, watch, &collected); };
        // After the error has been raised with its cause.
        struct Forget {
            BodyErrors& errors;
            const TaskId& below;
            ~Forget() { errors.forget_below(below); }
        } const forget{*errors_, collected};
        waiting(wait);
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
        const Status status = unlocked([&] { return runtime_->listen(span_of(tasks), timeout_ns); });
        return status.code != Code::shut_down;
    }
    void help(std::uint64_t timeout_ns) {
        check_usable();
        const Unlocked unlock;
        runtime_->help(timeout_ns);
    }
    void cancel_these(const Ids& tasks) {
        check_usable();
        runtime_->cancel_these(span_of(tasks));
    }
    bool cancel_one(TaskId task) {
        check_usable();
        return runtime_->cancel_one(task);
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

    const std::shared_ptr<BodyErrors>& errors() const { return errors_; }
    std::size_t errors_held() const { return errors_->size(); }

  private:
    // In a forked child nothing may be touched: a lock may be held by a thread that is not there.
    void check_usable() const { check({runtime_->usable(), 0, 0, {}}); }

    static Watch watch(Signals& signals) {
        return {[](void* asked) { return static_cast<Signals*>(asked)->ask_now(); }, &signals};
    }
    // What a signal handler raised comes first.
    void finish(const Signals& signals, const Status& status) const {
        signals.raise();
        check_with_cause(status);
    }
    // With what the Python body raised, if it is its error that the status tells of.
    void check_with_cause(const Status& status) const {
        if (status.ok()) return;
        raise_status(status, status.code == Code::task_failed   ? errors_->of(status.task)
                             : status.code == Code::interrupted ? errors_->take_interrupt()
                                                                : nb::none());
    }
    template <class Wait>
    void waiting(Wait&& wait) {
        check_usable();
        Signals signals;
        Status status;
        {
            const Unlocked unlock;
            status = wait(watch(signals));
        }
        prune();
        finish(signals, status);
    }
    void prune() {
        keeps_->prune([this](TaskId task) { return runtime_->done(task); });
    }

    static std::span<const TaskId> span_of(const Ids& ids) { return {ids.data(), ids.size()}; }

    template <class Call>
    static Status unlocked(Call&& call) {
        const Unlocked unlock;
        return call();
    }

    const std::shared_ptr<Keeps> keeps_ = std::make_shared<Keeps>();
    std::shared_ptr<BodyErrors> errors_;
    unsigned kept_ = 0;  // since the runtime was made, to prune now and then
    const std::shared_ptr<HeldBytes> held_ = std::make_shared<HeldBytes>();
    std::uint64_t heap_bytes_ = 0;
    std::uint64_t output_align_ = 64;
    std::unique_ptr<Runtime> runtime_;
};

// A scope that ends with whoever holds it: an interrupt may come between its beginning and the place that ends it.
class OpenScope {
  public:
    OpenScope(nb::object runtime, bool manual)
        : runtime_(std::move(runtime)), number_(nb::cast<BoundRuntime&>(runtime_).scope_begin(manual)) {}
    OpenScope(const OpenScope&) = delete;
    OpenScope& operator=(const OpenScope&) = delete;
    ~OpenScope() { (void)close(); }  // whoever would hear that the runtime is closed has gone

    void end() { check(close()); }

  private:
    Status close() {
        const std::uint32_t number = std::exchange(number_, 0);
        return number == 0 ? Status{} : nb::cast<BoundRuntime&>(runtime_).scope_end(number);
    }

    nb::object runtime_;
    std::uint32_t number_;
};

}  // namespace whet::bind
