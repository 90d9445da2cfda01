// Records the regions of a kernel of your own: entry, exit, ticks summed over all trips, count and a written flag.
// Compile with -DWHET_REGIONS=1 to record. Otherwise WHET_REGION(...) is a statement that evaluates nothing, so the
// kernel is the very code that it is without this header. On: two clock reads and five stores per trip.
// Each worker writes its own row and nobody else's; rows lie further apart than a cache line, so none is shared.
#pragma once

#ifndef WHET_REGIONS
#define WHET_REGIONS 0
#endif

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#if WHET_REGIONS
#include <atomic>
#include <chrono>
#include <cstdio>
#endif

namespace whet::regions {

// What a region is; `parent` is the index of the region that encloses it, or -1. Roles: work, wait, boundary.
struct Region {
    std::string name;
    std::string role = "work";
    std::vector<std::string> tags = {};
    int parent = -1;
};

using Launch = std::initializer_list<std::pair<std::string, std::string>>;

enum class Saved { yes, off, failed };

#if WHET_REGIONS
inline namespace on {

struct Cell {
    std::int64_t entry, exit, ticks, count, written;
};

inline std::int64_t now_ns() noexcept {
    using std::chrono::steady_clock;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// The cells of one launch. start() and stop() belong to the thread that launches; cells to the worker of their row.
class Sheet {
  public:
    Sheet(std::string name, std::size_t workers, std::vector<Region> regions)
        : name_(std::move(name)),
          workers_(workers),
          regions_(std::move(regions)),
          stride_(regions_.size() + kApart),
          cells_(workers_ * stride_) {}

    // Before every launch: ticks of an earlier one must not survive in a region that does not run this time.
    void start() noexcept {
        for (Cell& cell : cells_) cell = Cell{};
        strays_.store(0, std::memory_order_relaxed);
        start_ = now_ns();
        stop_ = 0;
    }
    void stop() noexcept { stop_ = now_ns(); }

    void add(std::size_t worker, std::size_t region, std::int64_t entry, std::int64_t exit) noexcept {
        if (worker >= workers_ || region >= regions_.size()) {
            strays_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        Cell& cell = cells_[worker * stride_ + region];
        if (cell.count == 0) cell.entry = entry;
        cell.exit = exit;
        cell.ticks += exit - entry;
        cell.count += 1;
        cell.written = 1;
    }

    const Cell& cell(std::size_t worker, std::size_t region) const { return cells_.at(worker * stride_ + region); }

    // Writes PATH (.npy) and PATH.json, which `whet regions` reads. Fails before stop(), and where a worker or region
    // that does not exist was recorded. An older file of that name is removed first.
    Saved save(const std::string& path, Launch launch = {}) const {
        const std::string beside = path + ".json";
        std::remove(path.c_str());
        std::remove(beside.c_str());
        if (stop_ == 0 || strays_.load(std::memory_order_relaxed) != 0) return Saved::failed;
        return write(path, table()) && write(beside, about(launch)) ? Saved::yes : Saved::failed;
    }

  private:
    static constexpr std::size_t kApart = 2;

    static bool write(const std::string& path, const std::string& bytes) {
        std::FILE* file = std::fopen(path.c_str(), "wb");
        if (file == nullptr) return false;
        const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
        return (std::fclose(file) == 0) && whole;
    }

    std::string table() const {
        std::string header = "{'descr': [";
        for (const char* field : {"entry", "exit", "ticks", "count", "written"}) {
            header += std::string("('") + field + "', '<i8'), ";
        }
        header += "], 'fortran_order': False, 'shape': (" + std::to_string(workers_) + ", " +
                  std::to_string(regions_.size()) + "), }";
        constexpr std::size_t kPreamble = 10;
        while ((kPreamble + header.size() + 1) % 64 != 0) header += ' ';
        header += '\n';
        std::string bytes("\x93NUMPY\x01\x00", 8);
        bytes += static_cast<char>(header.size() & 0xff);
        bytes += static_cast<char>(header.size() >> 8);
        bytes += header;
        for (std::size_t worker = 0; worker < workers_; ++worker) {
            const Cell* row = &cells_[worker * stride_];
            bytes.append(reinterpret_cast<const char*>(row), regions_.size() * sizeof(Cell));
        }
        return bytes;
    }

    static std::string quoted(const std::string& text) {
        std::string out = "\"";
        for (const char c : text) out += (c >= ' ' && c <= '~' && c != '"' && c != '\\') ? c : '_';
        return out + '"';
    }

    std::string about(Launch launch) const {
        std::string out = "{\"format\": 1, \"tick_source\": \"monotonic\", \"grid\": {\"workers\": ";
        out += std::to_string(workers_) + "}, \"window\": [" + std::to_string(start_) + ", " + std::to_string(stop_);
        out += "], \"total_ns\": " + std::to_string(stop_ - start_) + ", \"launch\": {\"name\": " + quoted(name_);
        for (const auto& [key, value] : launch) out += ", " + quoted(key) + ": " + quoted(value);
        out += "}, \"schema\": {\"name\": " + quoted(name_) + ", \"region\": [";
        for (std::size_t id = 0; id < regions_.size(); ++id) {
            const Region& region = regions_[id];
            out += (id == 0 ? "" : ", ") + std::string("{\"id\": ") + std::to_string(id) + ", \"name\": ";
            out +=
                quoted(region.name) + ", \"role\": " + quoted(region.role) + ", \"elected\": true, \"per\": \"trip\"";
            if (region.parent >= 0) out += ", \"parent\": " + std::to_string(region.parent);
            out += ", \"tags\": [";
            for (std::size_t i = 0; i < region.tags.size(); ++i) out += (i == 0 ? "" : ", ") + quoted(region.tags[i]);
            out += "]}";
        }
        return out + "]}}\n";
    }

    std::string name_;
    std::size_t workers_;
    std::vector<Region> regions_;
    std::size_t stride_;
    std::vector<Cell> cells_;
    std::atomic<std::int64_t> strays_{0};
    std::int64_t start_ = 0;
    std::int64_t stop_ = 0;
};

// One trip of a region: from construction to the end of the enclosing block.
class Trip {
  public:
    Trip(Sheet& sheet, std::size_t worker, std::size_t region) noexcept
        : sheet_(sheet), worker_(worker), region_(region), entry_(now_ns()) {}
    ~Trip() { sheet_.add(worker_, region_, entry_, now_ns()); }
    Trip(const Trip&) = delete;
    Trip& operator=(const Trip&) = delete;

  private:
    Sheet& sheet_;
    std::size_t worker_;
    std::size_t region_;
    std::int64_t entry_;
};

}  // namespace on

#define WHET_REGION_JOIN_(a, b) a##b
#define WHET_REGION_NAME_(line) WHET_REGION_JOIN_(whet_region_at_, line)
#define WHET_REGION(sheet, worker, region) \
    const ::whet::regions::Trip WHET_REGION_NAME_(__LINE__) { sheet, worker, region }

#else
inline namespace off {

// Keeps callers compiling; holds nothing and does nothing.
class Sheet {
  public:
    Sheet(const std::string&, std::size_t, const std::vector<Region>&) {}
    void start() noexcept {}
    void stop() noexcept {}
    Saved save(const std::string&, Launch = {}) const { return Saved::off; }
};

}  // namespace off

// sizeof evaluates nothing, and keeps the arguments in use so that no warning tells the two states apart.
#define WHET_REGION(sheet, worker, region) static_cast<void>(sizeof(sheet) + sizeof(worker) + sizeof(region))

#endif

}  // namespace whet::regions
