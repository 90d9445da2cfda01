// Writes a sheet while its launch goes on, when asked: by a signal, or by a file PATH.ask that somebody makes.
// The handler does nothing but sem_post, which is safe in a handler; a thread of its own does the writing. That thread
// looks for the file ten times a second. One at a time per process; the signal's former handler is put back at the end.
// POSIX. With timing off it holds nothing and does nothing.
#pragma once

#include "regions/region.hpp"

#if WHET_REGIONS
#include <semaphore.h>
#include <time.h>

#include <csignal>
#include <thread>
#else
#include <csignal>
#endif

namespace whet::regions {

#if WHET_REGIONS
inline namespace on {

class OnRequest {
  public:
    // PATH is written at each request, whole or not at all; the last request wins.
    OnRequest(const Sheet& sheet, std::string path, int signal = SIGUSR1)
        : sheet_(sheet), path_(std::move(path)), signal_(signal) {
        if (taken().exchange(true)) throw std::logic_error("a sheet is being written on request already");
        sem_init(&asked(), 0, 0);
        struct sigaction action{};
        action.sa_handler = [](int) { sem_post(&asked()); };
        action.sa_flags = SA_RESTART;
        sigemptyset(&action.sa_mask);
        sigaction(signal_, &action, &former_);
        watcher_ = std::thread([this] { watch(); });
    }
    ~OnRequest() {
        ended_.store(true, std::memory_order_release);
        sem_post(&asked());
        watcher_.join();
        sigaction(signal_, &former_, nullptr);
        taken().store(false);  // the semaphore stays: a handler may still be on its way to it
    }
    OnRequest(const OnRequest&) = delete;
    OnRequest& operator=(const OnRequest&) = delete;

    // How many requests were answered with a file.
    std::size_t written() const noexcept { return written_.load(std::memory_order_acquire); }

  private:
    static sem_t& asked() {
        static sem_t semaphore;
        return semaphore;
    }
    static std::atomic<bool>& taken() {
        static std::atomic<bool> is{false};
        return is;
    }

    void watch() {
        const std::string file = path_ + ".ask";
        for (;;) {
            timespec until{};
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 100'000'000;
            if (until.tv_nsec >= 1'000'000'000) {
                until.tv_nsec -= 1'000'000'000;
                until.tv_sec += 1;
            }
            const bool by_signal = sem_timedwait(&asked(), &until) == 0;
            const bool over = ended_.load(std::memory_order_acquire);
            // Removing the file is the proof that it was there, and tells who asked that it was seen.
            const bool by_file = std::remove(file.c_str()) == 0;
            if ((by_file || (by_signal && !over)) && sheet_.save_so_far(path_) == Saved::yes) {
                written_.fetch_add(1, std::memory_order_release);
            }
            if (over) return;
        }
    }

    const Sheet& sheet_;
    std::string path_;
    int signal_;
    struct sigaction former_{};
    std::atomic<bool> ended_{false};
    std::atomic<std::size_t> written_{0};
    std::thread watcher_;
};

}  // namespace on
#else
inline namespace off {

class OnRequest {
  public:
    OnRequest(const Sheet&, const std::string&, int = SIGUSR1) {}
    std::size_t written() const noexcept { return 0; }
};

}  // namespace off
#endif

}  // namespace whet::regions
