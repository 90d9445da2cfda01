#include "graph/region.hpp"

#include <algorithm>
#include <functional>

namespace whet::graph {

namespace {

constexpr int kMaxLattice = 2 * kMaxDims + 1;

// A region as a box: one interval per lattice dimension, the last one in bytes.
struct Box {
    std::uint64_t first[kMaxLattice];
    std::uint64_t count[kMaxLattice];
};

// The strides of both views, descending and without repeats, then 1. Zero if they do not divide one another.
int common_lattice(const Region& first, const Region& second, std::uint64_t* strides) {
    static constexpr View none{};
    const View& a = first.view ? *first.view : none;
    const View& b = second.view ? *second.view : none;
    std::uint64_t* end =
        std::merge(a.stride, a.stride + a.dims, b.stride, b.stride + b.dims, strides, std::greater<>());
    *end++ = 1;
    int dims = static_cast<int>(end - strides);
    dims = static_cast<int>(std::unique(strides, strides + dims) - strides);
    for (int dim = 1; dim < dims; ++dim) {
        if (strides[dim - 1] % strides[dim] != 0) return 0;
    }
    return dims;
}

// False if the region is not a box of this lattice: a row that runs over the end of its cell.
bool as_box(const Region& region, const std::uint64_t* strides, int dims, Box& box) {
    std::uint64_t rest = region.begin;
    for (int dim = 0; dim < dims; ++dim) {
        box.first[dim] = rest / strides[dim];
        rest %= strides[dim];
        box.count[dim] = 1;
    }
    box.count[dims - 1] = region.view ? region.view->run : region.end - region.begin;
    for (std::uint32_t dim = 0; region.view && dim < region.view->dims; ++dim) {
        const auto* place = std::find(strides, strides + dims, region.view->stride[dim]);
        box.count[place - strides] *= region.view->extent[dim];
    }
    for (int dim = dims - 1; dim > 0; --dim) {
        const std::uint64_t cell = strides[dim - 1] / strides[dim];
        if (box.first[dim] + box.count[dim] <= cell) continue;
        // Whole cells carry into the next dimension.
        if (box.first[dim] != 0 || box.count[dim] % cell != 0 || box.count[dim - 1] != 1) return false;
        box.count[dim - 1] = box.count[dim] / cell;
        box.count[dim] = cell;
    }
    return true;
}

}  // namespace

Overlap overlap_of_views(const Region& first, const Region& second) {
    std::uint64_t strides[kMaxLattice];
    const int dims = common_lattice(first, second, strides);
    Box a;
    Box b;
    if (dims == 0 || !as_box(first, strides, dims, a) || !as_box(second, strides, dims, b)) return Overlap::some;
    bool covered = true;
    for (int dim = 0; dim < dims; ++dim) {
        const std::uint64_t a_end = a.first[dim] + a.count[dim];
        const std::uint64_t b_end = b.first[dim] + b.count[dim];
        if (a.first[dim] >= b_end || b.first[dim] >= a_end) return Overlap::none;
        covered = covered && a.first[dim] <= b.first[dim] && b_end <= a_end;
    }
    return covered ? Overlap::covered : Overlap::some;
}

bool make_region(std::uint64_t offset, std::uint64_t item_bytes, int dims, const std::int64_t* shape,
                 const std::int64_t* strides, View& view, Region& region) {
    struct Dim {
        std::uint64_t extent;
        std::uint64_t stride;
    };
    Dim kept[64];
    int count = 0;
    std::uint64_t begin = offset;
    std::uint64_t span = item_bytes;
    bool exact = true;
    region = {offset, offset, nullptr};
    for (int dim = 0; dim < dims; ++dim) {
        if (shape[dim] <= 0) return true;  // no element, no byte
        if (shape[dim] == 1 || strides[dim] == 0) continue;
        const auto extent = static_cast<std::uint64_t>(shape[dim]);
        const auto stride = static_cast<std::uint64_t>(strides[dim] < 0 ? -strides[dim] : strides[dim]);
        if (strides[dim] < 0) begin -= (extent - 1) * stride;
        span += (extent - 1) * stride;
        if (count < 64) {
            kept[count++] = {extent, stride};
        } else {
            exact = false;
        }
    }
    region = {begin, begin + span, nullptr};
    if (!exact) return false;
    std::sort(kept, kept + count, [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
    // From the innermost dimension outwards: what follows without a gap joins the run, equal rows join each other.
    view = View{};
    view.run = item_bytes;
    int inner = count;
    while (inner > 0 && kept[inner - 1].stride <= view.run) {
        if (kept[inner - 1].stride < view.run) return false;  // overlapping elements
        view.run *= kept[--inner].extent;
    }
    if (inner == 0) return true;
    Dim joined[64];
    int outer = 0;
    for (int dim = 0; dim < inner; ++dim) {
        if (outer > 0 && joined[outer - 1].stride == kept[dim].stride * kept[dim].extent) {
            joined[outer - 1] = {joined[outer - 1].extent * kept[dim].extent, kept[dim].stride};
        } else {
            joined[outer++] = kept[dim];
        }
    }
    if (outer > kMaxDims) return false;
    for (int dim = 0; dim < outer; ++dim) {
        const std::uint64_t inside = dim + 1 < outer ? joined[dim + 1].stride * joined[dim + 1].extent : view.run;
        if (joined[dim].stride < inside) return false;  // rows that overlap each other are no box
        view.extent[dim] = joined[dim].extent;
        view.stride[dim] = joined[dim].stride;
    }
    view.dims = static_cast<std::uint32_t>(outer);
    region.view = &view;
    return true;
}

}  // namespace whet::graph
