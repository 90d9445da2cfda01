// The fast engine against the references, on every kernel this CPU has: sizes around powers of two, window counts,
// threads, and inputs made to hit every exceptional addition. Then its promises: memory by the closed form,
// cancellation, failing allocations, damaged files.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "msm/engine/engine.hpp"
#include "msm/engine/errors.hpp"
#include "msm/reference.hpp"

using namespace whet;
using namespace whet::msm;

namespace {

std::mt19937_64 random_bits(20240607);

std::vector<G1Affine> walk(std::size_t n) {
    std::vector<G1Affine> points;
    G1Jacobian at = G1Jacobian::from(Bn254::generator());
    for (std::size_t i = 0; i < n; ++i) {
        points.push_back(at.affine());
        at = add(at.doubled(), Bn254::generator());
    }
    return points;
}

std::vector<Scalar256> random_scalars(std::size_t n) {
    std::vector<Scalar256> scalars(n);
    for (auto& scalar : scalars) {
        for (u64& word : scalar) word = random_bits();
    }
    return scalars;
}

const std::byte* bytes_of(const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); }

struct Inputs {
    std::vector<G1Affine> points;
    std::vector<Scalar256> scalars;
};

G1Affine reference(const Inputs& in) {
    MsmWork work;
    return msm_pippenger(in.points, in.scalars, {}, work).affine();
}

// Several threads take several slices of each window, however few its digits are.
G1Affine run_fast(const Kernel& kernel, unsigned threads, unsigned windows, const Inputs& in, unsigned precompute = 1) {
    Engine engine(kernel, threads, precompute);
    engine.prepare(bytes_of(in.points), in.points.size(), true);
    Report report;
    RunOptions options;
    options.windows = windows;
    options.slices = 2 * threads - 1;
    return engine.run(bytes_of(in.scalars), in.scalars.size(), options, report);
}

void compare(const Kernel& kernel, const Inputs& in, std::vector<unsigned> windows = {0, 10}) {
    const G1Affine want = reference(in);
    for (const unsigned count : windows) {
        for (const unsigned threads : {1u, 2u, 3u}) CHECK(run_fast(kernel, threads, count, in) == want);
    }
}

void check_sizes(const Kernel& kernel) {
    for (const std::size_t n : {0, 1, 2, 3, 7, 8, 9, 31, 33, 127, 128, 129, 500, 1023, 1025})
        compare(kernel, {walk(n), random_scalars(n)});
    compare(kernel, {walk(300), random_scalars(300)}, {8, 9, 10, 13, 17, 31});
}

void check_exceptions(const Kernel& kernel) {
    const std::size_t n = 200;
    const auto points = walk(n);
    const Scalar256 one = {1, 0, 0, 0};
    Scalar256 r_minus_one = Fr::modulus;
    r_minus_one[0] -= 1;

    compare(kernel, {std::vector<G1Affine>(n, points[5]), random_scalars(n)}, {0, 8, 31});   // equal points
    compare(kernel, {points, std::vector<Scalar256>(n, random_scalars(1)[0])}, {0, 8, 31});  // equal scalars
    compare(kernel, {std::vector<G1Affine>(n, points[5]), std::vector<Scalar256>(n, one)});  // one bucket of doublings
    compare(kernel, {points, std::vector<Scalar256>(n, r_minus_one)});
    compare(kernel, {points, std::vector<Scalar256>(n, Scalar256{})});
    compare(kernel, {points, std::vector<Scalar256>(n, Fr::modulus)});
    compare(kernel, {points, std::vector<Scalar256>(n, Scalar256{~u64{0}, ~u64{0}, ~u64{0}, ~u64{0}})});

    Inputs opposite{points, random_scalars(n)};
    for (std::size_t i = 0; i + 1 < n; i += 2) {
        opposite.points[i + 1] = -opposite.points[i];
        opposite.scalars[i + 1] = opposite.scalars[i];
    }
    CHECK(reference(opposite).is_infinity());
    compare(kernel, opposite, {0, 8, 31});
    opposite.points[7] = G1Affine::infinity();
    opposite.points[100] = G1Affine::infinity();
    compare(kernel, opposite, {0, 31});
    compare(kernel, {std::vector<G1Affine>(n, G1Affine::infinity()), random_scalars(n)});

    Inputs few{points, random_scalars(n)};  // three points over and over, either sign, small scalars
    for (std::size_t i = 0; i < n; ++i) {
        few.points[i] = i % 2 ? points[random_bits() % 3] : -points[random_bits() % 3];
        few.scalars[i] = {random_bits() % 4, 0, 0, 0};
    }
    compare(kernel, few, {0, 1, 2});

    // Bit lengths around every border: one window or more, with and without the endomorphism.
    for (const unsigned bits :
         {1u, 2u, 13u, 32u, 63u, 64u, 65u, 122u, 123u, 124u, 125u, 126u, 127u, 128u, 253u, 254u, 255u}) {
        Inputs in{walk(40), random_scalars(40)};
        for (std::size_t i = 0; i < 40; ++i) {
            for (unsigned word = 0; word < 4; ++word) {
                if (64 * word >= bits)
                    in.scalars[i][word] = 0;
                else if (64 * word + 64 > bits && bits % 64)
                    in.scalars[i][word] &= (u64{1} << bits % 64) - 1;
                if (i == 0 && 64 * word < bits)
                    in.scalars[i][word] = ~u64{0} >> (64 * word + 64 > bits ? (64 - bits % 64) % 64 : 0);
            }
        }
        compare(kernel, in, {0, 8});
    }
}

void check_long_lists(const Kernel& kernel) {
    const std::size_t n = 4200;  // one bucket far beyond the limit: parts of parts
    const auto points = walk(n);
    compare(kernel, {points, std::vector<Scalar256>(n, Scalar256{1, 0, 0, 0})});
    compare(kernel, {std::vector<G1Affine>(n, points[9]), std::vector<Scalar256>(n, Scalar256{1, 0, 0, 0})});
    Inputs alternating{std::vector<G1Affine>(n, points[9]), std::vector<Scalar256>(n, Scalar256{3, 0, 0, 0})};
    for (std::size_t i = 0; i < n; i += 2) alternating.points[i] = -points[9];
    compare(kernel, alternating);
}

void check_views(const Kernel& kernel) {
    const Inputs in{walk(400), random_scalars(400)};
    Engine engine(kernel, 2);
    engine.prepare(bytes_of(in.points), 400, true);
    for (const std::size_t offset : {0, 1, 77, 399, 400}) {
        const std::size_t n = std::min<std::size_t>(100, 400 - offset);
        const auto first = in.points.begin() + static_cast<std::ptrdiff_t>(offset);
        const Inputs part{{first, first + static_cast<std::ptrdiff_t>(n)}, random_scalars(n)};
        Report report;
        RunOptions options;
        options.offset = offset;
        CHECK(engine.run(bytes_of(part.scalars), n, options, report) == reference(part));
    }
}

void check_memory(const Kernel& kernel) {
    for (const std::size_t n : {10, 1000, 20000}) {
        const Inputs in{std::vector<G1Affine>(n, walk(1)[0]), random_scalars(n)};
        Engine engine(kernel, 2);
        engine.prepare(bytes_of(in.points), n, true);
        Report report;
        engine.run(bytes_of(in.scalars), n, {}, report);
        std::size_t total = 0;
        const auto rows = engine.ledger().rows();
        for (const MapRow& row : memory_map(kernel, 2, n * point_bytes, report.plan)) {
            CHECK(rows.at(row.name) == row.bytes);
            total += row.bytes;
        }
        CHECK(engine.ledger().current_bytes() == total);
        engine.trim();
        CHECK(engine.ledger().current_bytes() == n * point_bytes);
    }
    // Every allocation of a run fails once: a typed error, nothing kept, and the next run is right.
    struct Case {
        std::size_t n;
        unsigned windows;
        long buffers;  // of a call, but the prepared points
    };
    // A forced number of windows takes buckets; points so few that every kernel does without take one buffer.
    for (const auto& [n, windows, buffers] : {Case{20, 11, 16}, Case{8, 0, 1}}) {
        const Inputs in{walk(n), random_scalars(n)};
        const G1Affine want = reference(in);
        long failures = 0;
        RunOptions options;
        options.windows = windows;
        for (long at = 0; at < 20; ++at) {
            Engine engine(kernel, 2);
            engine.prepare(bytes_of(in.points), n, true);
            engine.ledger().fail_after(at);
            Report report;
            try {
                engine.run(bytes_of(in.scalars), n, options, report);
            } catch (const EngineError& error) {
                CHECK(error.trouble() == Trouble::out_of_memory);
                CHECK(engine.ledger().current_bytes() == n * point_bytes);
                ++failures;
            }
            engine.ledger().fail_after(-1);
            Report again;
            CHECK(engine.run(bytes_of(in.scalars), n, options, again) == want);
        }
        CHECK(failures == buffers);
    }
}

void check_cancellation(const Kernel& kernel) {
    const Inputs in{walk(3000), random_scalars(3000)};
    Engine engine(kernel, 2);
    engine.prepare(bytes_of(in.points), in.points.size(), true);
    std::atomic<bool> stop{false};
    int ticks = 0, cancelled = 0;
    for (int after = 0; after < 6; ++after) {
        stop = false;
        ticks = 0;
        RunOptions options;
        options.control = {&stop, [&](double) {
                               if (++ticks > after) stop = true;
                           }};
        Report report;
        try {
            engine.run(bytes_of(in.scalars), in.scalars.size(), options, report);
        } catch (const EngineError& error) {
            CHECK(error.trouble() == Trouble::cancelled);
            ++cancelled;
        }
    }
    CHECK(cancelled >= 4);
    Report report;
    CHECK(engine.run(bytes_of(in.scalars), in.scalars.size(), {}, report) == reference(in));
}

// Tables of every number of multiples: edges of a part, of its sign, of the last part that is cut short, and of
// infinity.
void check_multiples(const Kernel& kernel) {
    const std::size_t n = 60;
    const Scalar256 edges[] = {{~u64{0}, ~u64{0}, ~u64{0}, ~u64{0}},
                               {0x8000800080008000, 0x8000800080008000, 0, 0},
                               {0x7fff7fff7fff7fff, 0x1fff7fff7fff7fff, 0, 0},
                               {~u64{0}, (u64{1} << 61) - 1, 0, 0},
                               {0, u64{1} << 60, 0, 0},
                               {1, 0, 0, 0},
                               {}};
    Inputs in{walk(n), random_scalars(n)};
    for (std::size_t i = 0; i < n; ++i) {
        if (i % 3 == 0) in.scalars[i] = edges[i / 3 % std::size(edges)];
    }
    in.points[4] = in.points[59] = G1Affine::infinity();
    in.points[11] = in.points[10];
    in.scalars[11] = in.scalars[10];
    in.points[13] = -in.points[12];
    in.scalars[13] = in.scalars[12];
    Inputs shorter = in;
    for (Scalar256& scalar : shorter.scalars) scalar = {scalar[0], scalar[1] & 0xffff, 0, 0};
    for (const Inputs& one : {in, shorter}) {
        const G1Affine want = reference(one);
        for (unsigned precompute = 1; precompute <= max_factor; ++precompute) {
            for (const unsigned windows : {0u, 1u, 3u, 64u})
                CHECK(run_fast(kernel, 1 + windows % 2, windows, one, precompute) == want);
        }
    }
    Engine engine(kernel, 2, 6);
    engine.prepare(bytes_of(in.points), n, true);
    CHECK(engine.factor() == engine.factor_of(n) && engine.factor() > 1);
    RunOptions options;
    options.offset = 7;
    options.windows = 2;
    Report report;
    const Inputs part{{in.points.begin() + 7, in.points.begin() + 47}, random_scalars(40)};
    CHECK(engine.run(bytes_of(part.scalars), 40, options, report) == reference(part));
    CHECK(report.plan.blocks == engine.factor());
    const auto rows = engine.ledger().rows();
    for (const MapRow& row : memory_map(kernel, 2, n * point_bytes * engine.factor(), report.plan))
        CHECK(rows.at(row.name) == row.bytes);
    for (const unsigned wrong : {0u, max_factor + 1}) {
        bool refused = false;
        try {
            const Engine never(kernel, 1, wrong);
        } catch (const EngineError& error) {
            refused = error.trouble() == Trouble::bad_input;
        }
        CHECK(refused);
    }
}

// Windows are cut for many workers, and lists are the same however many slices there are: so are all counters.
void check_slices(const Kernel& kernel) {
    const std::size_t n = 4200;
    Inputs in{walk(n), random_scalars(n)};
    for (std::size_t i = 0; i < n; ++i) {
        if (i % 4 == 0) in.points[i] = in.points[i % 16];
        if (i % 3 == 0) in.scalars[i] = {random_bits() % 3, 0, 0, 0};
        if (i % 1000 == 7) in.points[i] = G1Affine::infinity();
    }
    for (const bool is_short : {false, true}) {
        if (is_short) {
            for (Scalar256& scalar : in.scalars) scalar = {scalar[0], 0, 0, 0};
        }
        for (const unsigned precompute : {1u, 4u}) {
            Engine engine(kernel, 2, precompute);
            engine.prepare(bytes_of(in.points), n, true);
            Report plain;
            RunOptions options;
            options.slices = 1;
            options.cut_for = 16;
            const G1Affine want = engine.run(bytes_of(in.scalars), n, options, plain);
            CHECK(precompute > 1 || want == reference(in));
            CHECK(plain.plan.slices == 1 && plain.counts.doublings > 0);
            for (const unsigned slices : {2u, 3u, 7u, 64u, 0u}) {
                Report report;
                options.slices = slices;
                CHECK(engine.run(bytes_of(in.scalars), n, options, report) == want);
                CHECK(report.plan.slices > 1 || (slices == 0 && is_short));
                CHECK(report.plan.slices == 1 || !report.plan.glv || report.plan.slices % 2 == 0);
                CHECK(report.entries == plain.entries && report.counts.additions == plain.counts.additions);
                CHECK(report.counts.doublings == plain.counts.doublings);
                CHECK(report.counts.cancellations == plain.counts.cancellations);
                CHECK(report.counts.inversions == plain.counts.inversions);
                engine.trim();
                engine.run(bytes_of(in.scalars), n, options, report);
                const auto rows = engine.ledger().rows();
                for (const MapRow& row : memory_map(kernel, 2, engine.held_bytes(), report.plan))
                    CHECK(rows.at(row.name) == row.bytes);
            }
        }
    }
}

void check_files(const Kernel& kernel, const Kernel& other, unsigned precompute) {
    Inputs in{walk(100), random_scalars(100)};
    in.points[33] = G1Affine::infinity();
    const G1Affine want = reference(in);
    const std::string path = "/tmp/whet_prepared_" + std::to_string(getpid());
    Engine engine(kernel, 1, precompute);
    engine.prepare(bytes_of(in.points), 100, true);
    engine.save(path);
    for (const Kernel* reader : {&kernel, &other}) {
        Engine reopened(*reader, 2);
        reopened.open(path, Verify::everything, Check::on_curve);
        Report report;
        CHECK(reopened.size() == 100 && reopened.factor() == engine.factor());
        CHECK(reopened.run(bytes_of(in.scalars), 100, {}, report) == want);
    }
    std::ifstream file(path, std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto refused = [&](const std::string& content) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
        try {
            Engine victim(kernel, 1);
            victim.open(path, Verify::everything);
        } catch (const EngineError& error) {
            return error.trouble() == Trouble::bad_file;
        }
        return false;
    };
    CHECK(!refused(good));
    for (const std::size_t length : {std::size_t{0}, std::size_t{50}, std::size_t{4096}, good.size() - 1})
        CHECK(refused(good.substr(0, length)));
    CHECK(refused(good + "x"));
    for (const std::size_t at : {0, 8, 12, 16, 20, 24, 40, 4096, 5000, 10495}) {
        std::string flipped = good;
        flipped[at] = static_cast<char>(flipped[at] ^ 4);
        CHECK(refused(flipped));
    }
    // Truncated under an open map: the next run says so instead of dying.
    std::ofstream(path, std::ios::binary | std::ios::trunc) << good;
    Engine open_engine(kernel, 1);
    open_engine.open(path, Verify::header, Check::none, Hold::map);
    CHECK(truncate(path.c_str(), 4096) == 0);
    bool told = false;
    try {
        Report report;
        open_engine.run(bytes_of(in.scalars), 100, {}, report);
    } catch (const EngineError& error) {
        told = error.trouble() == Trouble::bad_file;
    }
    CHECK(told);
    unlink(path.c_str());
}

}  // namespace

// The digits of every plan reach from minus to plus the largest number that can be cut into them.
void check_room_for_digits(const Plan& plan, unsigned scalar_bits) {
    u128 lowest = 0, highest = 0;  // in magnitude
    unsigned position = 0;
    for (unsigned b = 0; b < plan.blocks; ++b) {
        for (unsigned w = 0; w < plan.windows; ++w) {
            CHECK(plan.width[w] >= 1 && plan.width[w] <= max_width && b * plan.bits + plan.position(w) == position);
            CHECK(w == 0 || plan.width[w] <= plan.width[w - 1]);
            const unsigned width = std::min<unsigned>(plan.width[w], position < 128 ? 128 - position : 0);
            if (width > 0) lowest += u128{1} << (position + width - 1);
            if (width > 0) highest += ((u128{1} << (width - 1)) - 1) << position;
            position += plan.width[w];
        }
    }
    CHECK(position == plan.bits * plan.blocks && plan.glv == (scalar_bits > 125));
    CHECK(plan.batch >= 1 && plan.batch <= plan.windows);
    const u128 largest = plan.glv ? glv_half_bound : (u128{1} << scalar_bits) - 1;
    CHECK(lowest >= largest && highest >= largest);
}

void check_room_for_digits() {
    for (unsigned scalar_bits = 0; scalar_bits <= 256; ++scalar_bits) {
        for (unsigned windows = 0; windows <= max_windows; ++windows) {
            for (unsigned factor = 1; factor <= (windows < 12 ? max_factor : 1); ++factor)
                check_room_for_digits(make_plan(1000, 1000, scalar_bits, windows, factor), scalar_bits);
        }
    }
    // The bound itself, on scalars beside the borders of the rounding.
    const u128 exact = (glv::long_a + glv::small) / 2 + 1;
    CHECK(exact < glv_half_bound && glv_half_bound < (u128{1} << 126));
}

// Plans by the lengths of scalars: room for every digit, and never more expensive than one by the longest scalar.
void check_plans_by_length() {
    std::mt19937_64 mixed_bits(17);
    for (int repeat = 0; repeat < 2000; ++repeat) {
        Lengths lengths;
        std::size_t n = 0;
        for (u64 kinds = 1 + mixed_bits() % 6; kinds > 0; --kinds) {
            const std::size_t count = mixed_bits() % (std::size_t{1} << (mixed_bits() % 20));
            lengths.of[mixed_bits() % (Lengths::most + 1)] += count;
            n += count;
        }
        lengths.of[Lengths::most] += 1;
        const Plan plan = make_plan(++n, lengths, 254, 0), longest = make_plan(n, n - lengths.of[0], 254, 0);
        check_room_for_digits(plan, 254);
        const unsigned factor = 2 + static_cast<unsigned>(mixed_bits() % (max_factor - 1));
        check_room_for_digits(make_plan(n, lengths, 254, 0, factor), 254);
        CHECK(expected_cost(plan, lengths) <= expected_cost(longest, lengths));
    }
    // Four of five below 2^14, the others long: one wide window for all the short ones, which pays.
    Lengths lengths;
    lengths.of[13] = 26'000;
    lengths.of[14] = 26'000;
    lengths.of[Lengths::most] = 13'000;
    const Plan plan = make_plan(65'000, lengths, 254, 0), longest = make_plan(65'000, 65'000, 254, 0);
    CHECK(plan.width[0] >= 14 && plan.width[1] < plan.width[0] - 1);
    CHECK(expected_cost(plan, lengths) < 0.92 * expected_cost(longest, lengths));
    // All long: the plan of memory maps.
    Lengths all;
    all.of[Lengths::most] = 65'000;
    CHECK(make_plan(65'000, all, 254, 0).width == longest.width);
}

// Few long scalars among short ones of one length.
void check_mixed_lengths(const Kernel& kernel) {
    for (const unsigned bits : {1u, 2u, 9u, 14u, 15u, 63u, 64u, 65u, 100u, 124u, 125u, 126u, 127u, 128u, 129u}) {
        Inputs in{walk(900), random_scalars(900)};
        for (std::size_t i = 0; i < 900; ++i) {
            if (i % 5 == 0) continue;
            for (unsigned word = 0; word < 4; ++word) {
                if (64 * word >= bits) in.scalars[i][word] = 0;
                if (64 * word < bits && 64 * word + 64 > bits) in.scalars[i][word] &= ~u64{0} >> (64 - bits % 64);
                if (i % 7 == 0 && 64 * word + 64 <= bits) in.scalars[i][word] = ~u64{0};
            }
        }
        compare(kernel, in, {0});
    }
}

int main() {
    check_room_for_digits();
    check_plans_by_length();
    for (const Kernel* kernel : all_kernels()) {
        if (!kernel->usable()) continue;
        check_sizes(*kernel);
        check_exceptions(*kernel);
        check_long_lists(*kernel);
        check_mixed_lengths(*kernel);
        check_views(*kernel);
        check_memory(*kernel);
        check_cancellation(*kernel);
        check_multiples(*kernel);
        check_slices(*kernel);
        for (const unsigned precompute : {1u, 5u}) {
            check_files(*kernel, portable_kernel, precompute);
            check_files(portable_kernel, *kernel, precompute);
        }
    }
    return whet::test::finish("msm engine");
}
