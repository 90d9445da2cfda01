// The public face: checks the caller and the configuration, then hands over to Impl.
#include "graph/runtime.hpp"

#include <bit>
#include <system_error>

#include "graph/pool/pool.hpp"
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
    shape.timed = config.trace != TraceLevel::off;
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
      tracks_(new Track[static_cast<std::size_t>(config.window) * kInlineTracks]),
      arguments_(new void*[static_cast<std::size_t>(config.window) * kInlineArguments]),
      submit_trace_(config.trace, 0),
      core_(shape_of(config)),
      tasks_(core_, outcomes_, config_),
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
            (void)shutdown(0, {});
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
    if (impl_->is_forked()) {
        // The threads of the parent are not here to be joined; the copy of their state stays.
        new std::shared_ptr<Impl>(std::move(impl_));
        return;
    }
    if (!impl_->is_inside()) {
        (void)impl_->shutdown(0, {});
        return;
    }
    // The last reference was dropped in a body of this runtime, which cannot wait for its own end.
    try {
        std::thread([impl = impl_] { (void)impl->shutdown(0, {}); }).detach();
    } catch (const std::system_error&) {
        new std::shared_ptr<Impl>(std::move(impl_));
    }
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

Runtime::Turn::Turn(Runtime& runtime, Watch watch)
    : runtime_(runtime), watch_(watch), refused_(runtime.impl_->check_caller()) {
    if (refused_ != Code::ok) return;
    runtime_.impl_->enter();
    refused_ = runtime_.impl_->check_open();
    if (refused_ != Code::ok) runtime_.impl_->lock_.unlock();
}

Runtime::Turn::~Turn() {
    if (refused_ == Code::ok) runtime_.impl_->lock_.unlock();
}

Status Runtime::Turn::submit(TaskSpec& task, TaskId& id, bool more) {
    if (refused_ != Code::ok) return {refused_, 0, 0, {}};
    Impl& impl = *runtime_.impl_;
    impl.submit_trace_.begin();
    const Code code = impl.submit(task, id, {watch_});
    if (more) {
        impl.flush_some();
    } else {
        impl.flush();
    }
    impl.submit_trace_.mark(Phase::submit);
    if (code == Code::ok) return {};
    return impl.refusal();
}

Status Runtime::Turn::submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more) {
    submitted = 0;
    if (refused_ != Code::ok) return {refused_, 0, 0, {}};
    Impl& impl = *runtime_.impl_;
    Status status;
    impl.submit_trace_.begin();
    first = impl.tasks_.head();
    Impl::Terms terms{watch_};
    for (TaskSpec& task : tasks) {
        TaskId id = 0;
        terms.expected = first + submitted;
        const Code code = impl.submit(task, id, terms);
        if (code != Code::ok) {
            status = impl.refusal();
            break;
        }
        ++submitted;
        impl.flush_some();
    }
    if (!more) impl.flush();
    impl.submit_trace_.mark(Phase::submit);
    return status;
}

void Runtime::Turn::flush() {
    if (refused_ == Code::ok) runtime_.impl_->flush();
}

Status Runtime::Turn::scope_begin(ScopeMode mode) {
    if (refused_ != Code::ok) return {refused_, 0, 0, {}};
    return runtime_.impl_->tasks_.scope_begin(mode, nullptr);
}

Status Runtime::Turn::scope_end() {
    if (refused_ != Code::ok) return {refused_, 0, 0, {}};
    return runtime_.impl_->tasks_.scope_end(0);
}

std::size_t Runtime::Turn::scope_depth() const {
    return refused_ == Code::ok ? runtime_.impl_->tasks_.scope_depth() : 0;
}

TaskId Runtime::Turn::next_id() const { return runtime_.impl_->tasks_.head(); }

bool Runtime::Turn::let_others_or_interrupted() {
    constexpr std::uint64_t kAskEveryNs = 20'000'000;
    if (refused_ != Code::ok) return false;
    const std::uint64_t now = now_ns();
    if (asked_ns_ == 0) asked_ns_ = now;
    const bool asks = watch_.interrupted != nullptr && now - asked_ns_ >= kAskEveryNs;
    Impl& impl = *runtime_.impl_;
    if (!asks && !impl.lock_.wanted()) return false;
    impl.flush();
    impl.lock_.unlock();
    const bool interrupted = asks && watch_.interrupted(watch_.context);
    if (asks) asked_ns_ = now;
    if (interrupted) impl.cancel();
    impl.enter();
    return interrupted;
}

Status Runtime::submit(TaskSpec& task, TaskId& id, bool more, Watch watch) {
    return impl_->is_inside() ? impl_->submit_inside(task, id, watch) : Turn(*this, watch).submit(task, id, more);
}

bool Runtime::submit_at_once(TaskSpec& task, TaskId& id, Status& status) {
    status = {impl_->is_forked() ? Code::forked : Code::ok, 0, 0, {}};
    if (!status.ok()) return true;
    const Impl::Hold hold(*impl_);
    impl_->submit_trace_.begin();
    const Code code = impl_->submit(task, id, {.may_wait = false});
    if (code == Code::timed_out) return false;
    impl_->flush();
    impl_->submit_trace_.mark(Phase::submit);
    if (code != Code::ok) status = impl_->refusal();
    return true;
}

Status Runtime::submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more, Watch watch) {
    return Turn(*this, watch).submit_many(tasks, first, submitted, more);
}

Status Runtime::flush() {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    impl_->flush();
    return status;
}

TaskId Runtime::next_id() const {
    const Impl::Hold hold(*impl_);
    return impl_->tasks_.head();
}

Status Runtime::alloc(std::span<TensorArg> tensors, TaskId& id) {
    for (TensorArg& tensor : tensors) tensor.direction = Direction::out;
    TaskSpec task;
    task.tensors = tensors;
    return submit(task, id);
}

Status Runtime::scope_begin(ScopeMode mode, std::uint32_t* number) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    status.code = impl_->check_open();
    return status.ok() ? impl_->tasks_.scope_begin(mode, number) : status;
}

Status Runtime::scope_end(std::uint32_t number) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    status.code = impl_->check_open();
    return status.ok() ? impl_->tasks_.scope_end(number) : status;
}

std::size_t Runtime::scope_depth() const {
    const Impl::Hold hold(*impl_);
    return impl_->tasks_.scope_depth();
}

Status Runtime::wait_all(std::uint64_t timeout_ns, Watch watch, TaskId* collected) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    if (impl_->shut_down_) return {Code::shut_down, 0, 0, {}};
    return impl_->wait_all(timeout_ns, watch, collected);
}

Status Runtime::wait(TaskId task, std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    // What became of a task can be asked after the end as well.
    return impl_->shut_down_ && !impl_->tasks_.done(task) ? Status{Code::shut_down, 0, 0, {}}
                                                          : impl_->wait(task, timeout_ns, watch);
}

Status Runtime::wait_all_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    return impl_->wait_all_of(tasks, timeout_ns, watch);
}

Status Runtime::wait_any_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    return impl_->wait_any_of(tasks, timeout_ns, watch);
}

void Runtime::look(std::span<const TaskId> tasks, TaskState* states) const {
    const Impl::Hold hold(*impl_);
    for (std::size_t at = 0; at < tasks.size(); ++at) states[at] = impl_->state(tasks[at]);
}

Status Runtime::listen(std::span<const TaskId> tasks, std::uint64_t timeout_ns) {
    return impl_->is_forked() ? Status{Code::forked, 0, 0, {}} : impl_->listen(tasks, timeout_ns);
}

void Runtime::help(std::uint64_t timeout_ns) {
    if (impl_->check_caller() == Code::ok) impl_->help(timeout_ns);
}

Status Runtime::settle(std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Impl::Hold hold(*impl_);
    return impl_->shut_down_ ? Status{Code::shut_down, 0, 0, {}} : impl_->settle(timeout_ns, watch);
}

bool Runtime::done(TaskId task) const {
    const Impl::Hold hold(*impl_);
    return impl_->tasks_.done(task);
}

void Runtime::cancel() { impl_->cancel(); }

void Runtime::cancel_these(std::span<const TaskId> tasks) {
    const Impl::Hold hold(*impl_);
    impl_->outcomes_.cancel_these(tasks, [this](TaskId task) { return impl_->tasks_.done(task); });
}

bool Runtime::cancel_one(TaskId task) { return !impl_->is_forked() && impl_->cancel_one(task); }

Status Runtime::shutdown(std::uint64_t timeout_ns, Watch watch) {
    const Status status{impl_->check_caller(), 0, 0, {}};
    return status.ok() ? impl_->shutdown(timeout_ns, watch) : status;
}

Code Runtime::usable() const { return impl_->is_forked() ? Code::forked : Code::ok; }

Peaks Runtime::peaks() const {
    const Impl::Hold hold(*impl_);
    return impl_->peaks();
}

Totals Runtime::totals() const {
    const Impl::Hold hold(*impl_);
    return impl_->totals();
}

std::vector<Waiting> Runtime::watchdog(std::size_t most) const {
    const Impl::Hold hold(*impl_);
    return impl_->watchdog(most);
}

std::vector<PhaseCounters> Runtime::phases() const {
    std::vector<PhaseCounters> all;
    for (unsigned worker = 0; worker < impl_->workers_.size(); ++worker) {
        all.push_back(impl_->workers_[worker]->trace.counters());
        const WorkerCounts& counts = impl_->core_.counts(worker);
        const auto poll = static_cast<std::size_t>(Phase::poll);
        const auto wake = static_cast<std::size_t>(Phase::wake);
        all.back().count[poll] = counts.looked.get();
        all.back().ns[poll] = counts.poll_ns.get();
        all.back().count[wake] = counts.woken.get();
        all.back().ns[wake] = counts.wake_ns.get();
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

std::vector<Edge> Runtime::edges() const {
    const Impl::Hold hold(*impl_);
    return impl_->tasks_.edge_log();
}

}  // namespace whet::graph
