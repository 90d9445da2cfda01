// Every byte the engine holds, by name. Blocks are mapped straight from the system, in huge pages where they are large,
// so that a gather over megabytes of points does not walk page tables.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace whet::msm {

class Ledger {
  public:
    void add(const char* name, std::size_t bytes);
    void remove(const char* name, std::size_t bytes);
    std::map<std::string, std::size_t> rows() const;
    std::size_t current_bytes() const;
    std::size_t peak_bytes() const;
    // Tests make the allocation after `count` more fail as if the system had no memory; negative: never.
    void fail_after(long count) { fail_after_.store(count); }
    bool must_fail();

  private:
    mutable std::mutex mutex_;
    std::map<std::string, std::size_t> rows_;
    std::size_t current_ = 0, peak_ = 0;
    std::atomic<long> fail_after_{-1};
};

// Contents are anything when it is fresh, and lost when it grows. Owned by one thread at a time. A room that is given
// back stays with the process, up to `most_kept_bytes` in all, for the next block that wants one like it.
constexpr std::size_t most_kept_bytes = std::size_t{48} << 20;
class Block {
  public:
    Block(Ledger& ledger, const char* name) : ledger_(ledger), name_(name) {}
    ~Block() { release(); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    void reserve(std::size_t bytes);
    void release();
    std::size_t bytes() const { return bytes_; }
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

  private:
    Ledger& ledger_;
    const char* name_;
    void* data_ = nullptr;
    std::size_t bytes_ = 0, mapped_ = 0;
};

}  // namespace whet::msm
