// What every peer program shares: the graph as a file of predecessor lists, the clock, and one line of JSON per result.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace peers {

struct Edges {
    std::int64_t tasks = 0;
    std::vector<std::int64_t> start;
    std::vector<std::int64_t> preds;
    // The same edges the other way round.
    std::vector<std::int64_t> out_start;
    std::vector<std::int32_t> successors;
};

inline Edges load(const char* path) {
    std::FILE* file = std::fopen(path, "rb");
    if (!file) {
        std::perror(path);
        std::exit(2);
    }
    std::int64_t head[3];
    Edges e;
    if (std::fread(head, 8, 3, file) != 3 || std::memcmp(head, "whetdag1", 8) != 0) {
        std::fprintf(stderr, "%s is not an edge file\n", path);
        std::exit(2);
    }
    e.tasks = head[1];
    e.start.resize(static_cast<std::size_t>(e.tasks) + 1);
    e.preds.resize(static_cast<std::size_t>(head[2]));
    bool complete = std::fread(e.start.data(), 8, e.start.size(), file) == e.start.size();
    complete = complete && std::fread(e.preds.data(), 8, e.preds.size(), file) == e.preds.size();
    std::fclose(file);
    if (!complete) {
        std::fprintf(stderr, "%s is too short\n", path);
        std::exit(2);
    }
    e.out_start.assign(e.start.size(), 0);
    for (const std::int64_t p : e.preds) ++e.out_start[static_cast<std::size_t>(p) + 1];
    for (std::size_t t = 1; t < e.out_start.size(); ++t) e.out_start[t] += e.out_start[t - 1];
    e.successors.resize(e.preds.size());
    std::vector<std::int64_t> fill(e.out_start.begin(), e.out_start.end() - 1);
    for (std::int64_t t = 0; t < e.tasks; ++t) {
        for (std::int64_t i = e.start[t]; i < e.start[t + 1]; ++i) {
            e.successors[static_cast<std::size_t>(fill[static_cast<std::size_t>(e.preds[i])]++)] =
                static_cast<std::int32_t>(t);
        }
    }
    return e;
}

inline double now_ns() {
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// Processor time of all threads: what a busy machine does not change.
inline double cpu_ns() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// The body of every task: counts the call where only its own task writes, so that a lost or doubled task shows.
inline std::vector<std::uint8_t> ran;
inline void body(std::int64_t task) { ran[static_cast<std::size_t>(task)]++; }

struct Options {
    const char* path;
    int threads;
    int repeats;
};

inline Options options(int count, char** values) {
    if (count != 4) {
        std::fprintf(stderr, "usage: %s EDGES THREADS REPEATS\n", values[0]);
        std::exit(64);
    }
    return {values[1], std::atoi(values[2]), std::atoi(values[3])};
}

// Runs `once` a few times and prints the median and the best in ns per task. Every task must have run exactly once each time.
template <class Once>
void measure(const char* peer, const char* what, const char* dependencies, const Edges& e, const Options& o, Once once) {
    std::vector<double> times;
    double least_cpu = 1e300;
    for (int r = 0; r < o.repeats; ++r) {
        ran.assign(static_cast<std::size_t>(e.tasks), 0);
        const double cpu_from = cpu_ns();
        const double from = now_ns();
        once();
        times.push_back((now_ns() - from) / static_cast<double>(e.tasks));
        least_cpu = std::min(least_cpu, (cpu_ns() - cpu_from) / static_cast<double>(e.tasks));
        if (!std::all_of(ran.begin(), ran.end(), [](std::uint8_t n) { return n == 1; })) {
            std::fprintf(stderr, "%s %s: a task did not run exactly once\n", peer, what);
            std::exit(1);
        }
    }
    std::sort(times.begin(), times.end());
    std::printf("{\"peer\": \"%s\", \"what\": \"%s\", \"dependencies\": \"%s\", \"threads\": %d, \"ns_per_task\": %.2f, "
                "\"best_ns_per_task\": %.2f, \"cpu_ns_per_task\": %.2f}\n",
                peer, what, dependencies, o.threads, times[times.size() / 2], times[0], least_cpu);
    std::fflush(stdout);
}

}  // namespace peers
