// Waiting without burning: pause, then yield, then sleep on a futex word. Linux futexes with a portable fallback.
#pragma once

#include <atomic>
#include <cstdint>

namespace whet::graph {

// One hint to the core that this is a spin loop. About 140 cycles on recent Intel cores, 40 on older ones.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

void thread_yield();

// Sleeps while `word` still holds `expected`; returns on a wake, on a change, or after `timeout_ns` (0: no limit).
void park(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns);
void unpark_all(std::atomic<std::uint32_t>& word);
void unpark_one(std::atomic<std::uint32_t>& word);

// Number of times this process image has forked: a child sees a larger number than its parent recorded.
extern std::atomic<std::uint32_t> fork_count;
inline std::uint32_t fork_generation() { return fork_count.load(std::memory_order_relaxed); }

// How long an idle thread stays awake. Threads beyond the core count give way at once.
class Patience {
  public:
    explicit Patience(bool may_spin) : pauses_(may_spin ? 400 : 0), yields_(24) {}

    // One step of waiting; false once it is time to park.
    bool wait() {
        if (spent_ < pauses_) {
            cpu_pause();
        } else if (spent_ < pauses_ + yields_) {
            thread_yield();
        } else {
            return false;
        }
        ++spent_;
        return true;
    }
    void reset() { spent_ = 0; }

  private:
    std::uint32_t pauses_;
    std::uint32_t yields_;
    std::uint32_t spent_ = 0;
};

}  // namespace whet::graph
