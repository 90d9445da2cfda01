// The ring of bytes that task outputs come from. Freed in allocation order, as tasks retire. The submitter alone uses
// it, so nothing here is shared. Positions count up for ever and are cut to the capacity only to form addresses: full
// and empty cannot be confused.
#pragma once

#include <cstddef>
#include <cstdint>

namespace whet::graph {

class HeapRing {
  public:
    HeapRing(std::uint64_t capacity, std::uint64_t align);
    ~HeapRing();
    HeapRing(const HeapRing&) = delete;
    HeapRing& operator=(const HeapRing&) = delete;

    bool valid() const { return memory_ != nullptr || capacity_ == 0; }
    std::uint64_t capacity() const { return capacity_; }
    std::uint64_t used() const { return top_ - bottom_; }
    std::uint64_t peak() const { return peak_; }
    std::uint64_t padded(std::uint64_t bytes) const { return (bytes + align_ - 1) & ~(align_ - 1); }

    // Room for one block of `bytes` (padded), which never straddles the end. An empty ring starts over at its
    // beginning, so every block up to the capacity fits an empty ring.
    bool fits(std::uint64_t bytes) {
        if (bytes == 0) return true;
        if (bytes > capacity_) return false;
        if (top_ == bottom_ && inside_ != 0) {
            bottom_ = top_ += capacity_ - inside_;
            inside_ = 0;
        }
        return skip(bytes) + bytes + used() <= capacity_;
    }
    void* take(std::uint64_t bytes) {  // after fits()
        const std::uint64_t skipped = skip(bytes);
        if (skipped != 0) inside_ = 0;
        std::byte* const block = memory_ + inside_;
        top_ += skipped + bytes;
        inside_ += bytes;
        if (inside_ == capacity_) inside_ = 0;
        if (used() > peak_) peak_ = used();
        return block;
    }
    std::uint64_t top() const { return top_; }
    // Everything taken before the position `top` returned is free. A position from before the empty ring started over
    // lies behind the bottom, and says nothing.
    void free_to(std::uint64_t position) {
        if (position > bottom_) bottom_ = position;
    }

    bool owns(const void* address) const {
        return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(memory_) < capacity_;
    }

  private:
    // Bytes left unused at the end because the block would straddle it.
    std::uint64_t skip(std::uint64_t bytes) const { return inside_ + bytes <= capacity_ ? 0 : capacity_ - inside_; }

    const std::uint64_t align_;
    const std::uint64_t capacity_;
    std::byte* memory_ = nullptr;
    std::uint64_t inside_ = 0;  // top_ as an offset in the memory, below the capacity
    std::uint64_t top_ = 0;
    std::uint64_t bottom_ = 0;
    std::uint64_t peak_ = 0;
};

}  // namespace whet::graph
