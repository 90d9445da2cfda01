#include "msm/engine/table.hpp"

#include <algorithm>
#include <cstring>

#include "curve/bn254.hpp"
#include "msm/affine/small.hpp"
#include "msm/engine/errors.hpp"
#include "msm/engine/plan.hpp"

namespace whet::msm {

namespace {

constexpr std::size_t points_per_task = 2048;

std::size_t tasks_of(std::size_t points) { return (points + points_per_task - 1) / points_per_task; }

bool is_zero_point(const std::byte* point) {
    u64 words[8];
    std::memcpy(words, point, sizeof words);
    u64 any = 0;
    for (const u64 word : words) any |= word;
    return any == 0;
}

}  // namespace

std::shared_ptr<Table> Table::reserve(Ledger& ledger, const Kernel& kernel, std::size_t n, unsigned factor) {
    const std::shared_ptr<Table> table(new Table(ledger, kernel.montgomery_bits));
    table->size_ = n;
    table->factor_ = factor;
    table->block_.reserve(table->data_bytes());
    table->data_ = table->block_.as<std::byte>();
    return table;
}

void Table::fill(const Kernel& kernel, graph::Pool& pool, std::size_t first, const std::byte* points, std::size_t n,
                 bool montgomery) {
    std::byte* const data = block_.as<std::byte>() + point_bytes * first;
    pool.parallel_for(tasks_of(n), [&](std::size_t task, unsigned) {
        const std::size_t begin = task * points_per_task;
        kernel.prepare(points + point_bytes * begin, std::min(points_per_task, n - begin), montgomery,
                       data + point_bytes * begin);
        for (unsigned b = 1; b < factor_; ++b) {
            std::byte* const to = data + point_bytes * (b * size_ + begin);
            fastest_multiples()(to - point_bytes * size_, std::min(points_per_task, n - begin), montgomery_bits_,
                                block_bits(factor_), to);
        }
    });
    std::vector<u32> found;
    for (std::size_t i = 0; i < n; ++i) {
        if (is_zero_point(points + point_bytes * i)) found.push_back(static_cast<u32>(first + i));
    }
    const auto from = std::lower_bound(infinite_.begin(), infinite_.end(), first);
    const auto to = std::lower_bound(from, infinite_.end(), first + n);
    infinite_.insert(infinite_.erase(from, to), found.begin(), found.end());
}

// From one Montgomery form to another.
void Table::convert(graph::Pool& pool, const std::byte* from, unsigned from_bits) {
    block_.reserve(data_bytes());
    std::byte* const to = block_.as<std::byte>();
    const std::size_t points = factor_ * size_;
    const Fp factor = form_factor(from_bits, montgomery_bits_);
    pool.parallel_for(tasks_of(points), [&](std::size_t task, unsigned) {
        const std::size_t first = 2 * task * points_per_task;
        const std::size_t last = std::min(first + 2 * points_per_task, 2 * points);
        for (std::size_t i = first; i < last; ++i) {
            Limbs<4> value;
            std::memcpy(&value, from + field_bytes * i, field_bytes);
            value = (Fp::from_montgomery_limbs(value) * factor).montgomery_limbs();
            std::memcpy(to + field_bytes * i, &value, field_bytes);
        }
    });
    data_ = to;
}

// Coordinates below p, points on the curve, and infinity as zeros exactly where the list says so. `form_bits` is the
// Montgomery form that the points at `data_` have.
void Table::require_points(graph::Pool& pool, const std::string& path, unsigned form_bits) const {
    enum class Defect { none, range, curve, infinity };
    const std::size_t tasks = tasks_of(size_);
    std::vector<std::pair<std::size_t, Defect>> first(tasks, {0, Defect::none});
    const Fp factor = form_factor(form_bits, 256);
    pool.parallel_for(tasks, [&](std::size_t task, unsigned) {
        const std::size_t begin = task * points_per_task, end = std::min(begin + points_per_task, size_);
        auto infinite = std::lower_bound(infinite_.begin(), infinite_.end(), begin);
        for (std::size_t i = begin; i < end; ++i) {
            const bool listed = infinite != infinite_.end() && *infinite == i;
            if (listed) ++infinite;
            Limbs<4> x, y;
            std::memcpy(&x, data_ + point_bytes * i, field_bytes);
            std::memcpy(&y, data_ + point_bytes * i + field_bytes, field_bytes);
            Defect defect = Defect::none;
            if (is_zero_point(data_ + point_bytes * i) != listed)
                defect = Defect::infinity;
            else if (!Fp::is_canonical(x) || !Fp::is_canonical(y))
                defect = Defect::range;
            else if (!G1Affine{Fp::from_montgomery_limbs(x) * factor, Fp::from_montgomery_limbs(y) * factor}
                          .is_on_curve())
                defect = Defect::curve;
            if (defect == Defect::none) continue;
            first[task] = {i, defect};
            return;
        }
    });
    for (const auto& [index, defect] : first) {
        if (defect == Defect::none) continue;
        const char* const why = defect == Defect::range   ? " has a coordinate that is not below p"
                                : defect == Defect::curve ? " is not on the curve y^2 = x^3 + 3"
                                                          : " and the list of points at infinity disagree";
        throw EngineError(Trouble::bad_file, path + ": point " + std::to_string(index) + why,
                          "do not use this file; prepare the points again and save them");
    }
}

// Every block is what the one before it makes it, byte by byte: there is one canonical form. What the first block has
// is for require_points to say.
void Table::require_multiples(graph::Pool& pool, const std::string& path, unsigned form_bits) const {
    const std::size_t tasks = tasks_of(size_);
    std::vector<std::size_t> wrong((factor_ - 1) * tasks, size_);
    pool.parallel_for(wrong.size(), [&](std::size_t task, unsigned) {
        const std::size_t begin = task % tasks * points_per_task, count = std::min(points_per_task, size_ - begin);
        const std::byte* const at = data_ + point_bytes * (task / tasks * size_ + begin);
        std::vector<std::byte> want(point_bytes * count);
        fastest_multiples()(at, count, form_bits, block_bits(factor_), want.data());
        const std::byte* const next = at + point_bytes * size_;
        const auto differs = std::mismatch(want.begin(), want.end(), next).first;
        if (differs != want.end()) wrong[task] = begin + static_cast<std::size_t>(differs - want.begin()) / point_bytes;
    });
    for (const std::size_t index : wrong) {
        if (index < size_)
            throw EngineError(Trouble::bad_file, path + ": a multiple of point " + std::to_string(index) + " is wrong",
                              "do not use this file; prepare the points again and save them");
    }
}

}  // namespace whet::msm
