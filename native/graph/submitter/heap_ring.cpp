#include "graph/submitter/heap_ring.hpp"

#include <sys/mman.h>

namespace whet::graph {

HeapRing::HeapRing(std::uint64_t capacity, std::uint64_t align) : align_(align), capacity_(capacity / align * align) {
    if (capacity_ == 0) return;
    // Untouched pages cost nothing, so a generous ring is free until it is used.
    void* const mapped =
        mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) memory_ = static_cast<std::byte*>(mapped);
}

HeapRing::~HeapRing() {
    if (memory_) munmap(memory_, capacity_);
}

}  // namespace whet::graph
