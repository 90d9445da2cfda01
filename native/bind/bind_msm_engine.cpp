// whet._native.msm.AffineEngine: the fast engine. Points (n, 8) and scalars (n, 4) as in bind_msm.cpp, read in place.
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/interpreter_lock.hpp"
#include "bind/signal_watch.hpp"
#include "curve/batch.hpp"
#include "msm/affine/small.hpp"
#include "msm/engine/engine.hpp"
#include "msm/engine/errors.hpp"

namespace nb = nanobind;
using namespace whet;
using namespace whet::bind;

namespace {

const std::byte* bytes_of(const auto& rows) { return reinterpret_cast<const std::byte*>(rows.data()); }

nb::dict describe(const msm::Report& report) {
    nb::dict work;
    work["additions"] = report.counts.additions;
    work["reduction_additions"] = report.reduction_additions;
    work["doublings"] = report.counts.doublings;
    work["cancellations"] = report.counts.cancellations;
    work["inversions"] = report.counts.inversions;
    work["slow_passes"] = report.counts.slow_passes;
    work["entries"] = report.entries;
    work["workers"] = report.workers;
    work["small"] = report.plan.small ? 1u : 0u;
    work["windows"] = report.plan.windows;
    work["windows_at_once"] = report.plan.batch;
    work["slices"] = report.plan.slices;
    work["row_slices"] = report.plan.row_slices;
    work["window_bits"] = static_cast<unsigned>(report.plan.width[0]);
    work["scalar_bits"] = report.plan.bits * report.plan.blocks;
    work["blocks"] = report.plan.blocks;
    work["glv"] = report.plan.glv ? 1u : 0u;
    for (unsigned s = 0; s < static_cast<unsigned>(msm::Stage::count); ++s)
        work[(std::string(msm::stage_name(static_cast<msm::Stage>(s))) + "_ns").c_str()] = report.stage_ns[s];
    return work;
}

// What a running call looks at now and then: signals, and the caller's own `poll(share done)`, which returns true to
// stop. An exception of either stops the call too and is raised in place of Cancelled. `poll` is called with the
// interpreter locked, every 2 ms; without it the lock is left alone until a signal has come.
class Watch {
  public:
    // With the lock held. A call with few scalars is over before a signal matters, and does not pay for the watch;
    // unless it has to wait for its turn.
    Watch(nb::object poll, std::atomic<bool>& stop, std::size_t scalars) : poll_(std::move(poll)), stop_(stop) {
        if (poll_.is_none() && scalars >= enough_scalars) signals_.start();
    }

    void operator()(double done) {
        if (signals_.started() && !signals_.arrived()) return;
        const auto now = std::chrono::steady_clock::now();
        if (!poll_.is_none() || signals_.started()) {
            if (!signals_.started() && now - last_ < std::chrono::milliseconds(2)) return;
            last_ = now;
            ask(done);
        } else if (!looked_ && now - begun_ > std::chrono::milliseconds(20)) {
            looked_ = true;
            ask(done);
        }
    }
    void raise_failure() {
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

  private:
    static constexpr std::size_t enough_scalars = 4096;

    void ask(double done) {
        const Locked locked;
        try {
            if (poll_.is_none()) signals_.start();
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
            signals_.renew();
            if (!poll_.is_none() && hold_at_exit([&] { return nb::cast<bool>(poll_(done)); })) stop_ = true;
        } catch (...) {
            failure_ = std::current_exception();
            stop_ = true;
        }
    }

    nb::object poll_;
    std::atomic<bool>& stop_;
    SignalWatch signals_;
    std::chrono::steady_clock::time_point last_{}, begun_ = std::chrono::steady_clock::now();
    bool looked_ = false;
    std::exception_ptr failure_;
};

// A path as the system has it: bytes, whatever they stand for.
std::string path_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

class AffineEngine {
  public:
    AffineEngine(const std::string& backend, unsigned threads, unsigned precompute)
        : engine_(msm::find_kernel(backend), threads == 0 ? graph::Pool::hardware_workers() : threads, precompute) {}

    void prepare(const Rows<8>& points, bool montgomery) {
        const Unlocked unlocked;
        engine_.prepare(bytes_of(points), points.shape(0), montgomery);
    }
    void fill(std::size_t first, const Rows<8>& points, bool montgomery) {
        const Unlocked unlocked;
        engine_.fill(first, bytes_of(points), points.shape(0), montgomery);
    }
    void reserve(std::size_t n) {
        const Unlocked unlocked;
        engine_.reserve(n);
    }
    void open(const nb::bytes& name, bool verify, bool on_curve, bool copy) {
        const std::string path = path_of(name);
        const Unlocked unlocked;
        engine_.open(path, verify ? msm::Verify::everything : msm::Verify::header,
                     on_curve ? msm::Check::on_curve : msm::Check::none, copy ? msm::Hold::copy : msm::Hold::map);
    }
    void save(const nb::bytes& name) {
        const std::string path = path_of(name);
        const Unlocked unlocked;
        engine_.save(path);
    }
    void trim() {
        const Unlocked unlocked;
        engine_.trim();
    }
    void close() {
        const Unlocked unlocked;
        engine_.close();
    }

    nb::tuple run(const Rows<4>& scalars, std::size_t offset, unsigned windows, nb::object poll) {
        msm::RunOptions options;
        options.offset = offset;
        options.windows = windows;
        auto [sum, report] = call(scalars, options, std::move(poll));
        return nb::make_tuple(sum, report);
    }
    // One call with the processor time of every task. slices, cut_for: as if windows were cut into so many, or the work
    // for so many threads; 0 for what a call does.
    nb::tuple trace(const Rows<4>& scalars, std::size_t offset, unsigned windows, unsigned slices, unsigned cut_for) {
        msm::Trace steps;
        msm::RunOptions options;
        options.offset = offset;
        options.windows = windows;
        options.slices = slices;
        options.cut_for = cut_for;
        options.trace = &steps;
        auto [sum, report] = call(scalars, options, nb::none());
        nb::list rows;
        for (const msm::Step& step : steps)
            rows.append(nb::make_tuple(msm::stage_name(step.stage), step.what, step.first_window, step.per_window,
                                       step.task_ns));
        return nb::make_tuple(sum, report, rows);
    }
    nb::list run_batch(const std::vector<Rows<4>>& vectors, std::size_t offset, unsigned windows) {
        std::vector<const std::byte*> scalars;
        const std::size_t n = vectors.empty() ? 0 : vectors[0].shape(0);
        for (const Rows<4>& one : vectors) {
            if (one.shape(0) != n)
                throw msm::EngineError(msm::Trouble::bad_input, "vectors of different lengths", "sum them one by one");
            scalars.push_back(bytes_of(one));
        }
        std::atomic<bool> stop{false};
        const Active active(*this, stop);
        Watch watch(nb::none(), stop, n * scalars.size());
        msm::RunOptions options;
        options.offset = offset;
        options.windows = windows;
        options.control = {&stop, [&](double done) { watch(done); }};
        std::vector<msm::Report> reports;
        std::vector<G1Affine> sums;
        try {
            const Unlocked unlocked;
            sums = engine_.run_batch(scalars, n, options, reports);
        } catch (const msm::EngineError&) {
            watch.raise_failure();
            throw;
        }
        watch.raise_failure();
        nb::list answers;
        for (std::size_t i = 0; i < sums.size(); ++i) {
            Output<Limbs<8>> out(1);
            write_points({&sums[i], 1}, out.span());
            answers.append(nb::make_tuple(out.release(), describe(reports[i])));
        }
        return answers;
    }
    void cancel() {
        const std::lock_guard lock(mutex_);
        for (std::atomic<bool>* stop : active_) *stop = true;
    }

    // Of a call with n scalars; as if so many points were `prepared`, where that is not negative.
    nb::list memory_map(std::size_t n, std::size_t busy, unsigned scalar_bits, unsigned windows,
                        std::int64_t prepared) {
        nb::list rows;
        const bool asked = prepared >= 0;
        const auto points = static_cast<std::size_t>(asked ? prepared : 0);
        const unsigned factor = asked ? engine_.factor_of(points) : engine_.factor();
        const std::size_t held = asked ? msm::point_bytes * factor * points : engine_.held_bytes();
        msm::Plan plan = msm::plan_for(engine_.kernel(), n, busy, scalar_bits, windows, factor);
        msm::choose_slices(plan, engine_.threads());
        if (engine_.budget() != 0) msm::fit_batch(plan, engine_.kernel(), engine_.threads(), held, engine_.budget());
        for (const msm::MapRow& row : msm::memory_map(engine_.kernel(), engine_.threads(), held, plan))
            rows.append(nb::make_tuple(row.name, row.bytes));
        return rows;
    }
    nb::dict ledger() {
        nb::dict rows;
        for (const auto& [name, bytes] : engine_.ledger().rows()) rows[name.c_str()] = bytes;
        return rows;
    }
    msm::Engine& engine() { return engine_; }

  private:
    // The sum and what is told of it.
    std::pair<nb::object, nb::object> call(const Rows<4>& scalars, msm::RunOptions& options, nb::object poll) {
        std::atomic<bool> stop{false};
        const Active active(*this, stop);
        Watch watch(std::move(poll), stop, scalars.shape(0));
        options.control = {&stop, [&](double done) { watch(done); }};
        msm::Report report;
        Output<Limbs<8>> out(1);
        try {
            const Unlocked unlocked;
            const G1Affine sum = engine_.run(bytes_of(scalars), scalars.shape(0), options, report);
            write_points({&sum, 1}, out.span());
        } catch (const msm::EngineError&) {
            watch.raise_failure();
            throw;
        }
        watch.raise_failure();
        return {nb::cast(out.release()), describe(report)};
    }
    struct Active {
        Active(AffineEngine& owner, std::atomic<bool>& stop) : owner_(owner), stop_(stop) {
            const std::lock_guard lock(owner_.mutex_);
            owner_.active_.push_back(&stop_);
        }
        ~Active() {
            const std::lock_guard lock(owner_.mutex_);
            std::erase(owner_.active_, &stop_);
        }
        AffineEngine& owner_;
        std::atomic<bool>& stop_;
    };

    msm::Engine engine_;
    std::mutex mutex_;
    std::vector<std::atomic<bool>*> active_;
};

// One sum of few points, without an engine: nothing is prepared, kept or handed to other threads.
auto small_sum(const Rows<8>& points, const Rows<4>& scalars, const std::string& backend) {
    const std::size_t n = scalars.shape(0);
    const msm::Kernel& kernel = msm::find_kernel(backend);
    if (points.shape(0) != n || n > msm::small_most(kernel))
        throw msm::EngineError(msm::Trouble::bad_input, "not as many points as scalars, or too many", "use an engine");
    Output<Limbs<8>> out(1);
    {
        const Unlocked unlocked;
        struct alignas(64) Line {
            std::byte of[64];
        };
        const std::unique_ptr<Line[]> scratch(new Line[msm::small_bytes(kernel, n) / sizeof(Line) + 1]);
        msm::Counts counts;
        u64 entries = 0;
        const G1Affine sum =
            msm::small_sum(kernel, bytes_of(points), 256, bytes_of(scalars), n, scratch.get(), counts, entries);
        write_points({&sum, 1}, out.span());
    }
    return out.release();
}

const char* python_error_of(msm::Trouble trouble) {
    switch (trouble) {
        case msm::Trouble::unsupported:
            return "Unsupported";
        case msm::Trouble::out_of_memory:
            return "DeviceOutOfMemory";
        case msm::Trouble::cancelled:
            return "Cancelled";
        case msm::Trouble::bad_input:
        case msm::Trouble::bad_file:
            break;
    }
    return "BadInput";
}

void translate(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const msm::EngineError& error) {
        const nb::object kind = nb::module_::import_("whet.errors").attr(python_error_of(error.trouble()));
        // A path in the text may be any bytes.
        const nb::object cause = nb::steal(PyUnicode_DecodeFSDefault(error.what()));
        const nb::object value = kind(cause, nb::arg("cure") = error.cure());
        PyErr_SetObject(kind.ptr(), value.ptr());
    }
}

}  // namespace

void bind_msm_engine(nb::module_& m) {
    nb::register_exception_translator(translate);
    m.attr("max_points") = msm::max_points;
    m.def("backends", [] {
        std::vector<std::string> names;
        for (const msm::Kernel* kernel : msm::all_kernels()) {
            if (kernel->usable()) names.emplace_back(kernel->name);
        }
        return names;
    });
    m.def(
        "small_most", [](const std::string& backend) { return msm::small_most(msm::find_kernel(backend)); },
        nb::arg("backend"), "How many points small_sum takes.");
    m.def("small_sum", small_sum, nb::arg("points").noconvert(), nb::arg("scalars").noconvert(), nb::arg("backend"),
          "The sum of a few points in Montgomery form, as (1, 8) canonical limbs.");
    nb::class_<AffineEngine>(m, "AffineEngine")
        .def(nb::init<const std::string&, unsigned, unsigned>(), nb::arg("backend"), nb::arg("threads"),
             nb::arg("precompute") = 1)
        // Arrays as they are: a conversion would make integers of floats, and nobody would know.
        .def("prepare", &AffineEngine::prepare, nb::arg("points").noconvert(), nb::arg("montgomery"))
        .def("reserve", &AffineEngine::reserve, nb::arg("n"))
        .def("fill", &AffineEngine::fill, nb::arg("first"), nb::arg("points").noconvert(), nb::arg("montgomery"))
        .def(
            "set_budget", [](AffineEngine& self, std::size_t bytes) { self.engine().set_budget(bytes); },
            nb::arg("bytes"))
        .def("open", &AffineEngine::open, nb::arg("path"), nb::arg("verify"), nb::arg("on_curve") = false,
             nb::arg("copy") = true)
        .def("save", &AffineEngine::save, nb::arg("path"))
        .def("run", &AffineEngine::run, nb::arg("scalars").noconvert(), nb::arg("offset"), nb::arg("windows"),
             nb::arg("poll").none() = nb::none())
        .def("run_batch", &AffineEngine::run_batch, nb::arg("vectors").noconvert(), nb::arg("offset"),
             nb::arg("windows"))
        .def("trace", &AffineEngine::trace, nb::arg("scalars").noconvert(), nb::arg("offset"), nb::arg("windows"),
             nb::arg("slices"), nb::arg("cut_for"))
        .def("cancel", &AffineEngine::cancel)
        .def("trim", &AffineEngine::trim)
        .def("close", &AffineEngine::close)
        .def("memory_map", &AffineEngine::memory_map, nb::arg("n"), nb::arg("busy"), nb::arg("scalar_bits"),
             nb::arg("windows"), nb::arg("prepared") = -1)
        .def("ledger", &AffineEngine::ledger)
        .def("peak_bytes", [](AffineEngine& self) { return self.engine().ledger().peak_bytes(); })
        .def("fail_allocation_after", [](AffineEngine& self, long count) { self.engine().ledger().fail_after(count); })
        .def("__len__", [](AffineEngine& self) { return self.engine().size(); })
        .def_prop_ro("backend", [](AffineEngine& self) { return self.engine().kernel().name; })
        .def_prop_ro("multiples", [](AffineEngine& self) { return self.engine().factor(); })
        .def(
            "multiples_of", [](AffineEngine& self, std::size_t n) { return self.engine().factor_of(n); }, nb::arg("n"))
        .def_prop_ro("threads", [](AffineEngine& self) { return self.engine().threads(); })
        .def_prop_ro("mapped", [](AffineEngine& self) { return self.engine().mapped(); });
}
