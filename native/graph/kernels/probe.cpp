#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>

#include "graph/kernels/kernels.hpp"
#include "graph/protocol/park.hpp"

namespace whet::graph {

namespace kernel {

using Clock = std::chrono::steady_clock;

int empty(Tensors, Scalars, void*) { return 0; }

// `duration_ns` points at one 64-bit number.
int spin(Tensors, Scalars, void* duration_ns) {
    const auto end = Clock::now() + std::chrono::nanoseconds(*static_cast<const std::uint64_t*>(duration_ns));
    while (Clock::now() < end) {
    }
    return 0;
}

namespace {

std::uint64_t scramble(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

std::uint64_t clock_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

}  // namespace

// Long-tailed: Pareto with exponent 2, at least half of the mean, at most a hundred times it. The task draws its own
// number, so every run and every policy has the same lengths. `mean_ns` points at one 64-bit number.
int spin_tail(Tensors tensors, Scalars scalars, void* mean_ns) {
    const double mean = static_cast<double>(*static_cast<const std::uint64_t*>(mean_ns));
    const double draw = (static_cast<double>(scramble(scalars[0] + 1) >> 11) + 1.0) * 0x1.0p-53;
    std::uint64_t length = static_cast<std::uint64_t>(std::min(mean / 2 / std::sqrt(draw), 100 * mean));
    return spin(tensors, scalars, &length);
}

// A device that works by itself: the task takes the next place in the order of its device and waits, giving way, until
// the device has come to its end. state: length of a command, number of devices, then for each the time at which it
// will be idle.
int device(Tensors, Scalars scalars, void* state) {
    auto* words = static_cast<std::uint64_t*>(state);
    std::atomic_ref<std::uint64_t> idle_at(words[2 + scalars[0] % words[1]]);
    std::uint64_t seen = idle_at.load(std::memory_order_relaxed);
    std::uint64_t end = 0;
    do {
        end = std::max(seen, clock_ns()) + words[0];
    } while (!idle_at.compare_exchange_weak(seen, end, std::memory_order_relaxed));
    while (clock_ns() < end) thread_yield();
    return 0;
}

// Writes a number that depends on the task and, in order, on the numbers of all its predecessors: a task that ran too
// early, twice with other inputs, or never leaves a wrong number behind, and so do all that follow it.
// scalars: task. state: addresses of cells[tasks], start[tasks + 1], preds[], then the seed.
int mix(Tensors, Scalars scalars, void* state) {
    const auto* words = static_cast<const std::uint64_t*>(state);
    auto* cells = std::bit_cast<std::uint64_t*>(words[0]);
    const auto* start = std::bit_cast<const std::int64_t*>(words[1]);
    const auto* preds = std::bit_cast<const std::int64_t*>(words[2]);
    const std::uint64_t task = scalars[0];
    std::uint64_t value = scramble(words[3] + task);
    for (std::int64_t e = start[task]; e < start[task + 1]; ++e) value = scramble(value ^ cells[preds[e]]);
    cells[task] = value;
    return 0;
}

}  // namespace kernel

namespace {

constexpr Kernel kTable[] = {
    {"empty", kernel::empty, "", ""},
    {"spin", kernel::spin, "", ""},
    {"spin_tail", kernel::spin_tail, "", "task"},
    {"device", kernel::device, "", "task"},
    {"mix", kernel::mix, "", "task"},
    {"scores", kernel::scores, "query, keys, scores", "heads, width, block, blocks, table"},
    {"softmax", kernel::softmax, "scores, probabilities, maximum, sum", "heads, columns, valid, scale"},
    {"weighted_values", kernel::weighted_values, "probabilities, values, partial",
     "heads, width, block, blocks, table"},
    {"update", kernel::update, "block_maximum, block_sum, partial, maximum, sum, accumulator, out",
     "heads, width, first, last"},
    {"product", kernel::product, "a, b, config, partial", "rows, tile"},
    {"add", kernel::add, "c, partial, config", "rows, tile"},
    {"potrf", kernel::potrf, "diagonal", "tile"},
    {"trsm", kernel::trsm, "diagonal, below", "tile"},
    {"syrk", kernel::syrk, "row, diagonal", "tile"},
    {"gemm", kernel::gemm, "row, column, target", "tile"},
};

}  // namespace

std::span<const Kernel> kernels() { return kTable; }

}  // namespace whet::graph
