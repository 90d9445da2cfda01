// A pool of threads for one parallel region at a time. The calling thread takes part as worker 0.
//
// A region costs one atomic claim per chunk and, when the workers are still awake, no system call. A worker that is
// asleep or late never holds a region up: the caller finishes the chunks itself and returns when every chunk is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace whet::graph {

class Pool {
  public:
    // `workers` counts the caller, so workers - 1 threads are started. More workers than cores is allowed.
    explicit Pool(unsigned workers);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    unsigned workers() const { return workers_; }

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

    // As many workers as this process may use cores, at least 1.
    static unsigned hardware_workers();

  private:
    struct Crew;
    using Call = void (*)(void* context, std::size_t chunk, unsigned worker);
    bool run(std::size_t chunks, Call call, void* context, const std::atomic<bool>* cancel);
    Crew& crew();

    const unsigned workers_;
    std::atomic<Crew*> crew_{nullptr};
};

}  // namespace whet::graph
