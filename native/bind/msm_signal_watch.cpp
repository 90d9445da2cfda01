#include <signal.h>

#include <array>
#include <atomic>

#include "bind/signal_watch.hpp"

namespace nb = nanobind;

namespace whet::bind {

namespace {

constexpr int signals = NSIG;
std::atomic<unsigned> arrivals{0};
static_assert(std::atomic<unsigned>::is_always_lock_free, "the handler may run at any instruction");
unsigned depth = 0;
std::array<struct sigaction, signals> original;
std::array<bool, signals> wrapped{};

void count_and_pass_on(int number, siginfo_t* info, void* context) {
    arrivals.fetch_add(1, std::memory_order_relaxed);
    const struct sigaction& before = original[static_cast<std::size_t>(number)];
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
}

bool is_ours(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == count_and_pass_on;
}

// Raised by the program's own instructions: whoever handles these must not be called from a wrapper.
bool is_synchronous(int number) {
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP ||
           number == SIGABRT || number == SIGSYS;
}

// Every signal that has a handler, and of Python at that.
void wrap_handlers() {
    const nb::object handler_of = nb::module_::import_("signal").attr("getsignal");
    for (int number = 1; number < signals; ++number) {
        struct sigaction now{};
        if (is_synchronous(number) || sigaction(number, nullptr, &now) != 0 || is_ours(now)) continue;
        const bool siginfo = (now.sa_flags & SA_SIGINFO) != 0;
        if (!siginfo && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) continue;
        if ((now.sa_flags & static_cast<int>(SA_RESETHAND)) || !PyCallable_Check(nb::object(handler_of(number)).ptr()))
            continue;
        const auto at = static_cast<std::size_t>(number);
        original[at] = now;
        struct sigaction ours = now;
        ours.sa_flags |= SA_SIGINFO;
        ours.sa_sigaction = count_and_pass_on;
        wrapped[at] = sigaction(number, &ours, nullptr) == 0;
    }
}

void unwrap_handlers() {
    for (int number = 1; number < signals; ++number) {
        const auto at = static_cast<std::size_t>(number);
        if (!wrapped[at]) continue;
        wrapped[at] = false;
        struct sigaction now{};
        if (sigaction(number, nullptr, &now) == 0 && is_ours(now)) sigaction(number, &original[at], nullptr);
    }
}

}  // namespace

bool SignalWatch::on_main_thread() {
    const nb::object main = nb::module_::import_("threading").attr("main_thread")();
    return nb::cast<unsigned long>(main.attr("ident")) == PyThread_get_thread_ident();
}

void SignalWatch::start() {
    if (started_ || !on_main_thread()) return;
    wrap_handlers();
    ++depth;
    started_ = true;
    seen_ = arrivals.load(std::memory_order_relaxed);
}

void SignalWatch::stop() {
    if (!started_) return;
    started_ = false;
    if (--depth == 0) unwrap_handlers();
}

bool SignalWatch::arrived() {
    const unsigned now = arrivals.load(std::memory_order_relaxed);
    return std::exchange(seen_, now) != now;
}

void SignalWatch::renew() {
    if (started_) wrap_handlers();
}

}  // namespace whet::bind
