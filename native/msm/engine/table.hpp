// Points made ready once: x and y of each in the kernel's Montgomery form, in memory or mapped from a file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/pool/pool.hpp"
#include "msm/affine/chunk.hpp"
#include "msm/engine/memory.hpp"

namespace whet::msm {

enum class Verify { header, everything };
enum class Check { none, on_curve };
enum class Hold { map, copy };

class Table {
  public:
    // Room for n points, which fill() then provides, and for `factor` multiples of each (see plan.hpp).
    static std::shared_ptr<Table> reserve(Ledger& ledger, const Kernel& kernel, std::size_t n, unsigned factor);
    // Points first .. first + n. `points`: n of 64 bytes, as Kernel::prepare takes them. No run may be under way.
    void fill(const Kernel& kernel, graph::Pool& pool, std::size_t first, const std::byte* points, std::size_t n,
              bool montgomery);
    // Reads a file that save() wrote, or maps it. A file for another Montgomery form is converted into memory in
    // either case. A checksum can be forged; `check` looks at every point. Whoever can write to a mapped file can
    // change points after that, or end the process by cutting it short; a copy is out of reach.
    static std::shared_ptr<Table> open(Ledger& ledger, const Kernel& kernel, graph::Pool& pool, const std::string& path,
                                       Verify verify, Check check, Hold hold);
    // Written beside the target, under a name that nobody has, and renamed over it: a reader never sees half a file,
    // and no link is followed.
    void save(const std::string& path) const;

    ~Table();
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    std::size_t size() const { return size_; }
    unsigned factor() const { return factor_; }
    // Block after block: block b has the multiples 2^(b block_bits(factor)) P of all points.
    const std::byte* data() const { return data_; }
    // Indices of points at infinity, ascending. Their digits are cleared, so that kernels never meet one.
    const std::vector<u32>& infinite() const { return infinite_; }
    bool mapped() const { return mapping_ != nullptr; }
    std::size_t held_bytes() const { return block_.bytes(); }  // of memory; a map is none
    // Throws when the file under the map is no longer as long as it was: touching it would be a bus error.
    void require_whole() const;

  private:
    Table(Ledger& ledger, unsigned montgomery_bits)
        : block_(ledger, "prepared points"), montgomery_bits_(montgomery_bits) {}
    void convert(graph::Pool& pool, const std::byte* from, unsigned from_bits);
    std::size_t data_bytes() const { return point_bytes * factor_ * size_; }
    void require_points(graph::Pool& pool, const std::string& path, unsigned form_bits) const;
    void require_multiples(graph::Pool& pool, const std::string& path, unsigned form_bits) const;

    Block block_;
    unsigned montgomery_bits_;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    unsigned factor_ = 1;
    std::vector<u32> infinite_;
    void* mapping_ = nullptr;
    std::size_t mapping_bytes_ = 0;
    int file_ = -1;
};

}  // namespace whet::msm
