// Threads that run one at a time and switch only where they are told to: a stack and a saved stack pointer each.
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace whet::test {

#if defined(__x86_64__)

// Saves the callee-saved registers on the old stack and restores those of the other. About 5 ns; ucontext makes two
// system calls instead.
extern "C" void whet_switch_stack(void** save, void* load);
__asm__(
    ".text\n.globl whet_switch_stack\n.type whet_switch_stack,@function\nwhet_switch_stack:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size whet_switch_stack,.-whet_switch_stack\n");

#endif

// Which exceptions a thread is handling: kept per fiber, because a handler may be left for another fiber and come back.
// The two words of the C++ ABI, after which implementations may have their own.
class Handling {
  public:
    void exchange() {
        char* const now = reinterpret_cast<char*>(abi::__cxa_get_globals());
        char before[sizeof words_];
        std::memcpy(before, now, sizeof before);
        std::memcpy(now, words_, sizeof before);
        std::memcpy(words_, before, sizeof before);
    }
    void clear() { std::memset(words_, 0, sizeof words_); }

  private:
    char words_[sizeof(void*) + sizeof(unsigned)] = {};
};

class Fiber {
  public:
    static constexpr std::size_t kStackBytes = 128 * 1024;

    Fiber() : stack_(new char[kStackBytes]) {}

    // Ready to run `body` from its beginning. `body` must end by switching away for good.
    void prepare(std::function<void()> body) {
        body_ = std::move(body);
        handling_.clear();
#if defined(__x86_64__)
        auto top = reinterpret_cast<std::uintptr_t>(stack_.get()) + kStackBytes;
        top &= ~std::uintptr_t{63};
        auto** words = reinterpret_cast<void**>(top);
        *--words = nullptr;  // keeps the stack aligned as after a call
        *--words = reinterpret_cast<void*>(&Fiber::enter);
        for (int saved = 0; saved < 6; ++saved) *--words = nullptr;
        pointer_ = words;
#else
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack_.get();
        context_.uc_stack.ss_size = kStackBytes;
        context_.uc_link = nullptr;
        makecontext(&context_, &Fiber::enter, 0);
#endif
    }

    // From the scheduler into the fiber, and back.
    void resume() {
        current = this;
        handling_.exchange();
#if defined(__x86_64__)
        whet_switch_stack(&outside_, pointer_);
#else
        swapcontext(&outside_context_, &context_);
#endif
        handling_.exchange();
    }
    void leave() {
#if defined(__x86_64__)
        whet_switch_stack(&pointer_, outside_);
#else
        swapcontext(&context_, &outside_context_);
#endif
    }

  private:
    static void enter() { current->body_(); }
    static inline Fiber* current = nullptr;

    std::unique_ptr<char[]> stack_;
    std::function<void()> body_;
    Handling handling_;
#if defined(__x86_64__)
    void* pointer_ = nullptr;
    void* outside_ = nullptr;
#else
    ucontext_t context_{};
    ucontext_t outside_context_{};
#endif
};

}  // namespace whet::test
