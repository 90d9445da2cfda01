#include "msm/engine/turns.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "graph/protocol/park.hpp"
#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

constexpr std::chrono::milliseconds between_looks{5};

Turns::Turns(unsigned seats, const std::atomic<bool>& draining)
    : draining_(draining), state_(new State(seats, graph::fork_generation())) {}

Turns::~Turns() { delete state_.load(); }

Turns::State* Turns::current() {
    State* found = state_.load(std::memory_order_acquire);
    const std::uint32_t generation = graph::fork_generation();
    if (found->born == generation) return found;
    if (found->inside != 0) return nullptr;
    // What the parent left stays: a lock in it may be held for good.
    auto fresh = std::make_unique<State>(static_cast<unsigned>(found->seats.size()), generation);
    if (state_.compare_exchange_strong(found, fresh.get(), std::memory_order_acq_rel)) return fresh.release();
    return found;
}

bool Turns::State::has_room(bool alone, bool draining) const {
    if (inside == 0) return true;
    return alone && owner == Caller() && inside < seats.size() && !draining;
}

unsigned Turns::State::sit_down(bool alone) {
    ++inside;
    if (!alone) {
        owner = std::this_thread::get_id();
        return everything;
    }
    const auto seat = std::ranges::find(seats, Caller());
    *seat = std::this_thread::get_id();
    return WHET_RACE_PLANT(seat_shared) ? 0 : static_cast<unsigned>(seat - seats.begin());
}

// Nobody else can enter: to wake the others would only take cores from those who compute.
void Turns::State::call_first() {
    if (!waiting.empty()) waiting.front().changed->notify_one();
}

unsigned Turns::enter(const Control& control, unsigned alone_from) {
    State* const found = current();
    if (found == nullptr)
        throw EngineError(Trouble::bad_input, "the process was forked while the engine was computing",
                          "make a new engine in the child");
    State& state = *found;
    const Caller me = std::this_thread::get_id();
    std::unique_lock lock(state.lock);
    if (state.owner == me || std::ranges::find(state.seats, me) != state.seats.end())
        throw EngineError(Trouble::bad_input, "the engine was called from inside one of its own calls",
                          "return from the callback or signal handler first, or use another engine there");
    const bool alone = alone_from != 0 && state.inside + state.waiting.size() + 1 >= alone_from;
    // A call from the callback of one that waits goes before it, since that one waits for it.
    const auto mine = std::ranges::find(state.waiting, me, &Waiting::who);
    std::condition_variable changed;
    const auto place = state.waiting.insert(mine, {me, alone, &changed});
    const auto give_up_place = [&] {
        state.waiting.erase(place);
        state.call_first();
    };
    while (place != state.waiting.begin() || !state.has_room(alone, draining_)) {
        if (changed.wait_for(lock, between_looks) == std::cv_status::no_timeout) continue;
        lock.unlock();
        try {
            if (control.cancel && control.cancel->load()) throw_cancelled();
            control.report(0);
        } catch (...) {
            lock.lock();
            give_up_place();
            throw;
        }
        lock.lock();
    }
    const unsigned seat = state.sit_down(alone);
    give_up_place();
    return seat;
}

bool Turns::try_enter() {
    State* const state = current();
    if (state == nullptr) return false;
    const std::lock_guard lock(state->lock);
    if (!state->has_room(false, true)) return false;
    state->sit_down(false);
    return true;
}

void Turns::leave(unsigned seat) {
    State& state = *state_.load(std::memory_order_acquire);
    std::unique_lock lock(state.lock, std::defer_lock);
    // In a child that was forked from a callback, whoever had the lock is not there.
    if (state.born == graph::fork_generation()) lock.lock();
    if (seat == everything) {
        state.owner = {};
    } else {
        *std::ranges::find(state.seats, std::this_thread::get_id()) = {};
    }
    --state.inside;
    state.call_first();
}

}  // namespace whet::msm
