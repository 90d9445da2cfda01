// S = sum of s_i P_i over points prepared once: GLV halves, signed digits, buckets by counting sort, affine sums in
// batches, buckets reduced by the same sums. Right for every input; variable time.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "curve/bn254.hpp"
#include "msm/engine/run.hpp"
#include "msm/engine/turns.hpp"

namespace whet::msm {

// All kernels of this build, the fastest first.
std::vector<const Kernel*> all_kernels();
// "auto" takes the fastest this CPU has. Throws `unsupported` for a kernel that is not in the build or not in the CPU.
const Kernel& find_kernel(const std::string& name);

class Engine {
  public:
    // Calls from several threads take turns, each with all workers of the pool; where there are so many of them that
    // a thread each keeps more cores busy, see alone_from(), they run beside each other. A call from inside a call,
    // which the tick of its control could make, is refused.
    // precompute: so many multiples of each point, of 64 bytes each, may be prepared: choose_factor says how many are
    // worth it. A file has its own.
    Engine(const Kernel& kernel, unsigned threads, unsigned precompute = 1);

    void prepare(const std::byte* points, std::size_t n, bool montgomery) {
        reserve(n);
        fill(0, points, n, montgomery);
    }
    // The same in pieces: room for n points, and points first .. first + n of them. A later fill replaces earlier
    // points.
    void reserve(std::size_t n);
    void fill(std::size_t first, const std::byte* points, std::size_t n, bool montgomery);
    void open(const std::string& path, Verify verify, Check check = Check::none, Hold hold = Hold::copy);
    void save(const std::string& path) const { require_table()->save(path); }

    std::size_t size() const {
        const auto table = current_table();
        return table ? table->size() : 0;
    }
    const Kernel& kernel() const { return kernel_; }
    // Multiples kept of each point, or what would be kept of n.
    unsigned factor() const {
        const auto table = current_table();
        return table ? table->factor() : 1;
    }
    unsigned factor_of(std::size_t n) const { return choose_factor(n, precompute_); }
    unsigned threads() const { return pool_.workers(); }
    bool mapped() const {
        const auto table = current_table();
        return table && table->mapped();
    }
    std::size_t held_bytes() const {
        const auto table = current_table();
        return table ? table->held_bytes() : 0;
    }
    // What all blocks together may take; 0 for no limit. Fewer windows are then worked on at once.
    void set_budget(std::size_t bytes) { budget_bytes_ = bytes; }
    std::size_t budget() const { return budget_bytes_; }
    Ledger& ledger() { return ledger_; }

    // `scalars`: n of 32 bytes, little-endian. Points offset .. offset + n.
    G1Affine run(const std::byte* scalars, std::size_t n, const RunOptions& options, Report& report);
    // The same for each of many scalars, n to a sum. Where there are as many sums as workers, each worker takes whole
    // sums, with rooms of its own; unless there is a budget, or a sum is large enough to keep all of them busy.
    std::vector<G1Affine> run_batch(const std::vector<const std::byte*>& scalars, std::size_t n,
                                    const RunOptions& options, std::vector<Report>& reports);
    // Gives back everything but the prepared points. Never waits: during a call it is the call that does so at its end.
    void trim();
    // Gives back the prepared points as well and refuses calls from now on. Those that have begun, or wait for their
    // turn, answer first; this does not wait for them.
    void close();

  private:
    class Turn;
    std::shared_ptr<Table> current_table() const {
        const std::lock_guard lock(table_lock_);
        return table_;
    }
    std::shared_ptr<Table> require_table() const;
    void replace_table(std::shared_ptr<Table> table);
    void trim_if_wanted();
    // Where one sum at a time is computed: by whom, and in which rooms.
    struct Seat {
        Seat(Ledger& ledger, graph::Pool& workers) : pool(workers), small(ledger, "small sums") {}
        graph::Pool& pool;
        std::unique_ptr<Workspace> workspace;
        Block small;
    };
    struct Alone {
        explicit Alone(Ledger& ledger) : seat(ledger, one) {}
        graph::Pool one{1};
        Seat seat;
    };
    static constexpr std::size_t most_alone = std::size_t{1} << 16;  // points; one sum of more fills the threads
    static constexpr std::size_t points_per_thread = 256;            // that it takes to keep one more thread busy
    bool may_be_alone(std::size_t n) const { return budget_bytes_ == 0 && n <= most_alone; }
    // From how many calls at once on sums of n points had better have a thread each; 0 for never.
    unsigned alone_from(std::size_t n) const;
    Seat& alone(unsigned worker);
    std::shared_ptr<Table> require_points(std::size_t n, std::size_t offset) const;
    G1Affine sum(Seat& seat, const Table& table, const std::byte* scalars, std::size_t n, const RunOptions& options,
                 Report& report);
    G1Affine sum_few(Seat& seat, const Table& table, const std::byte* scalars, std::size_t n, const RunOptions& options,
                     Report& report);
    void release_rooms();
    bool fits_budget(Plan plan, std::size_t held_bytes) const;
    void keep_within_budget(Plan& plan, std::size_t held_bytes);

    const Kernel& kernel_;
    graph::Pool pool_;
    const unsigned precompute_;
    Ledger ledger_;
    mutable std::mutex table_lock_;  // of the next two; nothing is computed under it
    std::shared_ptr<Table> table_;
    std::atomic<bool> closed_{false};  // written under the lock
    std::atomic<std::size_t> budget_bytes_{0};
    std::atomic<bool> trim_wanted_{false};
    Turns turns_;
    Seat together_{ledger_, pool_};              // of whoever has everything
    std::vector<std::unique_ptr<Alone>> alone_;  // each of whoever has the seat; all of whoever has everything
};

}  // namespace whet::msm
