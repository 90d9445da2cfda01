#include "msm/engine/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "msm/engine/errors.hpp"

namespace whet::msm {

namespace {

constexpr std::size_t page = 4096, huge_page = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Rooms that blocks gave back, for the next who wants one like it: a call without an engine then touches no fresh
// memory, which is a fault of the system for each page. Never waits: who finds the lock taken asks the system. So a
// child that was forked while a thread held it does without.
class KeptRooms {
  public:
    struct Room {
        void* data = nullptr;
        std::size_t bytes = 0;
    };

    Room take(std::size_t bytes) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        Room* best = nullptr;
        for (Room& room : rooms_) {
            if (!lock || room.bytes < bytes || room.bytes > 2 * bytes) continue;
            if (best == nullptr || room.bytes < best->bytes) best = &room;
        }
        if (best == nullptr) return {};
        kept_bytes_ -= best->bytes;
        return std::exchange(*best, {});
    }
    bool keep(Room room) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || kept_bytes_ + room.bytes > most_kept_bytes) return false;
        const auto place = std::find_if(rooms_.begin(), rooms_.end(), [](const Room& r) { return r.data == nullptr; });
        if (place == rooms_.end()) return false;
        *place = room;
        kept_bytes_ += room.bytes;
        return true;
    }

  private:
    std::mutex mutex_;
    std::array<Room, 32> rooms_{};
    std::size_t kept_bytes_ = 0;
};

KeptRooms& kept_rooms() {
    static KeptRooms rooms;  // never destroyed before the last block: it has no destructor
    return rooms;
}
static_assert(std::is_trivially_destructible_v<KeptRooms>);

}  // namespace

void Ledger::add(const char* name, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    rows_[name] += bytes;
    current_ += bytes;
    peak_ = std::max(peak_, current_);
}

void Ledger::remove(const char* name, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto row = rows_.find(name);
    row->second -= bytes;
    if (row->second == 0) rows_.erase(row);
    current_ -= bytes;
}

std::map<std::string, std::size_t> Ledger::rows() const {
    const std::lock_guard lock(mutex_);
    return rows_;
}

std::size_t Ledger::current_bytes() const {
    const std::lock_guard lock(mutex_);
    return current_;
}

std::size_t Ledger::peak_bytes() const {
    const std::lock_guard lock(mutex_);
    return peak_;
}

bool Ledger::must_fail() {
    long left = fail_after_.load();
    while (left >= 0) {
        if (fail_after_.compare_exchange_weak(left, left - 1)) return left == 0;
    }
    return false;
}

void Block::reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    release();
    const std::size_t mapped = rounded_up(bytes, bytes >= huge_page ? huge_page : page);
    const bool fail = ledger_.must_fail();
    if (const KeptRooms::Room kept = fail ? KeptRooms::Room{} : kept_rooms().take(mapped); kept.data != nullptr) {
        data_ = kept.data;
        bytes_ = bytes;
        mapped_ = kept.bytes;
        ledger_.add(name_, bytes);
        return;
    }
    void* data = fail ? MAP_FAILED : mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        throw EngineError(Trouble::out_of_memory,
                          "no memory for " + std::string(name_) + " (" + std::to_string(bytes) + " bytes)",
                          "use fewer points at a time, or free memory");
#ifdef MADV_HUGEPAGE
    if (bytes >= huge_page) madvise(data, mapped, MADV_HUGEPAGE);
#endif
    data_ = data;
    bytes_ = bytes;
    mapped_ = mapped;
    ledger_.add(name_, bytes);
}

void Block::release() {
    if (data_ == nullptr) return;
    if (!kept_rooms().keep({data_, mapped_})) munmap(data_, mapped_);
    ledger_.remove(name_, bytes_);
    data_ = nullptr;
    bytes_ = mapped_ = 0;
}

}  // namespace whet::msm
