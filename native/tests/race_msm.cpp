// Calls of the sum from several threads at once, for the thread sanitizer: one engine and several, closed, trimmed and
// cancelled in the middle of calls, called again from inside one. The kernels take no part in it, so that two suffice.
// A word names a fault of msm::RacePlant to plant, which the sanitizer must see.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

#include "check.hpp"
#include "msm/engine/engine.hpp"
#include "msm/engine/errors.hpp"
#include "msm/plants.hpp"
#include "msm/reference.hpp"

#ifndef WHET_FAULTS
#error "this program is for builds with WHET_FAULTS only"
#endif

using namespace whet;
using namespace whet::msm;

namespace {

constexpr std::size_t n = 300;  // buckets on every kernel but the vectors'

const std::byte* bytes_of(const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); }

struct Setting {
    std::vector<G1Affine> points;
    std::vector<Scalar256> scalars;
    G1Affine whole, few;  // sums of all, and of the first three, which take no buckets

    Setting() : scalars(n) {
        std::mt19937_64 random_bits(7);
        G1Jacobian at = G1Jacobian::from(Bn254::generator());
        for (std::size_t i = 0; i < n; ++i, at = add(at.doubled(), Bn254::generator())) points.push_back(at.affine());
        for (auto& scalar : scalars) {
            for (u64& word : scalar) word = random_bits();
        }
        MsmWork work;
        whole = msm_pippenger(points, scalars, {}, work).affine();
        few = msm_pippenger(std::span(points).first(3), std::span(scalars).first(3), {}, work).affine();
    }
    void prepare(Engine& engine) const { engine.prepare(bytes_of(points), n, true); }
};

enum class End { answered, refused, cancelled };

// One call; what it answers is right.
End call(const Setting& setting, Engine& engine, std::size_t count, const Control& control = {}) {
    Report report;
    RunOptions options;
    options.control = control;
    try {
        const G1Affine sum = engine.run(bytes_of(setting.scalars), count, options, report);
        CHECK(sum == (count == n ? setting.whole : setting.few));
        return End::answered;
    } catch (const EngineError& error) {
        CHECK(error.trouble() == Trouble::bad_input || error.trouble() == Trouble::cancelled);
        return error.trouble() == Trouble::cancelled ? End::cancelled : End::refused;
    }
}

void at_once(unsigned threads, const std::function<void(unsigned)>& body) {
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) all.emplace_back(body, t);
    for (std::thread& one : all) one.join();
}

// Everything that a caller may do to an engine, while others call it.
void one_engine(const Setting& setting, const Kernel& kernel, unsigned workers) {
    Engine engine(kernel, workers);
    setting.prepare(engine);
    // Sums without buckets first, after one that has made their room: calls that did not take turns would write to it
    // together, which the sanitizer sees before anything worse can happen.
    CHECK(call(setting, engine, 3) == End::answered);
    at_once(4, [&](unsigned) { CHECK(call(setting, engine, 3) == End::answered); });
    at_once(4, [&](unsigned t) {
        for (int repeat = 0; repeat < 3; ++repeat) {
            CHECK(call(setting, engine, t % 2 ? 3 : n) == End::answered);
            if (t == 3) engine.trim();
            CHECK(engine.size() == n && !engine.mapped() && engine.held_bytes() == n * point_bytes);
            CHECK(engine.ledger().rows().count("prepared points") == 1 && engine.ledger().peak_bytes() > 0);
            if (t == 2) engine.set_budget(repeat % 2 ? 0 : std::size_t{1} << 30);
        }
    });
}

// So many calls that each has a thread to itself, with a larger one, and points anew, in between.
void beside_each_other(const Setting& setting, const Kernel& kernel) {
    Engine engine(kernel, 2);
    setting.prepare(engine);
    std::atomic<unsigned> alone = 0;
    at_once(5, [&](unsigned t) {
        for (int repeat = 0; repeat < 6; ++repeat) {
            if (t == 4) {
                if (repeat % 2) engine.trim();
                engine.fill(0, bytes_of(setting.points), n, true);
                continue;
            }
            Report report;
            const std::size_t count = (t + static_cast<unsigned>(repeat)) % 2 ? 3 : n;
            const G1Affine sum = engine.run(bytes_of(setting.scalars), count, {}, report);
            CHECK(sum == (count == n ? setting.whole : setting.few));
            alone += report.workers == 1;
        }
    });
    CHECK(alone > 6);
}

void several_engines(const Setting& setting, const Kernel& kernel) {
    std::vector<std::unique_ptr<Engine>> engines;
    for (int i = 0; i < 3; ++i) engines.push_back(std::make_unique<Engine>(kernel, 2));
    at_once(3, [&](unsigned t) {
        setting.prepare(*engines[t]);
        CHECK(call(setting, *engines[t], n) == End::answered);
    });
    at_once(4, [&](unsigned t) {
        for (unsigned i = 0; i < 3; ++i) CHECK(call(setting, *engines[(t + i) % 3], n) == End::answered);
    });
}

// Batches, whose sums each worker takes for itself, beside single calls and a trim.
void batches(const Setting& setting, const Kernel& kernel) {
    Engine engine(kernel, 3);
    setting.prepare(engine);
    at_once(3, [&](unsigned t) {
        for (const std::size_t count : {n, std::size_t{3}}) {
            if (t == 2) {
                CHECK(call(setting, engine, count) == End::answered);
                engine.trim();
                continue;
            }
            std::vector<Report> reports;
            const std::vector<const std::byte*> scalars(7, bytes_of(setting.scalars));
            for (const G1Affine& sum : engine.run_batch(scalars, count, {}, reports))
                CHECK(sum == (count == n ? setting.whole : setting.few));
        }
    });
}

// Closed by a thread that looks on, while two compute or wait, one prepares anew and one trims.
void closed_meanwhile(const Setting& setting, const Kernel& kernel) {
    for (int repeat = 0; repeat < 4; ++repeat) {
        Engine engine(kernel, 2);
        setting.prepare(engine);
        std::atomic<bool> begun = false;
        Control watched;
        watched.tick = [&](double) { begun = true; };
        at_once(5, [&](unsigned t) {
            if (t < 2) {
                const End end = call(setting, engine, n, watched);
                CHECK(end != End::cancelled);
            } else if (t == 2) {
                while (!begun) std::this_thread::yield();
                engine.close();
                CHECK(call(setting, engine, n) == End::refused);
            } else if (t == 3) {
                engine.trim();
            } else {
                try {
                    setting.prepare(engine);
                } catch (const EngineError& error) {
                    CHECK(error.trouble() == Trouble::bad_input);
                }
            }
        });
        CHECK(engine.size() == 0 && engine.ledger().rows().empty());
    }
}

void cancelled_meanwhile(const Setting& setting, const Kernel& kernel) {
    Engine engine(kernel, 2);
    setting.prepare(engine);
    for (int repeat = 0; repeat < 4; ++repeat) {
        std::atomic<bool> begun = false, stop = false;
        Control watched;
        watched.cancel = &stop;
        watched.tick = [&](double) { begun = true; };
        at_once(3, [&](unsigned t) {
            if (t == 0) {
                while (!begun) std::this_thread::yield();
                stop = true;
            } else {
                call(setting, engine, n, watched);
            }
        });
        CHECK(call(setting, engine, n) == End::answered);
    }
}

// From the callback of a call: another call of the same engine is refused, one of another engine answers, and the
// engine may be trimmed and closed. A call that still waits for its turn calls back, too, and may call.
void from_inside(const Setting& setting, const Kernel& kernel) {
    Engine engine(kernel, 2), other(kernel, 2);
    setting.prepare(engine);
    setting.prepare(other);
    const auto calling = [&](bool alone) {
        std::atomic<int> ticks = 0;
        Control control;
        control.tick = [&](double) {
            if (ticks++ != 2) return;
            const End end = call(setting, engine, n);
            CHECK(end == End::refused || (!alone && end == End::answered));
            CHECK(call(setting, other, 3) == End::answered);
            engine.trim();
        };
        CHECK(call(setting, engine, n, control) == End::answered);
        CHECK(ticks > 2);
    };
    calling(true);
    at_once(2, [&](unsigned) { calling(false); });
    Control closing;
    closing.tick = [&](double) { engine.close(); };
    CHECK(call(setting, engine, n, closing) == End::answered);
    CHECK(call(setting, engine, n) == End::refused);
}

constexpr const char* names[] = {"none", WHET_RACE_PLANT_LIST(WHET_PLANT_TEXT)};

}  // namespace

int main(int count, char** words) {
    if (count > 1) {
        const auto* const name =
            std::ranges::find_if(names, [&](const char* one) { return !std::strcmp(one, words[1]); });
        if (name == std::end(names)) return 2;
        Planted<RacePlant>::active = static_cast<RacePlant>(name - names);
    }
    const Setting setting;
    for (const char* backend : {"portable", "auto"}) {
        const Kernel& kernel = find_kernel(backend);
        one_engine(setting, kernel, 1);
        one_engine(setting, kernel, 3);
        beside_each_other(setting, kernel);
        several_engines(setting, kernel);
        batches(setting, kernel);
        closed_meanwhile(setting, kernel);
        cancelled_meanwhile(setting, kernel);
        from_inside(setting, kernel);
    }
    return whet::test::finish("race_msm");
}
