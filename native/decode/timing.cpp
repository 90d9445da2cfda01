// The sheet that the timed kernels write: compiled with WHET_REGIONS=1, like them.
#include "decode/kernel.hpp"
#include "regions/region.hpp"

namespace whet::decode {

struct RegionSheet {
    explicit RegionSheet(unsigned count)
        : workers(count),
          regions{{"norm"},
                  {"project", "work", {"k_reducible"}},
                  {"wait_project", "wait"},
                  {"attend"},
                  {"wait_attend", "wait"},
                  {"wo", "work", {"k_reducible"}},
                  {"gather"},
                  {"wait_wo", "wait"},
                  {"fc1", "work", {"k_reducible"}},
                  {"wait_fc1", "wait"},
                  {"fc2", "work", {"k_reducible"}}},
          sheet("decode", workers, regions, regions::Room{16}) {}
    unsigned workers;
    std::vector<regions::Region> regions;
    regions::Sheet sheet;
};

std::shared_ptr<RegionSheet> make_sheet(unsigned workers) { return std::make_shared<RegionSheet>(workers); }
void* sheet_of(RegionSheet& sheet) { return &sheet.sheet; }
void start_sheet(RegionSheet& sheet) { sheet.sheet.start(); }
void stop_sheet(RegionSheet& sheet) { sheet.sheet.stop(); }

std::vector<RegionTicks> ticks_of(const RegionSheet& sheet) {
    std::vector<RegionTicks> found;
    for (std::size_t region = 0; region < sheet.regions.size(); ++region) {
        RegionTicks ticks{sheet.regions[region].name};
        bool written = false;
        for (unsigned worker = 0; worker < sheet.workers; ++worker) {
            const regions::Cell cell = sheet.sheet.cell(worker, region);
            written = written || cell.written != 0;
            ticks.total_ns += cell.ticks;
        }
        if (written) found.push_back(ticks);
    }
    return found;
}

bool save_sheet(const RegionSheet& sheet, const std::string& path, const std::string& launch) {
    return sheet.sheet.save(path, {{"variant", launch}}) == regions::Saved::yes;
}

}  // namespace whet::decode
