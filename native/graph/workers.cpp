// The worker threads: run bodies, keep the first error, sleep when there is nothing to do.
#include <cxxabi.h>

#include <exception>
#include <system_error>

#include "graph/runtime_impl.hpp"

namespace whet::graph {

namespace {

// The runtimes whose bodies this thread is in, innermost first: a body may use another runtime and run its bodies while
// it waits. Submitting to one of them from there would wait for oneself.
struct Inside {
    const void* runtime;
    const Inside* outer;
    unsigned worker;
};
thread_local const Inside* inside __attribute__((tls_model("initial-exec"))) = nullptr;

constexpr std::uint64_t kPollNs = 100'000;

}  // namespace

Code Runtime::Impl::check_caller() const {
    if (is_forked()) return Code::forked;
    return is_inside() ? Code::nested_submit : Code::ok;
}

bool Runtime::Impl::is_inside() const { return worker_here() >= 0; }

// As which worker this thread is in a body of this runtime, -1: it is in none.
int Runtime::Impl::worker_here() const {
    for (const Inside* at = inside; at != nullptr; at = at->outer) {
        if (at->runtime == this) return static_cast<int>(at->worker);
    }
    return -1;
}

std::string Runtime::Impl::name_text(std::uint32_t name) const {
    if (name == 0) return {};
    const std::lock_guard<std::mutex> guard(names_lock_);
    return " (" + names_[name] + ")";
}

Status Runtime::Impl::status_of(TaskId task, const Failure& failure) const {
    const Code code = failure.cancelled ? Code::cancelled : Code::task_failed;
    Status status{code, task, failure.result, "task " + std::to_string(task) + name_text(failure.name)};
    if (failure.cancelled) {
        status.detail += " was not begun: a task it depends on failed, or it was cancelled";
    } else {
        status.detail +=
            failure.message.empty() ? " returned " + std::to_string(failure.result) : ": " + failure.message;
    }
    return status;
}

// Both come before the byte that says failed.
void Runtime::Impl::fail(std::uint32_t slot, int result, std::string message) {
    // An interrupt is told by itself, see interrupt().
    outcomes_.fail(task_in(slot), {result, tasks_.ledger(slot).name, false, std::move(message)},
                   result != kInterruptedBody);
}

void Runtime::Impl::drop(std::uint32_t slot) { outcomes_.cancel_one(task_in(slot), tasks_.ledger(slot).name); }

// A body was interrupted: what has not begun is dropped, and whoever waits, now or next, is told.
void Runtime::Impl::interrupt() {
    cancel();
    attention_.store(true, std::memory_order_release);
}

void Runtime::Impl::rest(Worker& worker) {
    worker.lent = false;
    config_.on_rest();
}

[[gnu::always_inline]] inline Progress Runtime::Impl::run_body(unsigned worker, std::uint32_t slot) {
    auto& own = core_.table()[slot];
    void** const arguments = own.arguments.get();
    const auto* scalars = reinterpret_cast<const std::uint64_t*>(arguments + own.tensor_count.get());
    int result = -1;
    std::string message;
    try {
        result = own.body.get()(arguments, scalars, own.user.get());
        if (result == 0) [[likely]]
            return Progress::done;
    } catch (abi::__forced_unwind&) {
        // The body ends its thread. What this worker holds stays visible to the others; a replacement takes its place.
        fail(slot, 0, kEndedThread);
        workers_[worker]->lent = false;
        workers_[worker]->running.store(0, std::memory_order_relaxed);
        core_.abandon(worker, slot);
        workers_[worker]->begun.store(0, std::memory_order_release);
        workers_[worker]->completed.fetch_add(1, std::memory_order_relaxed);
        if (worker != 0) (void)start_thread(worker);
        throw;
    } catch (const std::exception& error) {
        message = error.what();
    } catch (...) {
        message = kUnknownException;
    }
    if (result == kDroppedBody) {
        drop(slot);
        return Progress::failed;
    }
    fail(slot, result, std::move(message));
    if (result == kInterruptedBody) interrupt();
    return Progress::failed;
}

[[gnu::always_inline]] inline Progress Runtime::Impl::execute(unsigned worker, std::uint32_t slot) {
    auto& own = core_.table()[slot];
    Worker& self = *workers_[worker];
    // Before the question whether it is cancelled, so that whoever cancels it alone can tell who came first: see
    // cancel_one(). The release is for whoever sees that this worker has gone on to another task.
    self.begun.store(slot + 1, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const bool barred = outcomes_.bars(core_, slot);
    self.trace.mark(Phase::dispatch);
    Progress result = Progress::done;
    if (barred) {
        drop(slot);
        if (config_.on_cancelled) config_.on_cancelled(own.user.get(), static_cast<Kind>(own.kind.get()));
        result = Progress::failed;
    } else if (own.body.get() != nullptr) {
        if (static_cast<Kind>(own.kind.get()) == Kind::callable) {
            self.lent = config_.on_rest != nullptr;
        } else if (self.lent) [[unlikely]] {
            rest(self);
        }
        self.running.store(slot + 1, std::memory_order_relaxed);
        result = run_body(worker, slot);
        self.running.store(0, std::memory_order_relaxed);
    }
    if (self.trace.on()) {
        const std::uint64_t begin = self.trace.last();
        self.trace.mark(Phase::body);
        self.trace.record({task_in(slot), begin, self.trace.last(), tasks_.ledger(slot).name, slot});
    }
    // One writer, so no read-modify-write is needed.
    self.completed.store(self.completed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return result;
}

bool Runtime::Impl::step(unsigned worker, unsigned most) {
    const Inside here{this, inside, worker};
    // A body that ends its thread takes the way back through here.
    struct Leave {
        const Inside* outer;
        ~Leave() { inside = outer; }
    } const leave{inside};
    inside = &here;
    const bool worked = core_.step(
        worker, most, [this, worker](std::uint32_t slot) { return execute(worker, slot); },
        [this] { return attention_.load(std::memory_order_relaxed); });
    if (worked) workers_[worker]->begun.store(0, std::memory_order_release);
    if (workers_[worker]->lent) [[unlikely]]
        rest(*workers_[worker]);
    if (worked) listening_.nudge_all();
    return worked;
}

void Runtime::Impl::serve(unsigned worker) {
    Worker& self = *workers_[worker];
    Patience patience(may_spin_);
    self.trace.begin();
    while (!stop_.load(std::memory_order_acquire)) {
        if (step(worker, steps_at_once_)) {
            self.trace.mark(Phase::completion);
            patience.reset();
            continue;
        }
        if (!patience.wait()) {
            waiting_.nudge_all();
            // After a nap without news it goes back to sleep at once.
            if (core_.sleep(
                    worker, kPollNs, [this] { return stop_.load(std::memory_order_seq_cst); },
                    [this] { return completions() != core_.stream().submitted(); })) {
                patience.reset();
            }
        }
        self.trace.mark(Phase::idle);
    }
}

Status Runtime::Impl::start_thread(unsigned worker) {
    try {
        threads_.start(shared_from_this(), [this, worker] { serve(worker); });
    } catch (const std::system_error& error) {
        return {Code::bad_argument, 0, 0, "workers: the system starts no more threads: " + std::string(error.what())};
    }
    return {};
}

bool Runtime::Impl::any_running() const {
    for (const auto& worker : workers_) {
        if (worker->running.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
}

std::uint64_t Runtime::Impl::completions() const {
    std::uint64_t sum = 0;
    for (const auto& worker : workers_) sum += worker->completed.load(std::memory_order_relaxed);
    return sum;
}

}  // namespace whet::graph
