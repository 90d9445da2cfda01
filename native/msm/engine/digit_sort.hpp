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

    // Returns how many are zero.
    std::size_t take(const std::int16_t* digits, std::size_t count) {
        u16 zeros = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const int digit = digits[i], negative = digit >> 31;
            magnitude[i] = static_cast<u16>((digit ^ negative) - negative);
            zeros = static_cast<u16>(zeros + (digit == 0));
        }
        return zeros;
    }
    // Many zeros are worth a pass that leaves them out, without a branch: counting them makes every step wait for the
    // one before, at counts[0], and a branch on each is as good as random. Returns how many digits are left.
    static constexpr std::size_t many_zeros = size / 16;
    std::size_t compact(std::size_t count) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const u16 value = magnitude[i];
            magnitude[kept] = value;
            kept += value != 0;
        }
        return kept;
    }
    std::size_t compact_entries(std::size_t count) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const u16 value = magnitude[i];
            magnitude[kept] = value;
            entry[kept] = entry[i];
            kept += value != 0;
        }
        std::fill_n(magnitude + kept, ahead, u16{0});
        return kept;
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
        const std::size_t zeros = block.take(digits + first, count);
        if (zeros < DigitBlock::many_zeros) {
            for (std::size_t i = 0; i < count; ++i) ++counts[block.magnitude[i]];
            continue;
        }
        const std::size_t kept = block.compact(count);
        for (std::size_t i = 0; i < kept; ++i) ++counts[block.magnitude[i]];
        counts[0] += static_cast<u32>(count - kept);
    }
    return n - std::exchange(counts[0], 0);
}

inline void place_digits(const std::int16_t* digits, std::size_t n, const Lists::Cursor& to) {
    DigitBlock block;
    u32 first_entry = entry_of(0);
    for (std::size_t first = 0; first < n; first += DigitBlock::size) {
        const std::size_t count = std::min(n - first, DigitBlock::size);
        const std::size_t zeros = block.take(digits + first, count);
        block.take_entries(digits + first, count, first_entry);
        if (zeros >= DigitBlock::many_zeros) {
            const std::size_t kept = block.compact_entries(count);
            for (std::size_t i = 0; i < kept; ++i) {
                to.prefetch(block.magnitude[i + DigitBlock::ahead]);
                to.place(block.magnitude[i], block.entry[i]);
            }
            first_entry += static_cast<u32>(count) * entry_of(1);
            continue;
        }
        for (std::size_t i = 0; i < count; ++i) {
            to.prefetch(block.magnitude[i + DigitBlock::ahead]);
            if (block.magnitude[i] != 0) to.place(block.magnitude[i], block.entry[i]);
        }
        first_entry += static_cast<u32>(count) * entry_of(1);
    }
}

}  // namespace whet::msm
