#include "graph/heap_ring.hpp"

#include <sys/mman.h>

#include <algorithm>

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

std::uint64_t HeapRing::start_of(std::uint64_t bytes) const {
    const std::uint64_t inside = top_ % capacity_;
    return inside + bytes <= capacity_ ? top_ : top_ + (capacity_ - inside);
}

bool HeapRing::fits(std::uint64_t bytes) {
    if (bytes == 0) return true;
    if (bytes > capacity_) return false;
    if (top_ == bottom_) {
        const std::uint64_t inside = top_ % capacity_;
        if (inside != 0) top_ = bottom_ = top_ + (capacity_ - inside);
    }
    return start_of(bytes) + bytes - bottom_ <= capacity_;
}

void* HeapRing::take(std::uint64_t bytes) {
    if (bytes == 0) return memory_ + top_ % std::max<std::uint64_t>(capacity_, 1);
    const std::uint64_t start = start_of(bytes);
    top_ = start + bytes;
    peak_ = std::max(peak_, top_ - bottom_);
    return memory_ + start % capacity_;
}

}  // namespace whet::graph
