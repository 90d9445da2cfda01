// 4-bit weights in the order that AVX-512 reads: a line of 64 bytes has eight blocks of one row, and nibble j of its
// dword l is column l of block j. Against the stored order, where each block is spread over lanes and shifted, that
// leaves 7 shifts and one load per 8 blocks. The cost is a copy of the weights, made once.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "graph/pool/pool.hpp"

namespace whet::decode {

struct Matrix;

struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
};

// Codes of all rows, each row from a line of its own, and behind them eight scales per line; padding is zero.
using Lines = std::unique_ptr<std::uint8_t, Free>;

// A copy of an fp4 matrix in lines, and `m` pointing into it. Throws std::bad_alloc.
Lines in_lines(Matrix& m, graph::Pool& pool);

}  // namespace whet::decode
