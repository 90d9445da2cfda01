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
    // Many zeros are worth a pass that finds the others, without a branch: counting zeros makes every step wait for the
    // one before, at counts[0], and a branch on each is as good as random. Returns how many digits are not zero.
    static constexpr std::size_t many_zeros(std::size_t count) { return count / 16; }
    std::size_t find_others(std::size_t count) {
        std::size_t found = 0;
        for (std::size_t i = 0; i < count; ++i) {
            other[found] = static_cast<u16>(i);
            found += magnitude[i] != 0;
        }
        std::fill_n(other + found, ahead, static_cast<u16>(size));
        magnitude[size] = 0;
        return found;
    }
    void take_entries(const std::int16_t* digits, std::size_t count, u32 first_entry) {
        for (u32 i = 0; i < count; ++i) entry[i] = (first_entry + i * entry_of(1)) | static_cast<u32>(digits[i] < 0);
        std::fill_n(magnitude + count, ahead, u16{0});
    }
    static_assert(entry_sign == 1);

    u16 magnitude[size + ahead];
    u32 entry[size];
    u16 other[size + ahead];  // places of digits that are not zero
};

// Returns how many digits are not zero; these alone are counted. A block is expected to have as many zeros as the one
// before it.
inline std::size_t count_digits(const std::int16_t* digits, std::size_t n, u32* counts) {
    DigitBlock block;
    bool many = false;
    for (std::size_t first = 0; first < n; first += DigitBlock::size) {
        const std::size_t count = std::min(n - first, DigitBlock::size);
        block.take(digits + first, count);
        const u32 zeros_before = counts[0];
        if (many) {
            const std::size_t others = block.find_others(count);
            for (std::size_t i = 0; i < others; ++i) ++counts[block.magnitude[block.other[i]]];
            counts[0] += static_cast<u32>(count - others);
        } else {
            for (std::size_t i = 0; i < count; ++i) ++counts[block.magnitude[i]];
        }
        many = counts[0] - zeros_before > DigitBlock::many_zeros(count);
    }
    return n - std::exchange(counts[0], 0);
}

inline void place_few(const std::int16_t* digits, std::size_t n, std::size_t first_point, const Lists::Cursor& to) {
    DigitBlock block;
    for (std::size_t first = 0; first < n; first += DigitBlock::size) {
        const std::size_t count = std::min(n - first, DigitBlock::size);
        block.take(digits + first, count);
        const std::size_t others = block.find_others(count);
        for (std::size_t i = 0; i < others; ++i) {
            to.prefetch(block.magnitude[block.other[i + DigitBlock::ahead]]);
            const std::size_t at = block.other[i];
            to.place(block.magnitude[at],
                     entry_of(first_point + first + at) | static_cast<u32>(digits[first + at] < 0));
        }
    }
}

// `others`: how many digits are not zero. `first_point`: the one that the first digit is of.
inline void place_digits(const std::int16_t* digits, std::size_t n, std::size_t others, std::size_t first_point,
                         const Lists::Cursor& to) {
    if (n - others > DigitBlock::many_zeros(n)) return place_few(digits, n, first_point, to);
    DigitBlock block;
    u32 first_entry = entry_of(first_point);
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
