// libwhet_msm: the C interface of the fast engine. No exception crosses it, and no address given by a caller is kept.
#include "c/whet_msm.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "curve/batch.hpp"
#include "msm/engine/engine.hpp"
#include "msm/engine/errors.hpp"

using namespace whet;

namespace {

thread_local std::string last_error;

// What a number stands for. Other points are another engine in its place: calls that have begun keep the one they began
// with, and nobody ever sees points half read.
class Kept {
  public:
    Kept(const msm::Kernel& kernel, unsigned threads)
        : kernel_(kernel), threads_(threads), engine_(std::make_shared<msm::Engine>(kernel, threads)) {}

    std::shared_ptr<msm::Engine> engine() {
        const std::lock_guard lock(lock_);
        return engine_;
    }
    template <typename Fill>
    void replace(const Fill& fill) {
        auto engine = std::make_shared<msm::Engine>(kernel_, threads_, precompute_.load());
        fill(*engine);
        const std::lock_guard lock(lock_);
        engine->set_budget(budget_bytes_);
        engine_.swap(engine);
    }
    void set_budget(std::size_t bytes) {
        const std::lock_guard lock(lock_);
        budget_bytes_ = bytes;
        engine_->set_budget(bytes);
    }
    void set_precompute(unsigned most) {
        if (most < 1 || most > msm::max_factor)
            throw msm::EngineError(msm::Trouble::bad_input, "precompute = " + std::to_string(most),
                                   "give 1 to " + std::to_string(msm::max_factor));
        precompute_ = most;
    }
    void begin(std::atomic<bool>& stop) {
        const std::lock_guard lock(lock_);
        active_.push_back(&stop);
    }
    void end(std::atomic<bool>& stop) {
        const std::lock_guard lock(lock_);
        std::erase(active_, &stop);
    }
    void cancel() {
        const std::lock_guard lock(lock_);
        for (std::atomic<bool>* stop : active_) *stop = true;
    }

  private:
    const msm::Kernel& kernel_;
    const unsigned threads_;
    std::atomic<unsigned> precompute_{1};
    std::mutex lock_;  // of all below; nothing is computed under it
    std::shared_ptr<msm::Engine> engine_;
    std::size_t budget_bytes_ = 0;
    std::vector<std::atomic<bool>*> active_;
};

// Engines by number. Numbers are not used twice, so an old one can only be refused.
struct Engines {
    std::mutex lock;
    std::map<whet_msm_engine, std::shared_ptr<Kept>> kept;
    whet_msm_engine next = 1;
};

// Never destroyed: calls of other threads may outlive the statics of this file.
Engines& engines() {
    static Engines* const all = new Engines;
    return *all;
}

std::shared_ptr<Kept> find(whet_msm_engine number) {
    const std::lock_guard lock(engines().lock);
    const auto found = engines().kept.find(number);
    return found == engines().kept.end() ? nullptr : found->second;
}

std::shared_ptr<Kept> require(whet_msm_engine number) {
    auto kept = find(number);
    if (!kept) {
        throw msm::EngineError(msm::Trouble::bad_input, "there is no engine " + std::to_string(number),
                               "it was freed, or never made by whet_msm_new");
    }
    return kept;
}

void require_address(const void* address, bool needed, const char* name) {
    if (needed && address == nullptr)
        throw msm::EngineError(msm::Trouble::bad_input, std::string(name) + " is NULL", "give an address");
}

whet_msm_status status_of(msm::Trouble trouble) {
    switch (trouble) {
        case msm::Trouble::bad_input:
            return WHET_MSM_BAD_INPUT;
        case msm::Trouble::unsupported:
            return WHET_MSM_UNSUPPORTED;
        case msm::Trouble::out_of_memory:
            return WHET_MSM_OUT_OF_MEMORY;
        case msm::Trouble::cancelled:
            return WHET_MSM_CANCELLED;
        case msm::Trouble::bad_file:
            return WHET_MSM_BAD_FILE;
    }
    return WHET_MSM_INTERNAL;
}

whet_msm_status fail(whet_msm_status status, const char* cause, const char* cure) noexcept {
    try {
        last_error = std::string(cause) + "; " + cure;
    } catch (...) {
        last_error.clear();
    }
    return status;
}

template <typename Step>
whet_msm_status guarded(const Step& step) noexcept {
    try {
        step();
        return WHET_MSM_OK;
    } catch (const msm::EngineError& error) {
        return fail(status_of(error.trouble()), error.what(), error.cure().c_str());
    } catch (const std::bad_alloc&) {
        return fail(WHET_MSM_OUT_OF_MEMORY, "out of memory", "use fewer points, or a budget");
    } catch (const std::exception& error) {
        return fail(WHET_MSM_INTERNAL, error.what(), "please report this");
    } catch (...) {
        return fail(WHET_MSM_INTERNAL, "an unknown fault", "please report this");
    }
}

[[noreturn]] void refuse_point(const FirstDefect& defect) {
    const std::string which = "point " + std::to_string(defect.index);
    if (defect.reason == PointDefect::not_on_curve)
        throw msm::EngineError(msm::Trouble::bad_input, which + " is not on the curve",
                               "check the order of bytes, and whether they are in Montgomery form");
    throw msm::EngineError(msm::Trouble::bad_input, which + " has a coordinate that is not below p",
                           "check the order of bytes");
}

// A call under way, which whet_msm_cancel ends.
struct Active {
    Active(Kept& kept, std::atomic<bool>& stop) : kept_(kept), stop_(stop) { kept_.begin(stop_); }
    ~Active() { kept_.end(stop_); }
    Active(const Active&) = delete;
    Active& operator=(const Active&) = delete;

    Kept& kept_;
    std::atomic<bool>& stop_;
};

}  // namespace

uint32_t whet_msm_version(void) { return 1001; }

const char* whet_msm_error(void) { return last_error.c_str(); }

const char* whet_msm_backend(size_t index) {
    const char* name = nullptr;
    guarded([&] {
        for (const msm::Kernel* kernel : msm::all_kernels()) {
            if (kernel->usable() && index-- == 0) name = kernel->name;
        }
    });
    return name;
}

whet_msm_status whet_msm_new(const char* backend, unsigned threads, whet_msm_engine* engine) {
    return guarded([&] {
        require_address(engine, true, "engine");
        *engine = 0;
        const msm::Kernel& kernel = msm::find_kernel(backend == nullptr ? "auto" : backend);
        auto kept = std::make_shared<Kept>(kernel, threads == 0 ? graph::Pool::hardware_workers() : threads);
        const std::lock_guard lock(engines().lock);
        engines().kept.emplace(engines().next, std::move(kept));
        *engine = engines().next++;
    });
}

void whet_msm_free(whet_msm_engine engine) {
    std::shared_ptr<Kept> kept;  // goes after the lock, here or with the last call under way
    const std::lock_guard lock(engines().lock);
    const auto found = engines().kept.find(engine);
    if (found == engines().kept.end()) return;
    kept = std::move(found->second);
    engines().kept.erase(found);
}

whet_msm_status whet_msm_prepare(whet_msm_engine engine, const uint8_t* points, size_t n, unsigned how) {
    return guarded([&] {
        const auto kept = require(engine);
        require_address(points, n != 0, "points");
        if (n > msm::max_points)
            throw msm::EngineError(msm::Trouble::bad_input, std::to_string(n) + " points are too many",
                                   "split them over engines: at most " + std::to_string(msm::max_points) + " in each");
        if ((how & ~unsigned{WHET_MSM_MONTGOMERY | WHET_MSM_UNCHECKED}) != 0)
            throw msm::EngineError(msm::Trouble::bad_input, "unknown bits in `how`",
                                   "combine WHET_MSM_MONTGOMERY and WHET_MSM_UNCHECKED");
        std::vector<Limbs<8>> raw(n);
        if (n != 0) std::memcpy(raw.data(), points, n * sizeof(raw[0]));
        std::vector<G1Affine> read(n);
        const bool check = (how & WHET_MSM_UNCHECKED) == 0;
        const FirstDefect defect = read_points(raw, (how & WHET_MSM_MONTGOMERY) != 0, check, read);
        if (defect.reason != PointDefect::none) refuse_point(defect);
        kept->replace(
            [&](msm::Engine& fresh) { fresh.prepare(reinterpret_cast<const std::byte*>(read.data()), n, true); });
    });
}

whet_msm_status whet_msm_save(whet_msm_engine engine, const char* path) {
    return guarded([&] {
        const auto kept = require(engine);
        require_address(path, true, "path");
        kept->engine()->save(path);
    });
}

whet_msm_status whet_msm_load(whet_msm_engine engine, const char* path) {
    return guarded([&] {
        const auto kept = require(engine);
        require_address(path, true, "path");
        kept->replace([&](msm::Engine& fresh) { fresh.open(path, msm::Verify::everything); });
    });
}

size_t whet_msm_size(whet_msm_engine engine) {
    const auto kept = find(engine);
    return kept ? kept->engine()->size() : 0;
}

whet_msm_status whet_msm_set_budget(whet_msm_engine engine, size_t bytes) {
    return guarded([&] { require(engine)->set_budget(bytes); });
}

whet_msm_status whet_msm_set_precompute(whet_msm_engine engine, unsigned most) {
    return guarded([&] { require(engine)->set_precompute(most); });
}

whet_msm_status whet_msm_run(whet_msm_engine engine, const uint8_t* scalars, size_t n, size_t offset,
                             whet_msm_progress progress, void* user, uint8_t sum[64]) {
    return guarded([&] {
        const auto kept = require(engine);
        require_address(scalars, n != 0, "scalars");
        require_address(sum, true, "sum");
        std::atomic<bool> stop{false};
        const Active active(*kept, stop);
        msm::RunOptions options;
        options.offset = offset;
        options.control.cancel = &stop;
        if (progress != nullptr) {
            options.control.tick = [&](double done) {
                if (progress(done, user) != 0) stop = true;
            };
        }
        msm::Report report;
        const G1Affine found = kept->engine()->run(reinterpret_cast<const std::byte*>(scalars), n, options, report);
        Limbs<8> canonical;
        write_points({&found, 1}, {&canonical, 1});
        std::memcpy(sum, &canonical, sizeof(canonical));
    });
}

whet_msm_status whet_msm_cancel(whet_msm_engine engine) {
    return guarded([&] { require(engine)->cancel(); });
}
