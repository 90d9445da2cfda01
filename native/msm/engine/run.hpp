// One run over prepared points: digits, buckets, rows, bits, batch of windows by batch.
#pragma once

#include <array>
#include <chrono>

#include "msm/affine/jacobian.hpp"
#include "msm/engine/errors.hpp"
#include "msm/engine/sizes.hpp"
#include "msm/engine/table.hpp"

namespace whet::msm {

struct Report {
    Plan plan;
    Counts counts;
    u64 entries = 0;              // digits that are not zero
    unsigned workers = 0;         // that took part
    u64 reduction_additions = 0;  // of counts.additions, those that reduce buckets
    std::array<u64, static_cast<std::size_t>(Stage::count)> stage_ns{};
};

struct RunOptions {
    std::size_t offset = 0;  // first point
    unsigned windows = 0;    // 0: by the table
    Control control{};
    unsigned slices = 0;     // of every window; 0: by the workers
    unsigned cut_for = 0;    // workers that the work is cut for; 0: those there are
    Trace* trace = nullptr;  // gets the steps of the run
};

class StageClock {
  public:
    explicit StageClock(Report& report) : report_(report) {}
    void end(Stage stage) {
        const auto now = std::chrono::steady_clock::now();
        report_.stage_ns[static_cast<std::size_t>(stage)] +=
            static_cast<u64>(std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count());
        last_ = now;
    }

  private:
    Report& report_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The rooms of a run. They only grow, and serve one run after the other.
struct Workspace {
    Workspace(Ledger& ledger, const Kernel& kernel, unsigned workers)
        : lists(ledger, kernel, workers),
          digits(ledger, "digits"),
          sums{{ledger, "bucket sums"}, {ledger, "row sums"}, {ledger, "bit sums"}},
          present{{ledger, "buckets present"}, {ledger, "rows present"}, {ledger, "bits present"}} {}

    void reserve(const Plan& plan) {
        const auto levels = levels_of(plan, 0, plan.batch);
        lists.reserve(levels, plan.glv);
        digits.reserve(plan.batch * plan.digits() * sizeof(std::int16_t));
        for (std::size_t i = 0; i < 3; ++i) {
            sums[i].reserve(sums_of(levels[i]) * point_bytes);
            present[i].reserve(sums_of(levels[i]));
        }
    }
    Sums level(std::size_t i) const { return {sums[i].as<std::byte>(), present[i].as<u8>()}; }

    Lists lists;
    Block digits;
    Block sums[3], present[3];
};

// One run. Fields are set by its stages in order; only `bit` outlives a batch of windows.
class Run {
  public:
    Run(const Kernel& kernel, graph::Pool& pool, const Table& table, const RunOptions& options, Report& report)
        : kernel_(kernel),
          table_(table),
          options_(options),
          tasks_(pool, options.control, options.cut_for, options.trace),
          report_(report),
          clock_(report) {
        bit_.fill(G1Affine::infinity());
    }

    void scan(const std::byte* scalars, std::size_t n);
    // What the budget was promised to hold for, whatever the lengths of the scalars are.
    Plan plan_by_longest() const {
        return make_plan(report_.plan.n, busy_, scalar_bits_, options_.windows, table_.factor());
    }
    G1Affine compute(const std::byte* scalars, Workspace& workspace);

  private:
    void cut_digits(const std::byte* scalars, Workspace& workspace, unsigned first, unsigned last);
    void fill_buckets(Workspace& workspace, unsigned first, unsigned last);
    void fill_rows(Workspace& workspace, unsigned first, unsigned last);
    void fill_bits(Workspace& workspace, unsigned first, unsigned last);
    void keep_bits(Workspace& workspace, unsigned first, unsigned last);

    template <class Body>
    void step(const char* what, unsigned per_window, std::size_t tasks, Body&& body) {
        tasks_.step(what, per_window, tasks, body);
        tasks_.control.report(0);
    }
    template <class Count, class Place>
    u64 fill(Lists& lists, const Level& level, bool endomorphic, Count&& count, Place&& place);
    template <class Each>
    void fill_from_sums(Lists& lists, const Level& level, Each&& each);

    const Kernel& kernel_;
    const Table& table_;
    const RunOptions& options_;
    Tasks tasks_;
    Report& report_;
    StageClock clock_;
    std::size_t busy_ = 0;  // scalars that are not zero
    unsigned scalar_bits_ = 0;
    PointsByBit bit_;  // the result is the sum of 2^i bit_[i]
};

}  // namespace whet::msm
