// The sheet that the timed kernels write: compiled with WHET_REGIONS=1, like them.
#include "decode/kernel.hpp"
#include "regions/region.hpp"

namespace whet::decode {

struct RegionSheet {
    explicit RegionSheet(unsigned workers)
        : sheet("decode", workers,
                {{"norm"},
                 {"project", "work", {"k_reducible"}},
                 {"wait_project", "wait"},
                 {"attend"},
                 {"wait_attend", "wait"},
                 {"wo", "work", {"k_reducible"}},
                 {"gather"},
                 {"wait_wo", "wait"},
                 {"fc1", "work", {"k_reducible"}},
                 {"wait_fc1", "wait"},
                 {"fc2", "work", {"k_reducible"}}}) {}
    regions::Sheet sheet;
};

std::shared_ptr<RegionSheet> make_sheet(unsigned workers) { return std::make_shared<RegionSheet>(workers); }
void* sheet_of(RegionSheet& sheet) { return &sheet.sheet; }
void start_sheet(RegionSheet& sheet) { sheet.sheet.start(); }
void stop_sheet(RegionSheet& sheet) { sheet.sheet.stop(); }

bool save_sheet(const RegionSheet& sheet, const std::string& path, const std::string& launch) {
    return sheet.sheet.save(path, {{"variant", launch}}) == regions::Saved::yes;
}

}  // namespace whet::decode
