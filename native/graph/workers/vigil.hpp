// One thread's waiting, for every wait there is: runs tasks as worker 0 while that seat is free, naps otherwise, and
// about every 20 ms asks whether it was interrupted. The lock is held between the calls of pass() and not during them.
#pragma once

#include <cstdint>

#include "graph/workers/watchdog.hpp"

namespace whet::graph {

// A clock for deciding whether it is time to read the real one, which costs several times as much.
inline std::uint64_t coarse_ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return now_ns();
#endif
}

// Those whom a waiting thread needs.
struct WaitingRoom {
    Core<MachineSeam>& core;
    Outcomes<MachineSeam>& outcomes;
    Submitter& submitter;
    Workers& workers;
    Watchdog& watchdog;
};

class Vigil {
  public:
    // timeout_ns 0: no limit.
    // `heeds` interrupts of bodies: they are told once, to whoever heeds them first.
    Vigil(const WaitingRoom& room, Watch watch, std::uint64_t timeout_ns, bool helps, bool heeds = true)
        : room_(room),
          watch_(watch),
          timeout_ns_(timeout_ns),
          helps_(helps),
          heeds_(heeds),
          seat_(room.workers),
          patience_(room.workers.may_spin()) {}
    Vigil(const Vigil&) = delete;
    Vigil& operator=(const Vigil&) = delete;

    // Some tasks, or a nap. Code::interrupted, timed_out and stalled end the waiting.
    Status pass() {
        room_.submitter.leave();
        const bool worked = helps_ && seat_.step();
        if (worked) {
            patience_.reset();
        } else if (seat_.is_held_back() || !patience_.wait()) {
            room_.workers.nap();
        }
        seat_.mark(worked ? Phase::completion : Phase::idle);
        Status status = look_up(worked);
        room_.submitter.enter();
        if (status.ok() && !worked && room_.watchdog.is_stalled()) status = room_.watchdog.stalled();
        return status;
    }

  private:
    static constexpr std::uint64_t kAskEveryNs = 20'000'000;
    static constexpr std::uint64_t kShortTicks = 100'000;   // 25 to 50 us
    static constexpr std::uint64_t kLongTicks = 2'000'000;  // 0.5 to 1 ms

    Status look_up(bool worked) {
        if (heeds_ && room_.workers.take_interrupt()) return {Code::interrupted, 0, 0, {}};
        const std::uint64_t ticks = coarse_ticks();
        const std::uint64_t spent = ticks - ticks_;
        ticks_ = ticks;
        if (worked && spent > kLongTicks) {
            seat_.took_long();
        } else if (worked && spent < kShortTicks) {
            seat_.took_little();
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
                room_.outcomes.cancel_all(room_.core);
                return {Code::interrupted, 0, 0, {}};
            }
        }
        if (timeout_ns_ != 0 && now - begun_ns_ >= timeout_ns_) return {Code::timed_out, 0, 0, {}};
        return {};
    }

    const WaitingRoom& room_;
    const Watch watch_;
    const std::uint64_t timeout_ns_;
    const bool helps_;
    const bool heeds_;
    Workers::Seat seat_;
    Patience patience_;
    std::uint64_t ticks_ = coarse_ticks();
    std::uint64_t unread_ = 0;
    std::uint64_t begun_ns_ = timeout_ns_ != 0 ? now_ns() : 0;  // 0: not read yet
    std::uint64_t asked_ns_ = begun_ns_;
};

}  // namespace whet::graph
