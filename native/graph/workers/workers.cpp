// Running bodies, and the life of a worker thread.
#include "graph/workers/workers.hpp"

#include <cxxabi.h>

#include <system_error>

#include "graph/pool/pool.hpp"

namespace whet::graph {

namespace {

constexpr std::uint64_t kPollNs = 100'000;

}  // namespace

thread_local constinit const Workers::Inside* Workers::inside_ = nullptr;

Workers::Workers(const Config& config, Core<MachineSeam>& core, Outcomes<MachineSeam>& outcomes,
                 const Reclaimer<MachineSeam>& tasks)
    : config_(config),
      core_(core),
      outcomes_(outcomes),
      tasks_(tasks),
      may_spin_(config.workers <= Pool::hardware_workers()),
      steps_at_once_(config.trace == TraceLevel::off ? kStepsAtOnce : 1) {
    for (unsigned worker = 0; worker < config.workers; ++worker) workers_.push_back(std::make_unique<Worker>(config));
}

// Both come before the byte that says failed.
void Workers::fail(std::uint32_t slot, int result, std::string message) {
    // An interrupt is told by itself, see interrupt().
    outcomes_.fail(task_in(slot), {result, tasks_.ledger(slot).name, false, std::move(message)},
                   result != kInterruptedBody);
}

void Workers::drop(std::uint32_t slot) { outcomes_.cancel_one(task_in(slot), tasks_.ledger(slot).name); }

// A body was interrupted: what has not begun is dropped, and whoever waits, now or next, is told.
void Workers::interrupt() {
    outcomes_.cancel_all(core_);
    attention_.store(true, std::memory_order_release);
}

void Workers::rest(Worker& self) {
    self.lent = false;
    config_.on_rest();
    fall_silent(self);
}

void Workers::fall_silent(Worker& self) {
    if (!self.speaks) return;
    self.speaks = false;
    speaker_.store(0, std::memory_order_relaxed);
}

// Callables share something that only one of them has at a time, the interpreter lock. A second worker that comes for
// it waits with a task in its hands that others may wait for, and handing it over takes longer than most of these
// bodies do. So one worker at a time runs them, and another leaves what it finds in its queue, from where the first
// takes it.
inline bool Workers::holds_back(unsigned worker, Worker& self, bool callable) {
    if (!callable || self.lent) [[likely]]
        return false;
    unsigned speaker = 0;
    if (config_.on_rest == nullptr || self.speaks) return false;
    self.speaks = speaker_.compare_exchange_strong(speaker, worker + 1, std::memory_order_relaxed);
    return !self.speaks && leaves_to(speaker, self);
}

// Unless the bodies are long, which shows in how few are done during a nap: then the lock is free meanwhile, or the
// body waits for something, and they run beside each other.
[[gnu::noinline]] bool Workers::leaves_to(unsigned speaker, Worker& self) {
    if (self.beside != 0) {
        --self.beside;
        return false;
    }
    const std::uint64_t run = at(speaker - 1).completed.load(std::memory_order_relaxed);
    if (self.left_to == speaker && run - self.seen < kFewInNap) {
        self.left_to = 0;
        self.beside = kBesideAtOnce;
        return false;
    }
    self.left_to = speaker;
    self.seen = run;
    self.held_back = true;
    return true;
}

[[gnu::always_inline]] inline Progress Workers::run_body(unsigned worker, std::uint32_t slot, Slot<MachineSeam>& own) {
    void** const arguments = own.arguments.get();
    const auto* scalars = reinterpret_cast<const std::uint64_t*>(arguments + own.tensor_count.get());
    int result = 0;
    try {
        result = own.body.get()(arguments, scalars, own.user.get());
    } catch (abi::__forced_unwind&) {
        // The body ends its thread. What this worker holds stays visible to the others; a replacement takes its place.
        fail(slot, 0, kEndedThread);
        at(worker).lent = false;
        fall_silent(at(worker));
        at(worker).running.store(0, std::memory_order_relaxed);
        core_.abandon(worker, slot);
        at(worker).begun.store(0, std::memory_order_release);
        at(worker).completed.fetch_add(1, std::memory_order_relaxed);
        // Its thread holds the owner, so it is there.
        if (worker != 0) (void)start_thread(worker, owner_.lock());
        throw;
    } catch (...) {
        return ended_badly(slot, -1, thrown_in_words());
    }
    return result == 0 ? Progress::done : ended_badly(slot, result, {});
}

// The body returned something else than 0, or threw.
[[gnu::noinline]] Progress Workers::ended_badly(std::uint32_t slot, int result, std::string message) {
    if (result == kDroppedBody) {
        drop(slot);
        return Progress::failed;
    }
    fail(slot, result, std::move(message));
    if (result == kInterruptedBody) interrupt();
    return Progress::failed;
}

[[gnu::always_inline]] inline Progress Workers::execute(Core<MachineSeam>& core, unsigned worker, Worker& self,
                                                        std::uint32_t slot, Slot<MachineSeam>& own, bool callable) {
    // Before the question whether it is cancelled, so that whoever cancels it alone can tell who came first: see
    // cancel_one(). The release is for whoever sees that this worker has gone on to another task.
    self.begun.store(slot + 1, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const bool barred = outcomes_.bars(core, slot, own);
    self.trace.mark(Phase::dispatch);
    Progress result = Progress::done;
    if (barred) {
        drop(slot);
        if (config_.on_cancelled) config_.on_cancelled(own.user.get(), static_cast<Kind>(own.kind.get()));
        result = Progress::failed;
    } else if (own.body.get() != nullptr) {
        if (callable) {
            self.lent = config_.on_rest != nullptr;
        } else if (self.lent) [[unlikely]] {
            rest(self);
        }
        self.running.store(slot + 1, std::memory_order_relaxed);
        result = run_body(worker, slot, own);
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

bool Workers::step(unsigned worker, unsigned most) {
    const Inside here{this, inside_, worker};
    // A body that ends its thread takes the way back through here.
    struct Leave {
        const Inside* outer;
        ~Leave() { inside_ = outer; }
    } const leave{inside_};
    inside_ = &here;
    Worker& self = at(worker);
    Core<MachineSeam>& core = core_;
    self.held_back = false;
    // Of the task at hand, found once: what is read of memory again after every store would be found again.
    Slot<MachineSeam>* own = nullptr;
    bool callable = false;
    const auto holds_back_from = [&](std::uint32_t slot) {
        own = &core.table()[slot];
        callable = static_cast<Kind>(own->kind.get()) == Kind::callable;
        return holds_back(worker, self, callable);
    };
    const bool worked = core.step(
        worker, most, [&](std::uint32_t slot) { return execute(core, worker, self, slot, *own, callable); },
        [this] { return attention_.load(std::memory_order_relaxed); }, holds_back_from);
    if (worked) self.begun.store(0, std::memory_order_release);
    if (self.lent) [[unlikely]]
        rest(self);
    fall_silent(self);
    if (worked) listening_.nudge_all();
    return worked;
}

void Workers::serve(unsigned worker) {
    Worker& self = at(worker);
    Patience patience(may_spin_);
    self.trace.begin();
    while (!stop_.load(std::memory_order_acquire)) {
        if (step(worker, steps_at_once_)) {
            self.trace.mark(Phase::completion);
            patience.reset();
            continue;
        }
        if (self.held_back) {
            nap();
        } else if (!patience.wait()) {
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

Status Workers::start(const std::shared_ptr<void>& owner) {
    owner_ = owner;
    for (unsigned worker = 1; worker < count(); ++worker) {
        if (Status status = start_thread(worker, owner); !status.ok()) return status;
    }
    return {};
}

void Workers::stop() {
    stop_.store(true, std::memory_order_seq_cst);
    core_.sleeping().wake_everybody();
}

Status Workers::start_thread(unsigned worker, std::shared_ptr<void> owner) {
    try {
        threads_.start(std::move(owner), [this, worker] { serve(worker); });
    } catch (const std::system_error& error) {
        return {Code::bad_argument, 0, 0, "workers: the system starts no more threads: " + std::string(error.what())};
    }
    return {};
}

bool Workers::any_running() const {
    for (const auto& worker : workers_) {
        if (worker->running.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
}

std::uint64_t Workers::completions() const {
    std::uint64_t sum = 0;
    for (const auto& worker : workers_) sum += worker->completed.load(std::memory_order_relaxed);
    return sum;
}

}  // namespace whet::graph
