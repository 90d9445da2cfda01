// One worker's reading: `Streams` far-apart sequences of 64-byte lines, one load and one addition per line. Against one
// sequence it keeps more misses in flight; presses on the line-fill buffers. WHET_DECODE_READ names this build of it.
#include <cstring>

#include "decode/stream.hpp"

namespace whet::decode {
namespace {

constexpr std::size_t line_words = 8;
typedef std::uint64_t Line __attribute__((vector_size(line_words * sizeof(std::uint64_t))));

template <unsigned Streams>
std::uint64_t read(const std::uint64_t* words, std::size_t count) {
    const std::size_t each = count / Streams / line_words * line_words;
    Line sums[Streams] = {};
    for (std::size_t at = 0; at < each; at += line_words) {
        for (unsigned s = 0; s < Streams; ++s) {
            Line line;
            std::memcpy(&line, words + s * each + at, sizeof line);
            sums[s] += line;
        }
    }
    std::uint64_t total = 0;
    for (std::size_t at = Streams * each; at < count; ++at) total += words[at];
    for (const Line& sum : sums) {
        for (std::size_t i = 0; i < line_words; ++i) total += sum[i];
    }
    return total;
}

}  // namespace

std::uint64_t WHET_DECODE_READ(const std::uint64_t* words, std::size_t count, unsigned streams) {
    switch (streams) {
        case 1:
            return read<1>(words, count);
        case 2:
            return read<2>(words, count);
        case 4:
            return read<4>(words, count);
        case 8:
            return read<8>(words, count);
        default:
            return read<16>(words, count);
    }
}

}  // namespace whet::decode
