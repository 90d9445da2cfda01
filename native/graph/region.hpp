// The bytes of a buffer that one tensor argument touches, and whether two of them meet.
#pragma once

#include <cstdint>

namespace whet::graph {

inline constexpr int kMaxDims = 6;

// A strided view with the trivial dimensions taken out: strides positive and descending, extents above 1, the last
// dimension a contiguous run of `run` bytes.
struct View {
    std::uint32_t dims = 0;  // outer dimensions, without the run
    std::uint64_t run = 0;   // bytes
    std::uint64_t extent[kMaxDims] = {};
    std::uint64_t stride[kMaxDims] = {};  // bytes
};

// [begin, end) are byte offsets in the buffer. `view` is null when every byte in between is touched.
struct Region {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    const View* view = nullptr;
};

enum class Overlap : std::uint8_t {
    none,
    some,     // they meet, or it cannot be told
    covered,  // the first contains the second
};

// The same for regions whose intervals meet and of which one at least is strided.
Overlap overlap_of_views(const Region& first, const Region& second);

// Exact for two contiguous regions, and for two views over the same strides when each fits its lattice cell.
// Otherwise conservative: `some` if the byte intervals meet.
inline Overlap overlap(const Region& first, const Region& second) {
    if (first.begin >= second.end || second.begin >= first.end) return Overlap::none;
    if (!first.view) {
        if (first.begin <= second.begin && second.end <= first.end) return Overlap::covered;
        if (!second.view) return Overlap::some;
    }
    return overlap_of_views(first, second);
}

// Builds a region from a numpy-like description; strides in bytes, of any sign. `view` receives the strided form and
// must outlive the region's use. Returns false if the view has too many dimensions left to be kept exactly: the region
// then is the byte interval, which is conservative.
bool make_region(std::uint64_t offset, std::uint64_t item_bytes, int dims, const std::int64_t* shape,
                 const std::int64_t* strides, View& view, Region& region);

}  // namespace whet::graph
