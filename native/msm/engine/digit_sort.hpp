// The two passes of the counting sort of one window: how many digits each bucket has, then entries into their slots.
#pragma once

#include <algorithm>
#include <utility>

#include "msm/engine/lists.hpp"

namespace whet::msm {

// A block of digits taken apart, by loops that the compiler makes vectors of. The sign is as good as random: a branch
// on it in the counting loop cost 3.5 of 4 ns per digit.
struct DigitBlock {
    static constexpr std::size_t size = 512;
    static constexpr std::size_t ahead = 12;  // slots that the scatter fetches before it writes them

    void take(const std::int16_t* digits, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            const int digit = digits[i], negative = digit >> 31;
            magnitude[i] = static_cast<u16>((digit ^ negative) - negative);
        }
    }
    void take_entries(const std::int16_t* digits, std::size_t count, u32 first_entry) {
        for (u32 i = 0; i < count; ++i) entry[i] = (first_entry + i * entry_of(1)) | static_cast<u32>(digits[i] < 0);
        std::fill_n(magnitude + count, ahead, u16{0});
    }
    static_assert(entry_sign == 1);

    u16 magnitude[size + ahead];
    u32 entry[size];
};

// Returns how many digits are not zero; these alone are counted.
inline std::size_t count_digits(const std::int16_t* digits, std::size_t n, u32* counts) {
    DigitBlock block;
    for (std::size_t first = 0; first < n; first += DigitBlock::size) {
        const std::size_t count = std::min(n - first, DigitBlock::size);
        block.take(digits + first, count);
        for (std::size_t i = 0; i < count; ++i) ++counts[block.magnitude[i]];
    }
    return n - std::exchange(counts[0], 0);
}

inline void place_digits(const std::int16_t* digits, std::size_t n, const Lists::Cursor& to) {
    DigitBlock block;
    u32 first_entry = entry_of(0);
    for (std::size_t first = 0; first < n; first += DigitBlock::size) {
        const std::size_t count = std::min(n - first, DigitBlock::size);
        block.take(digits + first, count);
        block.take_entries(digits + first, count, first_entry);
        for (std::size_t i = 0; i < count; ++i) {
            to.prefetch(block.magnitude[i + DigitBlock::ahead]);
            if (block.magnitude[i] != 0) to.place(block.magnitude[i], block.entry[i]);
        }
        first_entry += static_cast<u32>(count) * entry_of(1);
    }
}

}  // namespace whet::msm
