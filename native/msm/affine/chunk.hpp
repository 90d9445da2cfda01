// The one interface behind which the batch-affine kernels live: sum many short lists of points at once.
//
// A chunk is up to `chunk_groups` groups of eight lists. In round r every list adds its r-th point to its own sum, so
// no two additions of a round touch the same sum, and the round shares one inversion. Kernels differ in arithmetic
// only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "field/limbs.hpp"

namespace whet::msm {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

constexpr std::size_t lanes = 8;           // lists in a group
constexpr std::size_t chunk_groups = 256;  // 2048 additions share an inversion; sums and the next points fit half an L2
constexpr std::size_t field_bytes = 32;
constexpr std::size_t point_bytes = 2 * field_bytes;  // x, y: one line of the cache

// An entry of a list names a point of a table and a sign. It is the byte offset of the point with the sign in a bit
// that no offset has, so that fetching it ahead needs no arithmetic.
constexpr u32 entry_sign = 1;
constexpr u32 padding_entry = ~u32{0};  // this lane adds nothing in this round
constexpr u32 entry_of(std::size_t index) { return static_cast<u32>(index * point_bytes); }
constexpr std::size_t x_offset(u32 entry) { return entry & ~static_cast<u32>(point_bytes - 1); }
constexpr std::size_t y_offset(u32 entry) { return x_offset(entry) + field_bytes; }

// Eight lists that are summed side by side. Entry of lane j in round r: entries[first + 8 r + j].
struct Group {
    u32 first;
    u16 rounds;
    u16 ragged;  // 0: no entry is padding
};
constexpr u32 no_target = ~u32{0};

struct Chunk {
    const std::byte* table;  // canonical coordinates in the kernel's Montgomery form
    const u32* entries;
    const Group* groups;  // longest first
    std::size_t group_count;
    const u32* targets;  // 8 per group: where a list's sum goes, or no_target
    // 8 per group: how many entries at the start of a list stand for the image of their point under the endomorphism.
    // They are summed as they are, and the sum is mapped before the next entry. Null: none.
    const u16* endo_rounds;
    std::byte* sums;  // point_bytes each, canonical, same form
    u8* present;      // per target: 1 a point, 0 infinity
    void* scratch;    // kernel.scratch_bytes, aligned to 64
};

struct Counts {
    u64 additions = 0;
    u64 doublings = 0;
    u64 cancellations = 0;  // P + (-P)
    u64 inversions = 0;
    u64 slow_passes = 0;  // rounds that met a zero denominator

    Counts& operator+=(const Counts& other) {
        additions += other.additions;
        doublings += other.doublings;
        cancellations += other.cancellations;
        inversions += other.inversions;
        slow_passes += other.slow_passes;
        return *this;
    }
};

// Where the digits of a scalar go. A half is cut into `blocks` parts, lowest first, and all parts into the same
// windows. A half with its bias has 128 bits: a window that reaches beyond them is cut short, and one that lies beyond
// is zero. Digit of window w in part b for half h (k1, k2) of scalar i: out[(w - first) * stride + b * block + h * half
// + i].
struct Digits {
    std::int16_t* out;  // stored at out + i for scalar i of this call
    std::size_t stride;
    std::size_t half;  // 0 when the scalars are short and k2 does not exist
    const u8* width;   // bits per window of a part, lowest first
    unsigned windows;
    unsigned first, last;  // the windows wanted in this call; window `first` is stored at w = 0
    unsigned blocks = 1;
    std::size_t block = 0;
};

constexpr unsigned half_bits = 128;
[[gnu::always_inline]] constexpr unsigned fitting_width(unsigned position, unsigned width) {
    return position >= half_bits ? 0 : position + width > half_bits ? half_bits - position : width;
}
// What is added to a half (in two's complement) to make the digits of all windows non-negative.
u128 digit_bias(const Digits& digits);

struct Kernel {
    const char* name;
    unsigned montgomery_bits;  // R = 2^this
    std::size_t scratch_bytes;
    bool (*usable)();
    void (*sum_lists)(const Chunk&, Counts&);
    // n points x, y (64 bytes each, little-endian, infinity as zeros) to prepared points. Canonical coordinates, plain
    // or in Montgomery form with R = 2^256.
    void (*prepare)(const std::byte* points, std::size_t n, bool montgomery, std::byte* table);
    // n little-endian scalars of 256 bits: reduced, split by GLV when half != 0, cut into signed digits.
    void (*decompose)(const std::byte* scalars, std::size_t n, const Digits& digits);
};

extern const Kernel portable_kernel;
#if defined(__x86_64__)
extern const Kernel adx_kernel;
extern const Kernel avx2_kernel;
extern const Kernel ifma_kernel;
#endif

}  // namespace whet::msm
