// Records the regions of a kernel of your own: entry, exit, ticks summed over all trips, count and a written flag.
// Compile with -DWHET_REGIONS=1 to record. Otherwise WHET_REGION(...) is a statement that evaluates nothing, so the
// kernel is the very code that it is without this header. On: two clock reads and a few stores per trip.
// Each worker writes its own rows and nobody else's; rows lie further apart than a cache line, so none is shared.
// A worker that leaves a wait begins a new row (a stretch), so that a barrier inside a loop keeps its arrival times.
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
#include <mutex>
#include <stdexcept>
#include <type_traits>
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

// How many waits of each worker keep their own times. Later ones are summed, and whet says that they are.
struct Room {
    std::size_t waits = 2000;
};

// What became of save().
enum class [[nodiscard]] Saved { yes, off, not_started, not_stopped, stray, no_file };

inline const char* text(Saved saved) noexcept {
    switch (saved) {
        case Saved::yes:
            return "written";
        case Saved::off:
            return "regions are off: compile with -DWHET_REGIONS=1";
        case Saved::not_started:
            return "start() was not called before the launch";
        case Saved::not_stopped:
            return "stop() was not called after the launch";
        case Saved::stray:
            return "a worker or region was recorded that the sheet does not have";
        case Saved::no_file:
            return "the file cannot be written";
    }
    return "?";
}

#if WHET_REGIONS
inline namespace on {

struct Cell {
    std::int64_t entry, exit, ticks, count, written;
};

inline std::int64_t now_ns() noexcept {
    using std::chrono::steady_clock;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// The cells of one launch. start(), stop() and save() belong to the thread that launches; cells to the worker of their
// row. save_so_far() may come from any thread at any time: what it reads is stored so that no half-written cell is seen
// with more ticks than lie between its entry and its exit.
class Sheet {
  public:
    Sheet(std::string name, std::size_t workers, std::vector<Region> regions, Room room = {})
        : name_(std::move(name)),
          workers_(workers),
          regions_(std::move(regions)),
          rows_(count_waits(regions_) == 0 ? 1 : room.waits + 1),
          stride_(regions_.size() * rows_ + kApart),
          at_(workers_),
          cells_(workers_ * stride_) {
        for (const Region& region : regions_) is_wait_.push_back(region.role == "wait");
    }
    Sheet(const Sheet&) = delete;
    Sheet& operator=(const Sheet&) = delete;

    // Before every launch: ticks of an earlier one must not survive in a region that does not run this time.
    void start() noexcept {
        const std::lock_guard<std::mutex> guard(times_);
        for (Cell& cell : cells_) cell = Cell{};
        for (At& at : at_) at.row.store(0, std::memory_order_relaxed);
        strays_.store(0, std::memory_order_relaxed);
        start_ = now_ns();
        stop_ = 0;
    }
    void stop() noexcept {
        const std::lock_guard<std::mutex> guard(times_);
        stop_ = now_ns();
    }

    // Inlined wherever it is used, like the trip that calls it: of several copies the linker keeps one for all, and
    // that may be one that was compiled for a newer processor.
    [[gnu::always_inline]] void add(std::size_t worker, std::size_t region, std::int64_t entry,
                                    std::int64_t exit) noexcept {
        if (worker >= workers_ || region >= regions_.size()) {
            strays_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        const std::size_t row = at_[worker].row.load(std::memory_order_relaxed);
        Cell& cell = cells_[worker * stride_ + row * regions_.size() + region];
        if (cell.count == 0) put(cell.entry, entry);
        put(cell.written, 1);
        put(cell.count, cell.count + 1);
        put(cell.exit, exit);
        std::atomic_ref<std::int64_t>(cell.ticks).store(cell.ticks + exit - entry, std::memory_order_release);
        if (is_wait_[region] && row + 1 < rows_) at_[worker].row.store(row + 1, std::memory_order_release);
    }

    // The sum over all stretches.
    Cell cell(std::size_t worker, std::size_t region) const {
        if (worker >= workers_ || region >= regions_.size()) throw std::out_of_range("no such cell");
        Cell sum{};
        for (std::size_t row = 0; row <= at_[worker].row.load(std::memory_order_acquire); ++row) {
            const Cell part = read(worker, row, region);
            if (part.count == 0) continue;
            if (sum.count == 0) sum.entry = part.entry;
            sum = {sum.entry, part.exit, sum.ticks + part.ticks, sum.count + part.count, 1};
        }
        return sum;
    }

    // Writes PATH (.npy), PATH.json and, where there are waits, PATH.stretches.npy, which `whet regions` reads. What
    // keeps it from doing so is returned and written to stderr. Older files of that name are removed first.
    Saved save(const std::string& path, Launch launch = {}) const {
        const std::lock_guard<std::mutex> guard(times_);
        return write_all(path, launch, stop_,
                         start_ == 0  ? Saved::not_started
                         : stop_ == 0 ? Saved::not_stopped
                                      : Saved::yes);
    }

    // The same while the launch goes on: everything that workers have left by now.
    Saved save_so_far(const std::string& path, Launch launch = {}) const {
        const std::lock_guard<std::mutex> guard(times_);
        return write_all(path, launch, stop_ == 0 ? now_ns() : stop_, start_ == 0 ? Saved::not_started : Saved::yes);
    }

  private:
    static constexpr std::size_t kApart = 2;
    struct alignas(64) At {
        std::atomic<std::size_t> row{0};  // written by its worker alone
    };
    struct Stretch {
        std::int64_t worker, region, entry, exit, ticks, count;
    };

    static std::size_t count_waits(const std::vector<Region>& regions) {
        std::size_t found = 0;
        for (const Region& region : regions) found += region.role == "wait";
        return found;
    }

    [[gnu::always_inline]] static void put(std::int64_t& to, std::int64_t value) noexcept {
        std::atomic_ref<std::int64_t>(to).store(value, std::memory_order_relaxed);
    }
    static std::int64_t got(const std::int64_t& from, std::memory_order order) noexcept {
        return std::atomic_ref<std::int64_t>(const_cast<std::int64_t&>(from)).load(order);
    }

    // Ticks first: what was stored before them is then at least as new, so they never exceed exit minus entry.
    Cell read(std::size_t worker, std::size_t row, std::size_t region) const noexcept {
        const Cell& cell = cells_[worker * stride_ + row * regions_.size() + region];
        Cell seen{};
        seen.ticks = got(cell.ticks, std::memory_order_acquire);
        seen.exit = got(cell.exit, std::memory_order_relaxed);
        seen.entry = got(cell.entry, std::memory_order_relaxed);
        seen.count = got(cell.count, std::memory_order_relaxed);
        // A first trip of which only the entry is there yet has not been left.
        if (seen.exit < seen.entry || seen.exit == 0) return Cell{};
        seen.written = 1;
        return seen;
    }

    Saved write_all(const std::string& path, Launch launch, std::int64_t end, Saved state) const {
        std::remove(path.c_str());
        std::remove((path + ".json").c_str());
        std::remove((path + ".stretches.npy").c_str());
        if (state == Saved::yes && strays_.load(std::memory_order_relaxed) != 0) state = Saved::stray;
        if (state == Saved::yes && !write_files(path, launch, end)) state = Saved::no_file;
        if (state != Saved::yes) std::fprintf(stderr, "whet regions: %s: %s\n", path.c_str(), text(state));
        return state;
    }

    // The sheet itself comes last: whoever waits for the file finds the others beside it.
    bool write_files(const std::string& path, Launch launch, std::int64_t end) const {
        std::vector<Cell> sums(workers_ * regions_.size());
        std::string stretches;
        std::size_t count = 0;
        for (std::size_t worker = 0; worker < workers_; ++worker) {
            const std::size_t last = at_[worker].row.load(std::memory_order_acquire);
            for (std::size_t row = 0; row <= last; ++row) {
                for (std::size_t region = 0; region < regions_.size(); ++region) {
                    const Cell part = read(worker, row, region);
                    if (part.count == 0) continue;
                    Cell& sum = sums[worker * regions_.size() + region];
                    if (sum.count == 0) sum.entry = part.entry;
                    sum = {sum.entry, part.exit, sum.ticks + part.ticks, sum.count + part.count, 1};
                    const Stretch stretch{static_cast<std::int64_t>(worker),
                                          static_cast<std::int64_t>(region),
                                          part.entry,
                                          part.exit,
                                          part.ticks,
                                          part.count};
                    stretches.append(reinterpret_cast<const char*>(&stretch), sizeof stretch);
                    ++count;
                }
            }
        }
        const std::string rows(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(Cell));
        const std::string cut =
            header({"worker", "region", "entry", "exit", "ticks", "count"}, std::to_string(count) + ",");
        const std::string shape = std::to_string(workers_) + ", " + std::to_string(regions_.size());
        if (rows_ > 1 && !write(path + ".stretches.npy", cut + stretches)) return false;
        if (!write(path + ".json", about(launch, end))) return false;
        return write(path + ".part", header({"entry", "exit", "ticks", "count", "written"}, shape) + rows) &&
               std::rename((path + ".part").c_str(), path.c_str()) == 0;
    }

    static bool write(const std::string& path, const std::string& bytes) {
        std::FILE* file = std::fopen(path.c_str(), "wb");
        if (file == nullptr) return false;
        const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
        return (std::fclose(file) == 0) && whole;
    }

    static std::string header(std::initializer_list<const char*> fields, const std::string& shape) {
        std::string text = "{'descr': [";
        for (const char* field : fields) text += std::string("('") + field + "', '<i8'), ";
        text += "], 'fortran_order': False, 'shape': (" + shape + "), }";
        constexpr std::size_t kPreamble = 10;
        while ((kPreamble + text.size() + 1) % 64 != 0) text += ' ';
        text += '\n';
        std::string bytes("\x93NUMPY\x01\x00", 8);
        bytes += static_cast<char>(text.size() & 0xff);
        bytes += static_cast<char>(text.size() >> 8);
        return bytes + text;
    }

    static std::string quoted(const std::string& text) {
        std::string out = "\"";
        for (const char c : text) out += (c >= ' ' && c <= '~' && c != '"' && c != '\\') ? c : '_';
        return out + '"';
    }

    std::string about(Launch launch, std::int64_t end) const {
        std::string out = "{\"format\": 1, \"tick_source\": \"monotonic\", \"grid\": {\"workers\": ";
        out += std::to_string(workers_) + "}, \"window\": [" + std::to_string(start_) + ", " + std::to_string(end);
        out += std::string("], \"complete\": ") + (stop_ != 0 ? "true" : "false");
        out += ", \"total_ns\": " + std::to_string(end - start_) + ", \"launch\": {\"name\": " + quoted(name_);
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
    std::size_t rows_;  // of each worker: one for each wait that keeps its times, and one for what follows
    std::size_t stride_;
    std::vector<char> is_wait_;
    std::vector<At> at_;
    std::vector<Cell> cells_;
    mutable std::mutex times_;  // start_ and stop_; never taken by a worker
    std::atomic<std::int64_t> strays_{0};
    std::int64_t start_ = 0;
    std::int64_t stop_ = 0;
};

// One trip of a region: from construction to the end of the enclosing block. Worker and region are integers or enums of
// any kind; a negative one is a stray, of which save() tells.
class Trip {
  public:
    template <class Worker, class Which>
    Trip(Sheet& into, Worker who, Which what) noexcept
        : sheet_(into),
          worker_(static_cast<std::size_t>(who)),
          region_(static_cast<std::size_t>(what)),
          entry_(now_ns()) {
        static_assert(std::is_integral_v<Worker> || std::is_enum_v<Worker>, "the worker is an index: 0, 1, 2, ...");
        static_assert(std::is_integral_v<Which> || std::is_enum_v<Which>,
                      "the region is its index in the sheet's list, or an enum with these values");
    }
    [[gnu::always_inline]] ~Trip() { sheet_.add(worker_, region_, entry_, now_ns()); }
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
    Sheet(const std::string&, std::size_t, const std::vector<Region>&, Room = {}) {}
    void start() noexcept {}
    void stop() noexcept {}
    Saved save(const std::string&, Launch = {}) const { return Saved::off; }
    Saved save_so_far(const std::string&, Launch = {}) const { return Saved::off; }
};

}  // namespace off

// sizeof evaluates nothing, and keeps the arguments in use so that no warning tells the two states apart.
#define WHET_REGION(sheet, worker, region) static_cast<void>(sizeof(sheet) + sizeof(worker) + sizeof(region))

#endif

}  // namespace whet::regions
