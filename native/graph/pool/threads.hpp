// The threads of a runtime or a pool: started one by one, also in place of one that a body has ended; counted while
// they live; joined, or left behind with the body they are in.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace whet::graph {

class ThreadHost {
  public:
    // Runs serve() on a thread of its own, which holds `owner`, where this host lives, until it has ended. Throws
    // std::system_error where the system starts no more threads. Nothing is started after close().
    template <class Owner, class Serve>
    void start(std::shared_ptr<Owner> owner, Serve serve) {
        const std::lock_guard<std::mutex> guard(lock_);
        if (closed_) return;
        ++live_;
        try {
            threads_.emplace_back([this, owner = std::move(owner), serve = std::move(serve)] {
                const Presence<Owner> presence{*this, owner};
                serve();
            });
        } catch (...) {
            --live_;
            throw;
        }
    }

    void close() {
        const std::lock_guard<std::mutex> guard(lock_);
        closed_ = true;
    }

    unsigned live() const {
        const std::lock_guard<std::mutex> guard(lock_);
        return live_;
    }

    // Whether none is left, now or within that time.
    bool await_none(std::chrono::milliseconds limit) {
        std::unique_lock<std::mutex> guard(lock_);
        return ended_.wait_for(guard, limit, [this] { return live_ == 0; });
    }

    void join_all() {
        for (std::thread& thread : take()) thread.join();
    }
    void leave_all() {
        for (std::thread& thread : take()) thread.detach();
    }

  private:
    template <class Owner>
    struct Presence {
        ThreadHost& host;
        std::shared_ptr<Owner> owner;  // released after the host has been told
        ~Presence() {
            const std::lock_guard<std::mutex> guard(host.lock_);
            --host.live_;
            host.ended_.notify_all();
        }
    };

    std::vector<std::thread> take() {
        const std::lock_guard<std::mutex> guard(lock_);
        return std::exchange(threads_, {});
    }

    mutable std::mutex lock_;
    std::condition_variable ended_;
    std::vector<std::thread> threads_;
    unsigned live_ = 0;
    bool closed_ = false;
};

}  // namespace whet::graph
