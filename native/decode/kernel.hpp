// The entry points of kernel.cpp: one per instruction set, with and without region timing.
#pragma once

#include "decode/layer.hpp"

namespace whet::decode {

// Runs phases [first, last) as `worker`, with a barrier between each two. Every worker below c.workers must be running
// the same call when there is a barrier in it.
using Kernel = void (*)(Context& c, int first, int last, unsigned worker);

void kernel_portable(Context& c, int first, int last, unsigned worker);
void kernel_portable_timed(Context& c, int first, int last, unsigned worker);
// Only in builds for x86-64:
void kernel_avx2(Context& c, int first, int last, unsigned worker);
void kernel_avx2_timed(Context& c, int first, int last, unsigned worker);
void kernel_avx512(Context& c, int first, int last, unsigned worker);
void kernel_avx512_timed(Context& c, int first, int last, unsigned worker);

// Regions of the timed build, in this order in timing.cpp.
enum RegionId : std::size_t {
    region_norm,
    region_project,
    region_wait_project,
    region_attend,
    region_wait_attend,
    region_wo,
    region_gather,
    region_wait_wo,
    region_fc1,
    region_wait_fc1,
    region_fc2,
};

std::shared_ptr<RegionSheet> make_sheet(unsigned workers);
void* sheet_of(RegionSheet& sheet);
void start_sheet(RegionSheet& sheet);
void stop_sheet(RegionSheet& sheet);
std::vector<RegionTicks> ticks_of(const RegionSheet& sheet);
bool save_sheet(const RegionSheet& sheet, const std::string& path, const std::string& launch);

}  // namespace whet::decode
