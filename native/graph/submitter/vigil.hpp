// One thread's waiting, for every wait there is: runs tasks as worker 0 while that seat is free, naps otherwise, and
// about every 20 ms asks whether it was interrupted. The lock is held between the calls of pass() and not during them.
#pragma once

#include "graph/runtime_impl.hpp"

namespace whet::graph {

// A clock for deciding whether it is time to read the real one, which costs several times as much.
inline std::uint64_t coarse_ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return now_ns();
#endif
}

class Runtime::Impl::Vigil {
  public:
    // timeout_ns 0: no limit.
    // `heeds` interrupts of bodies: they are told once, to whoever heeds them first.
    Vigil(Impl& impl, Watch watch, std::uint64_t timeout_ns, bool helps, bool heeds = true)
        : impl_(impl),
          watch_(watch),
          timeout_ns_(timeout_ns),
          helps_(helps),
          heeds_(heeds),
          patience_(impl.may_spin_) {}

    // Others may sleep beside what this thread leaves in its queue.
    ~Vigil() {
        if (!seated_) return;
        impl_.core_.step_aside(0);
        impl_.seat_.store(false, std::memory_order_release);
    }
    Vigil(const Vigil&) = delete;
    Vigil& operator=(const Vigil&) = delete;

    // Some tasks, or a nap. Code::interrupted, timed_out and stalled end the waiting.
    Status pass() {
        impl_.lock_.unlock();
        const bool worked = help();
        if (!worked) impl_.pause_submitter(patience_);
        if (seated_) impl_.workers_[0]->trace.mark(worked ? Phase::completion : Phase::idle);
        Status status = look_up(worked);
        impl_.enter();
        if (status.ok() && !worked && impl_.is_stalled()) status = impl_.stalled();
        return status;
    }

  private:
    static constexpr std::uint64_t kAskEveryNs = 20'000'000;
    static constexpr std::uint64_t kShortTicks = 100'000;   // 25 to 50 us
    static constexpr std::uint64_t kLongTicks = 2'000'000;  // 0.5 to 1 ms

    bool help() {
        if (!helps_) return false;
        if (!seated_) {
            if (impl_.seat_.exchange(true, std::memory_order_acquire)) return false;
            seated_ = true;
            impl_.workers_[0]->trace.begin();
        }
        if (!impl_.step(0, impl_.at_once_)) return false;
        patience_.reset();
        return true;
    }

    // After short bodies more of them are run before the clock is read, after long ones fewer.
    Status look_up(bool worked) {
        if (heeds_ && impl_.attention_.load(std::memory_order_relaxed) &&
            impl_.attention_.exchange(false, std::memory_order_acquire)) {
            return {Code::interrupted, 0, 0, {}};
        }
        const std::uint64_t ticks = coarse_ticks();
        const std::uint64_t spent = ticks - ticks_;
        ticks_ = ticks;
        if (worked && spent > kLongTicks) {
            impl_.at_once_ = 1;
        } else if (worked && spent < kShortTicks && impl_.at_once_ < impl_.steps_at_once_) {
            impl_.at_once_ *= 2;
        }
        unread_ += spent;
        if (unread_ < kLongTicks) return {};
        unread_ = 0;
        const std::uint64_t now = now_ns();
        if (begun_ns_ == 0) begun_ns_ = asked_ns_ = now;
        if (watch_.interrupted != nullptr && now - asked_ns_ >= kAskEveryNs) {
            const bool interrupted = watch_.interrupted(watch_.context);
            asked_ns_ = now_ns();
            if (interrupted) {
                impl_.cancel();
                return {Code::interrupted, 0, 0, {}};
            }
        }
        if (timeout_ns_ != 0 && now - begun_ns_ >= timeout_ns_) return {Code::timed_out, 0, 0, {}};
        return {};
    }

    Impl& impl_;
    const Watch watch_;
    const std::uint64_t timeout_ns_;
    const bool helps_;
    const bool heeds_;
    bool seated_ = false;
    Patience patience_;
    std::uint64_t ticks_ = coarse_ticks();
    std::uint64_t unread_ = 0;
    std::uint64_t begun_ns_ = timeout_ns_ != 0 ? now_ns() : 0;  // 0: not read yet
    std::uint64_t asked_ns_ = begun_ns_;
};

}  // namespace whet::graph
