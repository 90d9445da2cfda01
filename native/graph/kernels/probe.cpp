#include <bit>
#include <chrono>

#include "graph/kernels/kernels.hpp"

namespace whet::graph {

namespace kernel {

int empty(Tensors, Scalars, void*) { return 0; }

// `duration_ns` points at one 64-bit number.
int spin(Tensors, Scalars, void* duration_ns) {
    using Clock = std::chrono::steady_clock;
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

}  // namespace

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
