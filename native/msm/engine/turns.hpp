// Who may compute on an engine now: one call that has all of its workers, or several that have a thread and rooms of
// their own each. First come, first served, so that neither kind can keep the other waiting for good.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "msm/engine/run.hpp"

namespace whet::msm {

class Turns {
  public:
    // What a call holds that has everything; otherwise it is the number of a seat.
    static constexpr unsigned everything = ~0U;

    // While `draining` is set nobody joins calls that have begun, so that they come to an end.
    Turns(unsigned seats, const std::atomic<bool>& draining);
    ~Turns();
    Turns(const Turns&) = delete;
    Turns& operator=(const Turns&) = delete;

    // Waits until the caller may compute, with everything, or on a seat if there are `alone_from` calls with this one
    // (0: never). Calls the control back while it waits, and from there the engine may be called. Refuses a call from
    // inside one that computes: it would wait for itself. Every answer is given back by leave().
    unsigned enter(const Control& control, unsigned alone_from);
    // The same without waiting, for everything: false where somebody computes.
    bool try_enter();
    void leave(unsigned seat);

  private:
    using Caller = std::thread::id;
    struct Waiting {
        Caller who;
        bool alone;
        std::condition_variable* changed;  // for it, told when it is the first and somebody left
    };
    // Of one process. A child of a fork begins with a new one: locks may be held there by threads that it does not
    // have.
    struct State {
        State(unsigned count, std::uint32_t generation) : seats(count), born(generation) {}
        std::mutex lock;
        std::list<Waiting> waiting;       // in the order of entry
        std::vector<Caller> seats;        // who has each; nobody: Caller()
        Caller owner;                     // of everything
        std::atomic<unsigned> inside{0};  // calls that compute; written under the lock
        const std::uint32_t born;

        bool has_room(bool alone, bool draining) const;
        unsigned sit_down(bool alone);
        void call_first();
    };
    State* current();  // of this process; null in a child that was forked in the middle of a call

    const std::atomic<bool>& draining_;
    std::atomic<State*> state_;
};

}  // namespace whet::msm
