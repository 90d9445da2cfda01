// A pool of threads for one parallel region at a time. The calling thread takes part as worker 0.
//
// A region costs one atomic claim per chunk and, when the workers are still awake, no system call. A worker that is
// asleep or late never holds a region up: the caller finishes the chunks itself and returns when every chunk is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace whet::graph {

// How a region ends that is watched, because its bodies may block, never return, or end their thread.
struct RegionEnd {
    bool left = false;          // the caller has left although bodies were running
    bool abandoned = false;     // no thread of the pool is left, and no other can be started
    std::uint64_t claimed = 0;  // chunks begun
    // After `left`: chunks whose body is out again. Nobody is inside any more when it has reached `claimed`.
    std::shared_ptr<const std::atomic<std::uint64_t>> done = nullptr;

    bool is_over() const { return !left || done->load(std::memory_order_acquire) == claimed; }
};

class Pool {
  public:
    // `workers` counts the caller, so workers - 1 threads are started. More workers than cores is allowed.
    explicit Pool(unsigned workers);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    unsigned workers() const { return workers_; }
    // Whether so many threads have a core each, by what there was when the pool was made: then whoever waits may spin.
    // Asking the system every time is a fifth of what a replay of a few tasks costs.
    bool may_spin(unsigned threads) const { return threads <= cores_; }

    // Calls body(chunk, worker) once for each chunk below `chunks`, in any order, worker below workers().
    // Nested calls run serially in place, with the same worker number. The first exception a body throws is thrown
    // here after the region has ended; chunks not yet started are then skipped. If `cancel` becomes true, chunks not
    // yet started are skipped and the result is false.
    template <class Body>
    bool parallel_for(std::size_t chunks, Body&& body, const std::atomic<bool>* cancel = nullptr) {
        using Stored = std::remove_reference_t<Body>;
        return run(
            chunks,
            [](void* context, std::size_t chunk, unsigned worker) { (*static_cast<Stored*>(context))(chunk, worker); },
            const_cast<void*>(static_cast<const void*>(std::addressof(body))), cancel);
    }

    // As parallel_for, for bodies that may not come back. A chunk whose body ends its thread (pthread_exit) counts as
    // done, and another thread takes the place of that one. The waiting caller asks `leave` now and then; when that
    // says so, it returns at once: no further chunk begins, the threads that are still inside are given up and the pool
    // starts others. Everything `body` refers to must then stay. The caller takes chunks itself only if `helps`.
    template <class Body>
    RegionEnd watch(std::size_t chunks, Body& body, bool helps, const std::function<bool()>& leave) {
        return run_watched(
            chunks,
            [](void* context, std::size_t chunk, unsigned worker) { (*static_cast<Body*>(context))(chunk, worker); },
            &body, helps, leave);
    }

    // As many workers as this process may use cores, at least 1.
    static unsigned hardware_workers();

  private:
    struct Crew;
    using Call = void (*)(void* context, std::size_t chunk, unsigned worker);
    bool run(std::size_t chunks, Call call, void* context, const std::atomic<bool>* cancel);
    RegionEnd run_watched(std::size_t chunks, Call call, void* context, bool helps, const std::function<bool()>& leave);
    class Turn;
    Crew* make_crew();
    Crew& crew();
    RegionEnd give_up(Crew& own);

    const unsigned workers_;
    const unsigned cores_ = hardware_workers();
    std::atomic<Crew*> crew_{nullptr};
    // Every crew that was made, to the end: somebody may be waiting for his turn in one that was given up.
    std::mutex crews_lock_;
    std::vector<std::shared_ptr<Crew>> crews_;
};

}  // namespace whet::graph
