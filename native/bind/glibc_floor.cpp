// What the compiler's static C++ library asks of a newer glibc than the wheel may need, in terms of an older one.
// Linked into the wheel alone (WHET_GLIBC_FLOOR): elsewhere the system's own functions are used.
// Hidden symbols: nothing outside the module sees them.
#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t ns_of(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

std::int64_t now_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return ns_of(now);
}

// The same moment on the wall clock, which is the one that older waits understand. A clock that is set meanwhile makes
// a wait end early or late; the callers below, and those of std::condition_variable, look at their own clock again.
timespec on_wall_clock(const timespec& deadline, clockid_t clock) {
    std::int64_t left = ns_of(deadline) - now_ns(clock);
    if (left < 0) left = 0;
    const std::int64_t then = now_ns(CLOCK_REALTIME) + left;
    return {static_cast<time_t>(then / kSecond), static_cast<long>(then % kSecond)};
}

}  // namespace

extern "C" {

// glibc 2.32. Zero means that there may be other threads: reference counts are then always atomic.
char __libc_single_threaded = 0;

// glibc 2.36. For std::random_device.
unsigned arc4random() {
    unsigned value = 0;
    while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    }
    return value;
}

// glibc 2.30. For std::condition_variable with a steady clock.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
    if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, deadline);
    const timespec wall = on_wall_clock(*deadline, clock);
    return pthread_cond_timedwait(condition, mutex, &wall);
}

// glibc 2.30. For std::timed_mutex with a steady clock.
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
    for (;;) {
        const timespec wall = clock == CLOCK_REALTIME ? *deadline : on_wall_clock(*deadline, clock);
        const int result = pthread_mutex_timedlock(mutex, &wall);
        if (result != ETIMEDOUT || now_ns(clock) >= ns_of(*deadline)) return result;
    }
}

}  // extern "C"
