// What Python lends to the core: the arrays and bodies of native tasks, and the memory of outputs.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <utility>

#include "interpreter_lock.hpp"

namespace whet::bind {

namespace nb = nanobind;

// Objects that tasks use, each until its task is done. The core holds this until its last thread is gone, so that a
// body that was left behind keeps what it uses. Touched with the interpreter lock held.
class Keeps {
  public:
    Keeps() = default;
    Keeps(const Keeps&) = delete;
    Keeps& operator=(const Keeps&) = delete;
    ~Keeps() {
        if (kept_.empty() || is_finalizing()) return;
        const Locked lock;
        while (!kept_.empty()) drop();
    }

    void add(std::uint64_t task, nb::handle object) { kept_.emplace_back(task, object.inc_ref().ptr()); }

    // In the order of submission, which is nearly that of completion.
    template <class Done>
    void prune(Done&& done) {
        while (!kept_.empty() && done(kept_.front().first)) drop();
    }

  private:
    void drop() {
        PyObject* const object = kept_.front().second;
        kept_.pop_front();  // first: the object's end may run code that comes back here
        Py_DECREF(object);
    }

    std::deque<std::pair<std::uint64_t, PyObject*>> kept_;
};

// Bytes of outputs that somebody holds, against heap_bytes.
struct HeldBytes {
    std::atomic<std::uint64_t> now{0};
    std::atomic<std::uint64_t> peak{0};

    bool take(std::uint64_t bytes, std::uint64_t most) {
        std::uint64_t seen = now.load(std::memory_order_relaxed);
        do {
            if (seen + bytes > most) return false;
        } while (!now.compare_exchange_weak(seen, seen + bytes, std::memory_order_relaxed));
        std::uint64_t highest = peak.load(std::memory_order_relaxed);
        while (highest < seen + bytes &&
               !peak.compare_exchange_weak(highest, seen + bytes, std::memory_order_relaxed)) {
        }
        return true;
    }
};

// The memory of one output: it lives as long as an array over it, in Python or in a task.
class OutputBlock {
  public:
    // After take(bytes).
    OutputBlock(std::shared_ptr<HeldBytes> held, std::uint64_t bytes, std::uint64_t align)
        : held_(std::move(held)), bytes_(bytes), memory_(std::aligned_alloc(align, bytes)) {
        if (memory_ != nullptr) return;
        held_->now.fetch_sub(bytes_, std::memory_order_relaxed);
        throw std::bad_alloc();
    }
    ~OutputBlock() {
        std::free(memory_);
        held_->now.fetch_sub(bytes_, std::memory_order_relaxed);
    }
    OutputBlock(const OutputBlock&) = delete;
    OutputBlock& operator=(const OutputBlock&) = delete;

    std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(memory_); }
    std::uint64_t bytes() const { return bytes_; }

  private:
    const std::shared_ptr<HeldBytes> held_;
    const std::uint64_t bytes_;
    void* const memory_;
};

}  // namespace whet::bind
