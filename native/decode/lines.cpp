#include "decode/lines.hpp"

#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "decode/layer.hpp"

namespace whet::decode {
namespace {

constexpr std::size_t line_bytes = 64;
constexpr std::size_t huge_page_bytes = std::size_t{1} << 21;

Lines allocated(std::size_t size_bytes) {
    const std::size_t alignment = size_bytes < huge_page_bytes ? line_bytes : huge_page_bytes;
    const std::size_t whole = (size_bytes + alignment - 1) / alignment * alignment;
    Lines memory(static_cast<std::uint8_t*>(std::aligned_alloc(alignment, whole)));
    if (!memory) throw std::bad_alloc();
#if defined(__linux__)
    if (alignment == huge_page_bytes)
        madvise(memory.get(), whole, MADV_HUGEPAGE);  // a wish: without it all still works
#endif
    return memory;
}

void arrange_line(const std::uint8_t* blocks, std::size_t count, std::uint8_t* line) {
    std::uint32_t words[lanes] = {};
    for (std::size_t j = 0; j < count; ++j) {
        for (std::size_t l = 0; l < lanes; ++l) {
            const unsigned pair = blocks[j * lanes / 2 + l / 2];
            words[l] |= ((l % 2 == 0 ? pair : pair >> 4) & 15U) << (4 * j);
        }
    }
    std::memcpy(line, words, sizeof words);
}

}  // namespace

Lines in_lines(Matrix& m, graph::Pool& pool) {
    const std::size_t lines = m.lines();
    const std::size_t codes_bytes = m.rows * lines * line_bytes;
    Lines memory = allocated(codes_bytes + m.rows * lines * line_blocks);
    std::uint8_t* const codes = memory.get();
    std::uint8_t* const scales = codes + codes_bytes;
    const auto* from = static_cast<const std::uint8_t*>(m.data);
    const auto* from_scales = static_cast<const std::uint8_t*>(m.scales);
    pool.parallel_for(m.rows, [&](std::size_t row, unsigned) {
        const std::size_t blocks = m.blocks();
        for (std::size_t i = 0; i < lines; ++i) {
            const std::size_t first = row * blocks + i * line_blocks;
            const std::size_t count = blocks - i * line_blocks < line_blocks ? blocks - i * line_blocks : line_blocks;
            const std::size_t to = row * lines + i;
            arrange_line(from + first * lanes / 2, count, codes + to * line_bytes);
            std::memset(scales + to * line_blocks, 0, line_blocks);
            std::memcpy(scales + to * line_blocks, from_scales + first, count);
        }
    });
    m.data = codes;
    m.scales = scales;
    return memory;
}

}  // namespace whet::decode
