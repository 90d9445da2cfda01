// The public face: checks the caller and the configuration, then hands over to Impl.
#include "graph/runtime.hpp"

#include <bit>

#include "graph/pool.hpp"
#include "graph/runtime_impl.hpp"

namespace whet::graph {

namespace {

CoreShape shape_of(const Config& config) {
    CoreShape shape;
    shape.policy = config.policy;
    shape.wake_target = config.wake_target;
    shape.workers = config.workers;
    shape.window = config.window;
    shape.ready_capacity = config.ready_capacity;
    shape.longest_run = config.longest_run;
    return shape;
}

Status check(const Config& config) {
    const auto bad = [](const char* detail) { return Status{Code::bad_argument, 0, 0, detail}; };
    if (config.window < 4 || config.window > (1U << 30) || !std::has_single_bit(config.window)) {
        return bad("window must be a power of two from 4 to 2^30");
    }
    if (config.tensormap_capacity < 4 || config.tensormap_capacity > (1U << 22) ||
        !std::has_single_bit(config.tensormap_capacity)) {
        return bad("tensormap_capacity must be a power of two from 4 to 2^22");
    }
    if (config.workers > 4096) return bad("workers must be at most 4096");
    if (config.ready_capacity == 0) return bad("ready_capacity must be at least 1");
    if (config.longest_run == 0) return bad("longest_run must be at least 1");
    if (config.output_align < 8 || !std::has_single_bit(config.output_align)) {
        return bad("output_align must be a power of two from 8");
    }
    if (config.heap_bytes < config.output_align) return bad("heap_bytes must hold at least one aligned output");
    return {};
}

}  // namespace

Runtime::Impl::Impl(const Config& config)
    : config_(config),
      heap_(config.heap_bytes, config.output_align),
      map_(config.tensormap_capacity),
      ledger_(config.window),
      tracks_(new Track[static_cast<std::size_t>(config.window) * kInlineTracks]),
      arguments_(new void*[static_cast<std::size_t>(config.window) * kInlineArguments]),
      submit_trace_(config.trace, 0),
      core_(shape_of(config)),
      born_(fork_generation()),
      may_spin_(config.workers <= Pool::hardware_workers()),
      steps_at_once_(config.trace == TraceLevel::off ? kStepsAtOnce : 1) {
    for (unsigned worker = 0; worker < config.workers; ++worker) workers_.push_back(std::make_unique<Worker>(config));
}

Status Runtime::Impl::start() {
    if (!heap_.valid()) return {Code::bad_argument, 0, 0, "heap_bytes: the system grants no memory of this size"};
    for (unsigned worker = 1; worker < config_.workers; ++worker) {
        Status status = start_thread(worker);
        if (!status.ok()) {
            (void)shutdown(0);
            return status;
        }
    }
    return {};
}

Status Runtime::make(const Config& config, std::unique_ptr<Runtime>& runtime) {
    Config settled = config;
    if (settled.workers == 0) settled.workers = Pool::hardware_workers();
    if (settled.workers == 1) settled.submitter_helps = true;
    Status status = check(settled);
    if (!status.ok()) return status;
    try {
        auto impl = std::make_shared<Impl>(settled);
        status = impl->start();
        if (status.ok()) runtime.reset(new Runtime(std::move(impl)));
    } catch (const std::bad_alloc&) {
        status = {Code::bad_argument, 0, 0, "no memory for rings of this size"};
    }
    return status;
}

Runtime::Runtime(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Runtime::~Runtime() {
    if (impl_->born_ != fork_generation()) {
        // The threads of the parent are not here to be joined; the copy of their state stays.
        new std::shared_ptr<Impl>(std::move(impl_));
        return;
    }
    (void)impl_->shutdown(0);
}

const Config& Runtime::config() const { return impl_->config_; }

std::uint32_t Runtime::name_task(const std::string& name) {
    const std::lock_guard<std::mutex> guard(impl_->names_lock_);
    const auto [place, fresh] =
        impl_->name_numbers_.try_emplace(name, static_cast<std::uint32_t>(impl_->names_.size()));
    if (fresh) impl_->names_.push_back(name);
    return place->second;
}

std::string Runtime::name_of(std::uint32_t name) const {
    const std::lock_guard<std::mutex> guard(impl_->names_lock_);
    return name < impl_->names_.size() ? impl_->names_[name] : std::string();
}

Status Runtime::submit(TaskSpec& task, TaskId& id, bool more) {
    Code code = impl_->check_caller();
    if (code != Code::ok) return {code, 0, 0, {}};
    impl_->submit_trace_.begin();
    code = impl_->submit(task, id);
    if (more) {
        impl_->flush_some();
    } else {
        impl_->flush();
    }
    impl_->submit_trace_.mark(Phase::submit);
    if (code == Code::ok) return {};
    return impl_->refusal();
}

Status Runtime::submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more) {
    submitted = 0;
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    impl_->submit_trace_.begin();
    first = impl_->head_;
    for (TaskSpec& task : tasks) {
        TaskId id = 0;
        const Code code = impl_->submit(task, id);
        if (code != Code::ok) {
            status = impl_->refusal();
            break;
        }
        ++submitted;
        impl_->flush_some();
    }
    if (!more) impl_->flush();
    impl_->submit_trace_.mark(Phase::submit);
    return status;
}

Status Runtime::flush() {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (status.ok()) impl_->flush();
    return status;
}

TaskId Runtime::next_id() const { return impl_->head_; }

Status Runtime::alloc(std::span<TensorArg> tensors, TaskId& id) {
    for (TensorArg& tensor : tensors) tensor.direction = Direction::out;
    TaskSpec task;
    task.tensors = tensors;
    return submit(task, id);
}

Status Runtime::scope_begin(ScopeMode mode) {
    Status status{impl_->check_caller(), 0, 0, {}};
    return status.ok() ? impl_->scope_begin(mode) : status;
}

Status Runtime::scope_end() {
    Status status{impl_->check_caller(), 0, 0, {}};
    return status.ok() ? impl_->scope_end() : status;
}

std::size_t Runtime::scope_depth() const { return impl_->scopes_.size(); }

Status Runtime::wait_all(std::uint64_t timeout_ns) {
    Status status{impl_->check_caller(), 0, 0, {}};
    return status.ok() ? impl_->wait_all(timeout_ns) : status;
}

Status Runtime::wait(TaskId task, std::uint64_t timeout_ns) {
    Status status{impl_->check_caller(), 0, 0, {}};
    return status.ok() ? impl_->wait(task, timeout_ns) : status;
}

bool Runtime::done(TaskId task) const { return impl_->done(task); }

void Runtime::cancel() { impl_->cancel(); }

Status Runtime::shutdown(std::uint64_t timeout_ns) {
    if (impl_->born_ != fork_generation()) return {Code::forked, 0, 0, {}};
    return impl_->shutdown(timeout_ns);
}

Peaks Runtime::peaks() const { return impl_->peaks(); }
Totals Runtime::totals() const { return impl_->totals(); }
std::vector<Waiting> Runtime::watchdog(std::size_t most) const { return impl_->watchdog(most); }

std::vector<PhaseCounters> Runtime::phases() const {
    std::vector<PhaseCounters> all;
    for (unsigned worker = 0; worker < impl_->workers_.size(); ++worker) {
        all.push_back(impl_->workers_[worker]->trace.counters());
        const WorkerCounts& counts = impl_->core_.counts(worker);
        all.back().count[static_cast<std::size_t>(Phase::poll)] = counts.polled.get();
        all.back().count[static_cast<std::size_t>(Phase::wake)] = counts.woken.get();
    }
    const auto submit = static_cast<std::size_t>(Phase::submit);
    const PhaseCounters submitted = impl_->submit_trace_.counters();
    all[0].ns[submit] += submitted.ns[submit];
    all[0].count[submit] += submitted.count[submit];
    return all;
}

std::vector<TraceRecord> Runtime::trace(unsigned worker) const {
    return worker < impl_->workers_.size() ? impl_->workers_[worker]->trace.records() : std::vector<TraceRecord>();
}

std::vector<Edge> Runtime::edges() const { return impl_->edge_log_; }

}  // namespace whet::graph
