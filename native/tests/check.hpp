// The few macros that native test programs need: a check that counts, and a closing line.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace whet::test {

inline std::atomic<long> checks = 0;  // threads of a test check, too

inline void fail(const char* file, int line, const char* what) {
    std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
    std::exit(1);
}

inline int finish(const char* name) {
    std::printf("%s: %ld checks held\n", name, checks.load());
    return checks > 0 ? 0 : 1;
}

}  // namespace whet::test

#define CHECK(condition)                                                      \
    do {                                                                      \
        ++::whet::test::checks;                                               \
        if (!(condition)) ::whet::test::fail(__FILE__, __LINE__, #condition); \
    } while (false)
