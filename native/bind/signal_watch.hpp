// Tells a computation that runs without the interpreter lock that a signal has arrived for which Python has a handler.
//
// Python hears of a signal only with its lock held, and asking for the lock every few milliseconds costs a whole switch
// interval each time another thread is busy. So while a call runs on the main thread, the C handlers of such signals
// are wrapped: the wrapper counts and passes the signal on. The lock is then asked for when something has come.
//
// All state belongs to the main thread (Python runs handlers on no other), except the counter. Watches may nest: a
// Python handler can start a computation of its own.
#pragma once

#include <nanobind/nanobind.h>

namespace whet::bind {

class SignalWatch {
  public:
    SignalWatch() = default;
    ~SignalWatch() { stop(); }
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;

    // With the lock held. Does nothing on other threads than the main one, which no handler ever runs on.
    void start();
    void stop();
    bool started() const { return started_; }
    // Without the lock: whether something has come since the last question.
    bool arrived();
    // With the lock held, after Python's handlers have run: they may have set other handlers, which are wrapped anew.
    void renew();

    static bool on_main_thread();

  private:
    bool started_ = false;
    unsigned seen_ = 0;
};

}  // namespace whet::bind
