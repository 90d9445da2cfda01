// Reads memory as fast as loads can: the yardstick for what a step streams. It does nothing with a word but add it to a
// sum, so that every byte is loaded and a caller can see that it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/layer.hpp"

namespace whet::decode {

struct Stretch {
    const void* data = nullptr;
    std::size_t size_bytes = 0;
};

constexpr unsigned max_streams = 16;

// Each worker reads its part of every stretch as `streams` (1, 2, 4, 8 or 16) sequences of lines that advance together.
// Returns the sum of all 64-bit words modulo 2^64; bytes behind the last whole word are left out.
std::uint64_t read_stretches(graph::Pool& pool, Isa isa, const std::vector<Stretch>& stretches, unsigned streams);

using ReadStreams = std::uint64_t (*)(const std::uint64_t* words, std::size_t count, unsigned streams);
std::uint64_t read_portable(const std::uint64_t* words, std::size_t count, unsigned streams);
// Only in builds for x86-64:
std::uint64_t read_avx2(const std::uint64_t* words, std::size_t count, unsigned streams);
std::uint64_t read_avx512(const std::uint64_t* words, std::size_t count, unsigned streams);

}  // namespace whet::decode
