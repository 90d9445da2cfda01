#include "msm/engine/engine.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "msm/affine/small.hpp"
#include "msm/engine/digit_sort.hpp"
#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

constexpr std::size_t scalars_per_task = 4096;

std::size_t tasks_of(std::size_t n) { return (n + scalars_per_task - 1) / scalars_per_task; }

// A bucket's magnitude m = hi 2^k + lo lies in row hi and column lo. Rows and columns of weight zero are left out.
struct Grid {
    unsigned width, low_bits;
    std::size_t rows() const { return std::size_t{1} << (width - 1 - low_bits); }
    std::size_t columns() const { return (std::size_t{1} << low_bits) - 1; }
    std::size_t lists() const { return rows() + columns(); }
};
Grid grid_of(const Plan& plan, unsigned window) { return {plan.width[window], plan.width[window] / 2u}; }

// The three levels of a batch of windows: buckets (list 0 is the zero digit and stays empty), rows and columns, bits.
std::array<std::vector<RegionShape>, 3> levels_of(const Plan& plan, unsigned first, unsigned last) {
    std::array<std::vector<RegionShape>, 3> levels;
    for (unsigned w = first; w < last; ++w) {
        const Grid grid = grid_of(plan, w);
        levels[0].push_back({plan.buckets(w) + 1, plan.halves()});
        levels[1].push_back({grid.lists(), 2 * plan.buckets(w)});
        levels[2].push_back({grid.width, grid.rows() * (grid.width - grid.low_bits) + grid.columns() * grid.low_bits});
    }
    return levels;
}

std::size_t sums_of(const std::vector<RegionShape>& level) {
    std::size_t lists = 0, entries = 0;
    for (const RegionShape& region : level) {
        lists += region.lists;
        entries += region.entries;
    }
    return lists + parts_of(entries) + 8 * lanes * level.size();
}

[[noreturn]] void throw_cancelled() {
    throw EngineError(Trouble::cancelled, "the computation was cancelled", "start it again");
}

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

}  // namespace

const char* stage_name(Stage stage) {
    constexpr const char* names[] = {"scan", "digits", "sort", "buckets", "rows", "bits", "finish"};
    return names[static_cast<std::size_t>(stage)];
}

struct Engine::Workspace {
    Workspace(Ledger& ledger, const Kernel& kernel, graph::Pool& pool)
        : lists(ledger, kernel, pool),
          digits(ledger, "digits"),
          sums{{ledger, "bucket sums"}, {ledger, "row sums"}, {ledger, "bit sums"}},
          present{{ledger, "buckets present"}, {ledger, "rows present"}, {ledger, "bits present"}} {}

    void reserve(const Plan& plan) {
        const auto levels = levels_of(plan, 0, plan.batch);
        lists.reserve({levels[0], levels[1], levels[2]}, plan.glv);
        digits.reserve(plan.batch * plan.halves() * sizeof(std::int16_t));
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

void Engine::WorkspaceDeleter::operator()(Workspace* workspace) const { delete workspace; }

namespace {

// One run. Fields are set by its stages in order; only `bit` outlives a batch of windows.
class Run {
  public:
    Run(const Kernel& kernel, graph::Pool& pool, const Table& table, const RunOptions& options, Report& report)
        : kernel_(kernel),
          pool_(pool),
          table_(table),
          options_(options),
          control_(options.control),
          report_(report),
          clock_(report) {
        bit_.fill(G1Affine::infinity());
    }

    void scan(const std::byte* scalars, std::size_t n);
    // What the budget was promised to hold for, whatever the lengths of the scalars are.
    Plan plan_by_longest() const { return make_plan(report_.plan.n, busy_, scalar_bits_, options_.windows); }
    template <class Workspace>
    G1Affine compute(const std::byte* scalars, Workspace& workspace);

  private:
    template <class Workspace>
    void cut_digits(const std::byte* scalars, Workspace& workspace, unsigned first, unsigned last);
    template <class Workspace>
    void fill_buckets(Workspace& workspace, unsigned first, unsigned last);
    template <class Workspace>
    void fill_rows(Workspace& workspace, unsigned first, unsigned last);
    template <class Workspace>
    void fill_bits(Workspace& workspace, unsigned first, unsigned last);
    template <class Workspace>
    void keep_bits(Workspace& workspace, unsigned first, unsigned last);

    template <class Body>
    void parallel(std::size_t tasks, Body&& body) {
        if (!pool_.parallel_for(tasks, body, control_.cancel)) throw_cancelled();
        control_.report(0);
    }

    const Kernel& kernel_;
    graph::Pool& pool_;
    const Table& table_;
    const RunOptions& options_;
    Control control_;
    Report& report_;
    StageClock clock_;
    std::size_t busy_ = 0;  // scalars that are not zero
    unsigned scalar_bits_ = 0;
    PointsByBit bit_;  // the result is the sum of 2^i bit_[i]
};

// How long scalars are, and the longest.
void Run::scan(const std::byte* scalars, std::size_t n) {
    struct Seen {
        Limbs<4> any{};
        Lengths lengths;
    };
    std::vector<Seen> seen(tasks_of(n));
    parallel(seen.size(), [&](std::size_t task, unsigned) {
        Seen local;
        const std::size_t last = std::min(n, (task + 1) * scalars_per_task);
        for (std::size_t i = task * scalars_per_task; i < last; ++i) {
            u64 word[4];
            std::memcpy(word, scalars + field_bytes * i, field_bytes);
            for (std::size_t k = 0; k < 4; ++k) local.any[k] |= word[k];
            const int high = 128 - std::countl_zero(word[1]), low = 64 - std::countl_zero(word[0]);
            const int bits = word[1] != 0 ? high : low;
            ++local.lengths.of[(word[2] | word[3]) != 0 ? Lengths::most : static_cast<unsigned>(bits)];
        }
        seen[task] = local;
    });
    Limbs<4> any{};
    Lengths lengths;
    for (const Seen& one : seen) {
        for (std::size_t k = 0; k < 4; ++k) any[k] |= one.any[k];
        lengths += one.lengths;
    }
    busy_ = n - lengths.of[0];
    scalar_bits_ = static_cast<unsigned>(bit_length(any));
    report_.plan = make_plan(n, lengths, scalar_bits_, options_.windows);
    clock_.end(Stage::scan);
}

template <class Workspace>
void Run::cut_digits(const std::byte* scalars, Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    std::int16_t* const digits = workspace.digits.template as<std::int16_t>();
    parallel(tasks_of(plan.n), [&](std::size_t task, unsigned) {
        const std::size_t begin = task * scalars_per_task;
        const Digits to = {digits + begin, plan.halves(), plan.glv ? plan.n : 0, plan.width.data(), plan.windows,
                           first,          last};
        kernel_.decompose(scalars + field_bytes * begin, std::min(scalars_per_task, plan.n - begin), to);
    });
    if (WHET_PLANT(window_lost)) std::fill_n(digits + (last - first - 1) * plan.halves(), plan.halves(), 0);
    const auto& infinite = table_.infinite();
    const auto from = std::lower_bound(infinite.begin(), infinite.end(), options_.offset);
    for (auto at = from; at != infinite.end() && *at < options_.offset + plan.n; ++at) {
        if (WHET_PLANT(infinite_point_counted)) break;
        for (unsigned w = 0; w < last - first; ++w) {
            for (std::size_t i = *at - options_.offset; i < plan.halves(); i += plan.n)
                digits[w * plan.halves() + i] = 0;
        }
    }
    clock_.end(Stage::digits);
}

// Counting sort of one window's digits into the slots of its buckets. The cost is two passes with random access to the
// counters, which fit L2, and one random store per entry.
template <class Workspace>
void Run::fill_buckets(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    Lists& lists = workspace.lists;
    // What was scanned was the caller's memory, and so were the digits cut from it: in between he may have changed it.
    // All room is for no more entries than were expected, so a window that has more is refused before it is laid out.
    const std::size_t most = (plan.glv ? 2 : 1) * busy_;
    lists.begin(levels_of(plan, first, last)[0], most * (last - first), plan.glv);
    std::vector<u64> entries(last - first, 0);
    parallel(last - first, [&](std::size_t region, unsigned) {
        const std::int16_t* const digits = workspace.digits.template as<std::int16_t>() + region * plan.halves();
        u32* const counts = lists.counts(region);
        // The digits of second halves first: lists begin with the entries that the endomorphism maps.
        const std::size_t of_second = plan.glv ? count_digits(digits + plan.n, plan.n, counts) : 0;
        if (plan.glv) lists.keep_endo_counts(region);
        const std::size_t of_first = count_digits(digits, plan.n, counts);
        entries[region] = of_first + of_second;
        if (entries[region] > most)
            throw EngineError(Trouble::bad_input, "the scalars changed while they were summed",
                              "leave the array alone until the call returns");
        lists.lay_out(region);
        const Lists::Cursor to = lists.cursor(region);
        if (plan.glv) place_digits(digits + plan.n, plan.n, of_second, to);
        place_digits(digits, plan.n, of_first, to);
    });
    for (const u64 count : entries) report_.entries += count;
    clock_.end(Stage::sort);
}

template <class Workspace>
void Run::fill_rows(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    Lists& lists = workspace.lists;
    std::vector<std::size_t> base;  // index of each window's bucket 0
    for (unsigned w = first; w < last; ++w) base.push_back(lists.first_list(w - first));
    const auto levels = levels_of(plan, first, last);
    std::size_t expected = 0;
    for (const RegionShape& region : levels[1]) expected += region.entries;
    lists.begin(levels[1], expected);
    const u8* const present = workspace.level(0).present;
    parallel(last - first, [&](std::size_t region, unsigned) {
        const unsigned w = first + static_cast<unsigned>(region);
        const Grid grid = grid_of(plan, w);
        const std::size_t column_mask = grid.columns();
        const auto each = [&](auto&& visit) {
            for (std::size_t m = 1; m <= plan.buckets(w) - (WHET_PLANT(top_bucket_lost) ? 1 : 0); ++m) {
                if (!present[base[region] + m]) continue;
                const std::size_t row = m >> grid.low_bits, column = m & column_mask;
                if (row != 0 && !(WHET_PLANT(row_lost) && row == 1)) visit(row - 1, m);
                if (column != 0) visit(grid.rows() + column - 1, m);
            }
        };
        u32* const counts = lists.counts(region);
        each([&](std::size_t list, std::size_t) { ++counts[list]; });
        lists.lay_out(region);
        const Lists::Cursor to = lists.cursor(region);
        each([&](std::size_t list, std::size_t m) { to.place(list, entry_of(base[region] + m)); });
    });
}

// Sum of weight times sum over a row or column = sum over bits b of 2^b times (sums whose weight has bit b).
template <class Workspace>
void Run::fill_bits(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    Lists& lists = workspace.lists;
    std::vector<std::size_t> base;
    for (unsigned w = first; w < last; ++w) base.push_back(lists.first_list(w - first));
    const auto levels = levels_of(plan, first, last);
    std::size_t expected = 0;
    for (const RegionShape& region : levels[2]) expected += region.entries;
    lists.begin(levels[2], expected);
    const u8* const present = workspace.level(1).present;
    parallel(last - first, [&](std::size_t region, unsigned) {
        const Grid grid = grid_of(plan, first + static_cast<unsigned>(region));
        const auto each = [&](auto&& visit) {
            for (std::size_t i = 0; i < grid.lists(); ++i) {
                if (!present[base[region] + i]) continue;
                const bool row = i < grid.rows();
                const std::size_t weight = row ? (i + 1) << grid.low_bits : i - grid.rows() + 1;
                for (unsigned b = 0; b < grid.width; ++b) {
                    if (weight >> b & 1) visit(b, i);
                }
            }
        };
        u32* const counts = lists.counts(region);
        each([&](std::size_t list, std::size_t) { ++counts[list]; });
        lists.lay_out(region);
        const Lists::Cursor to = lists.cursor(region);
        each([&](std::size_t list, std::size_t i) { to.place(list, entry_of(base[region] + i)); });
    });
}

template <class Workspace>
void Run::keep_bits(Workspace& workspace, unsigned first, unsigned last) {
    const Plan& plan = report_.plan;
    const Sums sums = workspace.level(2);
    const Fp to_plain_form = form_factor(kernel_.montgomery_bits, 256);
    const auto coordinate = [&](const std::byte* from) {
        Limbs<4> limbs;
        std::memcpy(&limbs, from, field_bytes);
        const Fp value = Fp::from_montgomery_limbs(limbs);
        return kernel_.montgomery_bits == 256 ? value : value * to_plain_form;
    };
    for (unsigned w = first; w < last; ++w) {
        for (unsigned b = 0; b < plan.width[w]; ++b) {
            const std::size_t at = workspace.lists.first_list(w - first) + b;
            if (!sums.present[at]) continue;
            const std::byte* point = sums.points + point_bytes * at;
            bit_[plan.position(w) + b] = {coordinate(point), coordinate(point + field_bytes)};
        }
    }
}

template <class Workspace>
G1Affine Run::compute(const std::byte* scalars, Workspace& workspace) {
    const Plan& plan = report_.plan;
    const std::byte* const points = table_.data() + point_bytes * options_.offset;
    for (unsigned first = 0; first < plan.windows; first += plan.batch) {
        const unsigned last = std::min(first + plan.batch, plan.windows);
        constexpr double buckets_share = 0.85;  // of a batch's time
        control_.base = static_cast<double>(first) / plan.windows;
        control_.span = buckets_share * (last - first) / plan.windows;
        cut_digits(scalars, workspace, first, last);
        fill_buckets(workspace, first, last);
        workspace.lists.sum(points, workspace.level(0), report_.counts, control_);
        clock_.end(Stage::buckets);
        Counts reduction;
        control_.base += control_.span;
        control_.span *= (1 - buckets_share) / buckets_share;
        fill_rows(workspace, first, last);
        workspace.lists.sum(workspace.level(0).points, workspace.level(1), reduction, control_);
        control_.base += control_.span;
        control_.span = 0;
        clock_.end(Stage::rows);
        fill_bits(workspace, first, last);
        workspace.lists.sum(workspace.level(1).points, workspace.level(2), reduction, control_);
        keep_bits(workspace, first, last);
        report_.reduction_additions += reduction.additions;
        report_.counts += reduction;
        clock_.end(Stage::bits);
    }
    const G1Affine result = (&kernel_ == &portable_kernel ? horner_portable : fastest_horner())(bit_);
    clock_.end(Stage::finish);
    return result;
}

}  // namespace

Engine::Engine(const Kernel& kernel, unsigned threads) : kernel_(kernel), pool_(threads) {}

// The engine to oneself. Given up at the end of the scope, and with it what trim() asked for in the meantime.
class Engine::Turn {
  public:
    Turn(Engine& engine, const Control& control) : engine_(engine), lock_(engine.turn_, std::defer_lock) {
        if (engine.turn_owner_.load(std::memory_order_relaxed) == std::this_thread::get_id())
            throw EngineError(Trouble::bad_input, "the engine was called from inside one of its own calls",
                              "return from the callback or signal handler first, or use another engine there");
        while (!WHET_RACE_PLANT(turn_not_taken) && !lock_.try_lock_for(std::chrono::milliseconds(5))) {
            if (control.cancel && control.cancel->load()) throw_cancelled();
            control.report(0);
        }
        engine.turn_owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    ~Turn() {
        // A call that waited while the engine was closed has made a workspace anew.
        if (engine_.closed_) engine_.trim_wanted_ = true;
        engine_.turn_owner_.store({}, std::memory_order_relaxed);
        if (lock_.owns_lock()) lock_.unlock();
        engine_.trim_if_wanted();
    }

  private:
    Engine& engine_;
    std::unique_lock<std::timed_mutex> lock_;
};

std::shared_ptr<Table> Engine::require_table() const {
    const std::lock_guard lock(table_lock_);
    if (closed_) throw EngineError(Trouble::bad_input, "the engine is closed", "make a new one");
    if (!table_)
        throw EngineError(Trouble::bad_input, "the engine has no points", "prepare, reserve or open some first");
    return table_;
}

void Engine::replace_table(std::shared_ptr<Table> table) {
    const std::lock_guard lock(table_lock_);
    if (closed_) throw EngineError(Trouble::bad_input, "the engine is closed", "make a new one");
    table_.swap(table);
}

void Engine::reserve(std::size_t n) {
    if (n > max_points)
        throw EngineError(Trouble::bad_input, std::to_string(n) + " points are more than 2^22",
                          "split them over engines");
    const Turn turn(*this, {});
    replace_table(Table::reserve(ledger_, kernel_, n));
}

void Engine::fill(std::size_t first, const std::byte* points, std::size_t n, bool montgomery) {
    const std::shared_ptr<Table> table = require_table();
    const Turn turn(*this, {});
    if (first > table->size() || n > table->size() - first)
        throw EngineError(Trouble::bad_input, "points beyond those that were reserved", "reserve more");
    table->fill(kernel_, pool_, first, points, n, montgomery);
}

void Engine::open(const std::string& path, Verify verify, Check check, Hold hold) {
    const Turn turn(*this, {});
    replace_table(Table::open(ledger_, kernel_, pool_, path, verify, check, hold));
}

void Engine::trim() {
    trim_wanted_ = true;
    trim_if_wanted();
}

// Who finds the turn taken can leave: its owner comes here after giving it up.
void Engine::trim_if_wanted() {
    while (trim_wanted_) {
        const std::unique_lock turn(turn_, std::try_to_lock);
        if (!turn && !WHET_RACE_PLANT(trimmed_in_a_call)) return;
        if (!trim_wanted_.exchange(false)) continue;
        workspace_.reset();
        small_.release();
    }
}

void Engine::close() {
    std::shared_ptr<Table> last;  // goes after the lock
    {
        std::unique_lock lock(table_lock_, std::defer_lock);
        if (!WHET_RACE_PLANT(closed_without_lock)) lock.lock();
        closed_ = true;
        last.swap(table_);
    }
    trim();
}

G1Affine Engine::run(const std::byte* scalars, std::size_t n, const RunOptions& options, Report& report) {
    const std::shared_ptr<Table> table = require_table();
    if (options.offset > table->size() || n > table->size() - options.offset)
        throw EngineError(Trouble::bad_input,
                          std::to_string(n) + " scalars from point " + std::to_string(options.offset) +
                              " on, but there are " + std::to_string(table->size()) + " points",
                          "give no more scalars than points");
    const Turn turn(*this, options.control);
    table->require_whole();
    if (plan_for(kernel_, n, n, 256, options.windows).small) return run_small(*table, scalars, n, options, report);
    Run run(kernel_, pool_, *table, options, report);
    run.scan(scalars, n);
    if (report.plan.n == 0) return G1Affine::infinity();
    if (!fits_budget(report.plan, table->held_bytes())) report.plan = run.plan_by_longest();
    keep_within_budget(report.plan, table->held_bytes());
    if (!workspace_) workspace_.reset(new Workspace(ledger_, kernel_, pool_));
    try {
        workspace_->reserve(report.plan);
    } catch (...) {
        workspace_.reset();
        throw;
    }
    return run.compute(scalars, *workspace_);
}

G1Affine Engine::run_small(const Table& table, const std::byte* scalars, std::size_t n, const RunOptions& options,
                           Report& report) {
    if (options.control.cancel && options.control.cancel->load()) throw_cancelled();
    options.control.report(0);
    StageClock clock(report);
    report.plan = plan_for(kernel_, n, n, 256, 0);
    keep_within_budget(report.plan, table.held_bytes());
    small_.reserve(small_bytes(kernel_, n));
    const G1Affine sum = small_sum(kernel_, table.data() + point_bytes * options.offset, kernel_.montgomery_bits,
                                   scalars, n, small_.as<std::byte>(), report.counts, report.entries);
    clock.end(Stage::finish);
    if (options.control.cancel && options.control.cancel->load()) throw_cancelled();
    return sum;
}

Plan plan_for(const Kernel& kernel, std::size_t n, std::size_t busy, unsigned scalar_bits, unsigned windows) {
    if (windows != 0 || n > small_most(kernel)) return make_plan(n, busy, scalar_bits, windows);
    Plan plan;
    plan.n = n;
    plan.small = true;
    return plan;
}

bool Engine::fits_budget(Plan plan, std::size_t held_bytes) const {
    if (budget_bytes_ == 0) return true;
    fit_batch(plan, kernel_, threads(), held_bytes, budget_bytes_);
    return total_bytes(memory_map(kernel_, threads(), held_bytes, plan)) <= budget_bytes_;
}

// Blocks only grow, and two plans can want different ones: what earlier runs left is given up where both do not fit.
void Engine::keep_within_budget(Plan& plan, std::size_t held_bytes) {
    if (budget_bytes_ == 0) return;
    fit_batch(plan, kernel_, threads(), held_bytes, budget_bytes_);
    const std::vector<MapRow> map = memory_map(kernel_, threads(), held_bytes, plan);
    if (total_bytes(map) > budget_bytes_)
        throw EngineError(Trouble::bad_input,
                          "a memory budget of " + std::to_string(budget_bytes_) + " bytes is too small for " +
                              std::to_string(plan.n) + " points",
                          "give at least " + std::to_string(total_bytes(map)) + " bytes, or fewer points at a time");
    const std::map<std::string, std::size_t> held = ledger_.rows();
    std::size_t both = 0;
    for (const MapRow& row : map) {
        const auto old = held.find(row.name);
        both += old == held.end() ? row.bytes : std::max(row.bytes, old->second);
    }
    if (both <= budget_bytes_) return;
    workspace_.reset();
    small_.release();
}

void fit_batch(Plan& plan, const Kernel& kernel, unsigned threads, std::size_t prepared_bytes,
               std::size_t budget_bytes) {
    while (plan.batch > 1 && total_bytes(memory_map(kernel, threads, prepared_bytes, plan)) > budget_bytes)
        limit_batch(plan, plan.batch - 1);
}

std::size_t total_bytes(const std::vector<MapRow>& map) {
    std::size_t sum = 0;
    for (const MapRow& row : map) sum += row.bytes;
    return sum;
}

std::vector<MapRow> memory_map(const Kernel& kernel, unsigned threads, std::size_t prepared_bytes, const Plan& plan) {
    if (plan.small) return {{"prepared points", prepared_bytes}, {"small sums", small_bytes(kernel, plan.n)}};
    const auto levels = levels_of(plan, 0, plan.batch);
    const ListsBytes lists = lists_bytes({levels[0], levels[1], levels[2]}, plan.glv);
    std::vector<MapRow> map = {{"prepared points", prepared_bytes},
                               {"digits", plan.batch * plan.halves() * sizeof(std::int16_t)},
                               {"list counters", lists.counters},
                               {"list entries", lists.entries},
                               {"list order", lists.order},
                               {"groups as made", lists.groups},
                               {"groups in order", lists.groups},
                               {"group targets", lists.targets},
                               {"kernel scratch", kernel.scratch_bytes * threads},
                               {"bucket sums", sums_of(levels[0]) * point_bytes},
                               {"buckets present", sums_of(levels[0])},
                               {"row sums", sums_of(levels[1]) * point_bytes},
                               {"rows present", sums_of(levels[1])},
                               {"bit sums", sums_of(levels[2]) * point_bytes},
                               {"bits present", sums_of(levels[2])}};
    if (plan.glv) {
        map.push_back({"endomorphic counts", lists.endo_counts});
        map.push_back({"endomorphic rounds", lists.endo_rounds});
    }
    return map;
}

}  // namespace whet::msm
