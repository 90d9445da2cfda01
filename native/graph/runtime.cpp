// The public face: checks the caller and the configuration, then hands over to Impl.
#include "graph/runtime.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <system_error>
#include <thread>

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

Runtime::Impl::Impl(const Config& given)
    : config(given),
      core(shape_of(given)),
      submitter(config, core, outcomes, names),
      workers(config, core, outcomes, submitter.tasks()),
      waits(config, core, outcomes, submitter, workers, names) {}

Status Runtime::Impl::start() {
    if (!submitter.has_heap())
        return {Code::bad_argument, 0, 0, "heap_bytes: the system grants no memory of this size"};
    Status status = workers.start(shared_from_this());
    if (!status.ok()) (void)shutdown(0, {});
    return status;
}

// Until no worker thread is left. False at the end of the time, or with a status after an interrupt.
bool Runtime::Impl::await_threads(std::uint64_t until_ns, Watch watch, Status& status) {
    constexpr std::chrono::milliseconds kLook{20};
    while (!workers.await_none(kLook)) {
        if (until_ns != 0 && now_ns() >= until_ns) return false;
        if (watch.interrupted == nullptr || !watch.interrupted(watch.context)) continue;
        status.code = Code::interrupted;
        return false;
    }
    return true;
}

Status Runtime::Impl::shutdown(std::uint64_t timeout_ns, Watch watch) {
    constexpr std::uint64_t kGraceNs = 10'000'000;  // for the threads to end, when the tasks took all the time
    const std::uint64_t begun = now_ns();
    Status status;
    bool all_done = false;
    {
        const Submitter::Hold hold(submitter);
        if (submitter.is_shut_down()) return {};
        submitter.advance_to(Submitter::Stage::closing);
        submitter.flush();
        cancel();
        // What has not begun is cancelled here, so that on_cancelled is called for every task that does not run.
        status = waits.drain(timeout_ns, watch, all_done);
        if (!status.ok()) return status;
    }
    workers.stop();
    const std::uint64_t until = timeout_ns == 0 ? 0 : std::max(begun + timeout_ns, now_ns() + kGraceNs);
    const bool all_gone = await_threads(until, watch, status);
    if (!status.ok()) return status;
    if (all_gone) {
        workers.join_all();
    } else {
        workers.leave_all();
    }
    const Submitter::Hold hold(submitter);
    const bool first = !submitter.is_shut_down();
    submitter.advance_to(Submitter::Stage::shut_down);
    if (!all_gone || !all_done) return {Code::timed_out, 0, 0, "a body did not return; its thread is left behind"};
    if (first) submitter.tasks().retire_all();
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
    if (impl_->submitter.is_forked()) {
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

const Config& Runtime::config() const { return impl_->config; }

std::uint32_t Runtime::name_task(const std::string& name) { return impl_->names.number_of(name); }

std::string Runtime::name_of(std::uint32_t name) const { return impl_->names.name_of(name); }

[[gnu::always_inline]] inline Code Runtime::Impl::submit(TaskSpec& task, TaskId& id, bool more, Watch watch) {
    submitter.trace().begin();
    Code code = submitter.submit(task, id);
    if (code == Submitter::kNoRoom) [[unlikely]]
        code = waits.submit_later(task, id, watch);
    if (more) {
        submitter.flush_some();
    } else {
        submitter.flush();
    }
    submitter.trace().mark(Phase::submit);
    return code;
}

inline Code Runtime::Impl::scope_begin(ScopeMode mode, std::uint32_t* number) {
    return submitter.tasks().scope_begin(mode, number)
               ? Code::ok
               : submitter.refuse({Code::scope_mismatch, submitter.tasks().head(), 0,
                                   "an automatic scope cannot begin inside a manual one"});
}

inline Code Runtime::Impl::scope_end(std::uint32_t number) {
    return submitter.tasks().scope_end(number)
               ? Code::ok
               : submitter.refuse({Code::scope_mismatch, submitter.tasks().head(), 0, "no scope is open"});
}

Runtime::Turn::Turn(Runtime& runtime, Watch watch)
    : impl_(*runtime.impl_), watch_(watch), refused_(impl_.check_caller()) {
    if (refused_ != Code::ok) return;
    impl_.submitter.enter();
    refused_ = impl_.check_open();
    if (refused_ != Code::ok) impl_.submitter.leave();
}

Runtime::Turn::~Turn() {
    if (refused_ == Code::ok) impl_.submitter.leave();
}

Code Runtime::Turn::submit(TaskSpec& task, TaskId& id, bool more) {
    return refused_ == Code::ok ? impl_.submit(task, id, more, watch_) : refused_;
}

Code Runtime::Turn::submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more) {
    submitted = 0;
    if (refused_ != Code::ok) return refused_;
    Submitter& submitter = impl_.submitter;
    Code code = Code::ok;
    submitter.trace().begin();
    first = submitter.tasks().head();
    for (TaskSpec& task : tasks) {
        TaskId id = 0;
        code = submitter.submit(task, id);
        if (code != Code::ok) [[unlikely]] {
            if (code == Submitter::kNoRoom) code = impl_.waits.submit_later(task, id, watch_, first + submitted);
            if (code != Code::ok) break;
        }
        ++submitted;
        submitter.flush_some();
    }
    if (!more) submitter.flush();
    submitter.trace().mark(Phase::submit);
    // Another thread's task came in between: no error, the rest has not been submitted.
    return code == Waits::kOutOfOrder ? Code::ok : code;
}

void Runtime::Turn::flush() {
    if (refused_ == Code::ok) impl_.submitter.flush();
}

Code Runtime::Turn::scope_begin(ScopeMode mode) {
    return refused_ == Code::ok ? impl_.scope_begin(mode, nullptr) : refused_;
}

Code Runtime::Turn::scope_end() { return refused_ == Code::ok ? impl_.scope_end(0) : refused_; }

Status Runtime::Turn::refusal() {
    return refused_ == Code::ok ? impl_.submitter.refusal() : Status{refused_, 0, 0, {}};
}

std::size_t Runtime::Turn::scope_depth() const {
    return refused_ == Code::ok ? impl_.submitter.tasks().scope_depth() : 0;
}

TaskId Runtime::Turn::next_id() const { return impl_.submitter.tasks().head(); }

bool Runtime::Turn::let_others_or_interrupted() {
    constexpr std::uint64_t kAskEveryNs = 20'000'000;
    if (refused_ != Code::ok) return false;
    const std::uint64_t now = now_ns();
    if (asked_ns_ == 0) asked_ns_ = now;
    const bool asks = watch_.interrupted != nullptr && now - asked_ns_ >= kAskEveryNs;
    if (!asks && !impl_.submitter.is_wanted()) return false;
    impl_.submitter.flush();
    impl_.submitter.leave();
    const bool interrupted = asks && watch_.interrupted(watch_.context);
    if (asks) asked_ns_ = now;
    if (interrupted) impl_.cancel();
    impl_.submitter.enter();
    return interrupted;
}

Status Runtime::submit(TaskSpec& task, TaskId& id, bool more, Watch watch) {
    if (impl_->is_inside()) [[unlikely]]
        return impl_->waits.submit_inside(task, id, watch);
    Turn turn(*this, watch);
    const Code code = turn.submit(task, id, more);
    return code == Code::ok ? Status{} : turn.refusal();
}

bool Runtime::submit_at_once(TaskSpec& task, TaskId& id, Status& status) {
    status = {impl_->submitter.is_forked() ? Code::forked : Code::ok, 0, 0, {}};
    if (!status.ok()) return true;
    const Submitter::Hold hold(impl_->submitter);
    Submitter& submitter = impl_->submitter;
    submitter.trace().begin();
    const Code code = submitter.submit(task, id);
    if (code == Submitter::kNoRoom) return false;
    submitter.flush();
    submitter.trace().mark(Phase::submit);
    if (code != Code::ok) status = submitter.refusal();
    return true;
}

Status Runtime::submit_many(std::span<TaskSpec> tasks, TaskId& first, std::size_t& submitted, bool more, Watch watch) {
    Turn turn(*this, watch);
    const Code code = turn.submit_many(tasks, first, submitted, more);
    return code == Code::ok ? Status{} : turn.refusal();
}

Status Runtime::flush() {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Submitter::Hold hold(impl_->submitter);
    impl_->submitter.flush();
    return status;
}

TaskId Runtime::next_id() const {
    const Submitter::Hold hold(impl_->submitter);
    return impl_->submitter.tasks().head();
}

Status Runtime::alloc(std::span<TensorArg> tensors, TaskId& id) {
    for (TensorArg& tensor : tensors) tensor.direction = Direction::out;
    TaskSpec task;
    task.tensors = tensors;
    return submit(task, id);
}

Status Runtime::scope_begin(ScopeMode mode, std::uint32_t* number) {
    Turn turn(*this);
    const Code code = turn.refused_ == Code::ok ? impl_->scope_begin(mode, number) : turn.refused_;
    return code == Code::ok ? Status{} : turn.refusal();
}

Status Runtime::scope_end(std::uint32_t number) {
    Turn turn(*this);
    const Code code = turn.refused_ == Code::ok ? impl_->scope_end(number) : turn.refused_;
    return code == Code::ok ? Status{} : turn.refusal();
}

std::size_t Runtime::scope_depth() const {
    const Submitter::Hold hold(impl_->submitter);
    return impl_->submitter.tasks().scope_depth();
}

Status Runtime::wait_all(std::uint64_t timeout_ns, Watch watch, TaskId* collected) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Submitter::Hold hold(impl_->submitter);
    if (impl_->submitter.is_shut_down()) return {Code::shut_down, 0, 0, {}};
    return impl_->waits.wait_all(timeout_ns, watch, collected);
}

Status Runtime::wait(TaskId task, std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Submitter::Hold hold(impl_->submitter);
    // What became of a task can be asked after the end as well.
    return impl_->submitter.is_shut_down() && !impl_->submitter.tasks().done(task)
               ? Status{Code::shut_down, 0, 0, {}}
               : impl_->waits.wait(task, timeout_ns, watch);
}

Status Runtime::wait_all_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Submitter::Hold hold(impl_->submitter);
    return impl_->waits.wait_all_of(tasks, timeout_ns, watch);
}

Status Runtime::wait_any_of(std::span<const TaskId> tasks, std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Submitter::Hold hold(impl_->submitter);
    return impl_->waits.wait_any_of(tasks, timeout_ns, watch);
}

void Runtime::look(std::span<const TaskId> tasks, TaskState* states) const {
    const Submitter::Hold hold(impl_->submitter);
    for (std::size_t at = 0; at < tasks.size(); ++at) states[at] = impl_->waits.state(tasks[at]);
}

Status Runtime::listen(std::span<const TaskId> tasks, std::uint64_t timeout_ns) {
    return impl_->submitter.is_forked() ? Status{Code::forked, 0, 0, {}} : impl_->waits.listen(tasks, timeout_ns);
}

void Runtime::help(std::uint64_t timeout_ns) {
    if (impl_->check_caller() == Code::ok) impl_->waits.help(timeout_ns);
}

Status Runtime::settle(std::uint64_t timeout_ns, Watch watch) {
    Status status{impl_->check_caller(), 0, 0, {}};
    if (!status.ok()) return status;
    const Submitter::Hold hold(impl_->submitter);
    return impl_->submitter.is_shut_down() ? Status{Code::shut_down, 0, 0, {}} : impl_->waits.settle(timeout_ns, watch);
}

bool Runtime::done(TaskId task) const {
    const Submitter::Hold hold(impl_->submitter);
    return impl_->submitter.tasks().done(task);
}

void Runtime::cancel() { impl_->cancel(); }

void Runtime::cancel_these(std::span<const TaskId> tasks) {
    const Submitter::Hold hold(impl_->submitter);
    impl_->outcomes.cancel_these(tasks, [this](TaskId task) { return impl_->submitter.tasks().done(task); });
}

bool Runtime::cancel_one(TaskId task) { return !impl_->submitter.is_forked() && impl_->waits.cancel_one(task); }

Status Runtime::shutdown(std::uint64_t timeout_ns, Watch watch) {
    const Status status{impl_->check_caller(), 0, 0, {}};
    return status.ok() ? impl_->shutdown(timeout_ns, watch) : status;
}

Code Runtime::usable() const { return impl_->submitter.is_forked() ? Code::forked : Code::ok; }

Peaks Runtime::peaks() const {
    const Submitter::Hold hold(impl_->submitter);
    Peaks peaks = impl_->submitter.peaks();
    for (unsigned worker = 0; worker < impl_->workers.count(); ++worker) {
        peaks.ready_overflows += impl_->core.queue(worker).overflowed();
    }
    return peaks;
}

Totals Runtime::totals() const {
    const Submitter::Hold hold(impl_->submitter);
    const Reclaimer<MachineSeam>& tasks = impl_->submitter.tasks();
    return {tasks.head(),
            impl_->workers.completions(),
            impl_->outcomes.failed_count(),
            impl_->outcomes.cancelled_count(),
            tasks.tail(),
            tasks.edges(),
            tasks.spilled()};
}

std::vector<Waiting> Runtime::watchdog(std::size_t most) const {
    const Submitter::Hold hold(impl_->submitter);
    return impl_->waits.watchdog().look(most);
}

std::vector<PhaseCounters> Runtime::phases() const {
    std::vector<PhaseCounters> all;
    for (unsigned worker = 0; worker < impl_->workers.count(); ++worker) {
        all.push_back(impl_->workers.trace(worker).counters());
        const WorkerCounts& counts = impl_->core.counts(worker);
        const auto poll = static_cast<std::size_t>(Phase::poll);
        const auto wake = static_cast<std::size_t>(Phase::wake);
        all.back().count[poll] = counts.looked.get();
        all.back().ns[poll] = counts.poll_ns.get();
        all.back().count[wake] = counts.woken.get();
        all.back().ns[wake] = counts.wake_ns.get();
    }
    const auto submit = static_cast<std::size_t>(Phase::submit);
    const PhaseCounters submitted = impl_->submitter.trace().counters();
    all[0].ns[submit] += submitted.ns[submit];
    all[0].count[submit] += submitted.count[submit];
    return all;
}

std::vector<TraceRecord> Runtime::trace(unsigned worker) const {
    return worker < impl_->workers.count() ? impl_->workers.trace(worker).records() : std::vector<TraceRecord>();
}

std::vector<Edge> Runtime::edges() const {
    const Submitter::Hold hold(impl_->submitter);
    return impl_->submitter.tasks().edge_log();
}

}  // namespace whet::graph
