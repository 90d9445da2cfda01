#include "msm/engine/engine.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "msm/affine/small.hpp"
#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

Engine::Engine(const Kernel& kernel, unsigned threads, unsigned precompute) try
    : kernel_(kernel),
      pool_(threads),
      precompute_(precompute),
      turns_(pool_.workers(), trim_wanted_),
      alone_(pool_.workers()) {
    if (precompute < 1 || precompute > max_factor)
        throw EngineError(Trouble::bad_input, "precompute = " + std::to_string(precompute),
                          "give 1 to " + std::to_string(max_factor));
} catch (const std::system_error& error) {
    throw EngineError(Trouble::out_of_memory,
                      "the system starts no " + std::to_string(threads) + " threads: " + error.code().message(),
                      "use fewer threads, or raise the limits of memory and processes");
}

// The engine, or a seat of it. Given up at the end of the scope, and with it what trim() asked for in the meantime.
class Engine::Turn {
  public:
    Turn(Engine& engine, const Control& control, unsigned alone_from = 0)
        : engine_(engine), planted_(WHET_RACE_PLANT(turn_not_taken)) {
        if (!planted_) seat_ = engine.turns_.enter(control, alone_from);
    }
    ~Turn() {
        // A call that waited while the engine was closed has made a workspace anew.
        if (engine_.closed_) engine_.trim_wanted_ = true;
        if (!planted_) engine_.turns_.leave(seat_);
        engine_.trim_if_wanted();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Seat& seat() const { return seat_ == Turns::everything ? engine_.together_ : engine_.alone(seat_); }

  private:
    Engine& engine_;
    const bool planted_;
    unsigned seat_ = Turns::everything;
};

Engine::Seat& Engine::alone(unsigned worker) {
    if (!alone_[worker]) alone_[worker] = std::make_unique<Alone>(ledger_);
    return alone_[worker]->seat;
}

unsigned Engine::alone_from(std::size_t n) const {
    if (threads() == 1 || !may_be_alone(n)) return 0;
    return static_cast<unsigned>(std::clamp<std::size_t>(n / points_per_thread, 2, threads()));
}

std::shared_ptr<Table> Engine::require_table() const {
    const std::lock_guard lock(table_lock_);
    if (closed_) throw EngineError(Trouble::bad_input, "the engine is closed", "make a new one");
    if (!table_)
        throw EngineError(Trouble::bad_input, "the engine has no points", "prepare, reserve or open some first");
    return table_;
}

std::shared_ptr<Table> Engine::require_points(std::size_t n, std::size_t offset) const {
    std::shared_ptr<Table> table = require_table();
    if (offset > table->size() || n > table->size() - offset)
        throw EngineError(Trouble::bad_input,
                          std::to_string(n) + " scalars from point " + std::to_string(offset) + " on, but there are " +
                              std::to_string(table->size()) + " points",
                          "give no more scalars than points");
    return table;
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
    replace_table(Table::reserve(ledger_, kernel_, n, choose_factor(n, precompute_)));
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
        const bool entered = turns_.try_enter();
        if (!entered && !WHET_RACE_PLANT(trimmed_in_a_call)) return;
        if (trim_wanted_.exchange(false)) release_rooms();
        if (entered) turns_.leave(Turns::everything);
    }
}

void Engine::release_rooms() {
    together_.workspace.reset();
    together_.small.release();
    for (auto& one : alone_) one.reset();
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
    const std::shared_ptr<Table> table = require_points(n, options.offset);
    const Turn turn(*this, options.control, alone_from(n));
    table->require_whole();
    return sum(turn.seat(), *table, scalars, n, options, report);
}

std::vector<G1Affine> Engine::run_batch(const std::vector<const std::byte*>& scalars, std::size_t n,
                                        const RunOptions& options, std::vector<Report>& reports) {
    const std::shared_ptr<Table> table = require_points(n, options.offset);
    const Turn turn(*this, options.control);
    table->require_whole();
    const std::size_t count = scalars.size();
    std::vector<G1Affine> sums(count);
    reports.assign(count, {});
    std::atomic<std::size_t> done{0};
    // Only the calling thread, which is worker 0, may call the tick.
    const auto one = [&](std::size_t i, Seat& seat, bool tells) {
        RunOptions own = options;
        own.control = {options.control.cancel, {}};
        if (tells && options.control.tick)
            own.control.tick = [&](double share) {
                options.control.tick((static_cast<double>(done) + share) / static_cast<double>(count));
            };
        sums[WHET_PLANT(batch_sum_misplaced) ? 0 : i] = sum(seat, *table, scalars[i], n, own, reports[i]);
        ++done;
    };
    // Whole rounds of the workers, each with a sum of its own; what is left over, and what is large, by all together.
    const unsigned workers = threads();
    const std::size_t spread = workers > 1 && may_be_alone(n) ? count - count % workers : 0;
    const auto body = [&](std::size_t i, unsigned worker) { one(i, alone(worker), worker == 0); };
    if (!pool_.parallel_for(spread, body, options.control.cancel)) throw_cancelled();
    for (std::size_t i = spread; i < count; ++i) one(i, together_, true);
    return sums;
}

G1Affine Engine::sum(Seat& seat, const Table& table, const std::byte* scalars, std::size_t n, const RunOptions& options,
                     Report& report) {
    const bool budgeted = &seat == &together_;  // a seat of one worker is only taken where there is no budget
    report.workers = seat.pool.workers();
    if (plan_for(kernel_, n, n, 256, options.windows, table.factor()).small)
        return sum_few(seat, table, scalars, n, options, report);
    Run run(kernel_, seat.pool, table, options, report);
    run.scan(scalars, n);
    if (report.plan.n == 0) return G1Affine::infinity();
    const auto slice = [&] {
        choose_slices(report.plan, options.cut_for ? options.cut_for : seat.pool.workers(), options.slices);
    };
    slice();
    if (budgeted && !fits_budget(report.plan, table.held_bytes())) {
        report.plan = run.plan_by_longest();
        slice();
    }
    if (budgeted) keep_within_budget(report.plan, table.held_bytes());
    if (!seat.workspace) seat.workspace = std::make_unique<Workspace>(ledger_, kernel_, seat.pool.workers());
    try {
        seat.workspace->reserve(report.plan);
    } catch (...) {
        seat.workspace.reset();
        throw;
    }
    return run.compute(scalars, *seat.workspace);
}

G1Affine Engine::sum_few(Seat& seat, const Table& table, const std::byte* scalars, std::size_t n,
                         const RunOptions& options, Report& report) {
    if (options.control.cancel && options.control.cancel->load()) throw_cancelled();
    options.control.report(0);
    StageClock clock(report);
    report.plan = plan_for(kernel_, n, n, 256, 0, table.factor());
    if (&seat == &together_) keep_within_budget(report.plan, table.held_bytes());
    seat.small.reserve(small_bytes(kernel_, n));
    const G1Affine sum = small_sum(kernel_, table.data() + point_bytes * options.offset, kernel_.montgomery_bits,
                                   scalars, n, seat.small.as<std::byte>(), report.counts, report.entries);
    clock.end(Stage::finish);
    if (options.control.cancel && options.control.cancel->load()) throw_cancelled();
    return sum;
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
    release_rooms();
}

}  // namespace whet::msm
