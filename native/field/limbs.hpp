// Little-endian arrays of 64-bit limbs: the carry arithmetic that every field is built from. All constexpr.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace whet {

using u64 = std::uint64_t;
using i64 = std::int64_t;
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

template <std::size_t N>
using Limbs = std::array<u64, N>;

constexpr u64 low(u128 x) { return static_cast<u64>(x); }
constexpr u64 high(u128 x) { return static_cast<u64>(x >> 64); }

// a += b; returns the carry out.
template <std::size_t N>
constexpr u64 add_to(Limbs<N>& a, const Limbs<N>& b) {
    u64 carry = 0;
    for (std::size_t i = 0; i < N; ++i) {
        const u128 sum = static_cast<u128>(a[i]) + b[i] + carry;
        a[i] = low(sum);
        carry = high(sum);
    }
    return carry;
}

// a -= b; returns the borrow out.
template <std::size_t N>
constexpr u64 subtract_from(Limbs<N>& a, const Limbs<N>& b) {
    u64 borrow = 0;
    for (std::size_t i = 0; i < N; ++i) {
        const u128 difference = static_cast<u128>(a[i]) - b[i] - borrow;
        a[i] = low(difference);
        borrow = high(difference) & 1;
    }
    return borrow;
}

template <std::size_t N>
constexpr bool less_than(const Limbs<N>& a, const Limbs<N>& b) {
    Limbs<N> scratch = a;
    return subtract_from(scratch, b) != 0;
}

template <std::size_t N>
constexpr bool is_zero(const Limbs<N>& a) {
    u64 any = 0;
    for (const u64 limb : a) any |= limb;
    return any == 0;
}

template <std::size_t N>
constexpr unsigned bit(const Limbs<N>& a, std::size_t index) {
    return static_cast<unsigned>(a[index / 64] >> (index % 64)) & 1u;
}

// Number of bits up to the highest set one; 0 for zero.
template <std::size_t N>
constexpr std::size_t bit_length(const Limbs<N>& a) {
    for (std::size_t i = N; i-- > 0;) {
        if (a[i] != 0) return 64 * i + 64 - static_cast<std::size_t>(__builtin_clzll(a[i]));
    }
    return 0;
}

// `width` (1..63) bits of a from position `start` on; bits beyond the top read as zero.
template <std::size_t N>
constexpr u64 bits(const Limbs<N>& a, std::size_t start, std::size_t width) {
    const std::size_t limb = start / 64;
    const std::size_t shift = start % 64;
    if (limb >= N) return 0;
    u64 value = a[limb] >> shift;
    if (shift + width > 64 && limb + 1 < N) value |= a[limb + 1] << (64 - shift);
    return value & ((u64{1} << width) - 1);
}

template <std::size_t N>
constexpr Limbs<N> shift_right(Limbs<N> a, std::size_t count) {
    for (; count > 0; --count) {
        for (std::size_t i = 0; i < N; ++i) a[i] = (a[i] >> 1) | (i + 1 < N ? a[i + 1] << 63 : 0);
    }
    return a;
}

}  // namespace whet
