// Every planted fault on every kernel must change some answer: the cases that the tests use can fail.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "field/plants.hpp"
#include "msm/engine/engine.hpp"
#include "msm/plants.hpp"
#include "msm/reference.hpp"
#include "tests/check.hpp"

using namespace whet;
using namespace whet::msm;

namespace {

struct Case {
    std::vector<G1Affine> points;
    std::vector<Scalar256> scalars;
    unsigned windows;
    G1Affine want;
    unsigned precompute = 1;
    unsigned slices = 0;
};

std::vector<Case> make_cases() {
    std::mt19937_64 random_bits(99);
    std::vector<G1Affine> points;
    G1Jacobian at = G1Jacobian::from(Bn254::generator());
    for (int i = 0; i < 600; ++i, at = add(at.doubled(), Bn254::generator())) points.push_back(at.affine());
    std::vector<Scalar256> scalars(600);
    for (auto& scalar : scalars) {
        for (u64& word : scalar) word = random_bits();
    }
    std::vector<Case> cases = {{points, scalars, 0, {}}, {points, scalars, 8, {}}, {points, scalars, 31, {}}};
    cases.push_back({std::vector<G1Affine>(600, points[1]), scalars, 20, {}});
    cases.push_back({std::vector<G1Affine>(600, points[1]), std::vector<Scalar256>(600, {1, 0, 0, 0}), 0, {}});
    Case opposite{points, scalars, 12, {}};
    for (std::size_t i = 0; i + 2 < 600; i += 2) {
        opposite.points[i + 1] = -opposite.points[i];
        opposite.scalars[i + 1] = opposite.scalars[i];
    }
    cases.push_back(opposite);
    Case few{points, std::vector<Scalar256>(600, {3, 0, 0, 0}), 0, {}};
    for (std::size_t i = 0; i < 600; ++i) few.points[i] = i % 3 ? points[i % 4] : -points[(i / 3) % 4];
    cases.push_back(few);
    Case infinite{points, scalars, 0, {}};
    infinite.points[7] = infinite.points[599] = G1Affine::infinity();
    cases.push_back(infinite);
    // Several multiples of each point, in one window and in more.
    cases.push_back({points, scalars, 0, {}, 6});
    cases.push_back({infinite.points, scalars, 3, {}, 2});
    // Windows in slices, which begin anywhere in a half and a block.
    cases.push_back({points, scalars, 9, {}, 1, 6});
    cases.push_back({infinite.points, scalars, 3, {}, 2, 5});
    // So few that there are no buckets, one at a time and eight to a vector: all kinds again, from the cases above.
    for (const std::ptrdiff_t end : {2, 3, 20, 75}) {
        for (const std::size_t of : {std::size_t{0}, std::size_t{3}, std::size_t{4}, std::size_t{5}, std::size_t{6}}) {
            cases.push_back({{cases[of].points.begin(), cases[of].points.begin() + end},
                             {cases[of].scalars.begin(), cases[of].scalars.begin() + end},
                             0,
                             {}});
            if (of == 0) cases.back().points[1] = G1Affine::infinity();
        }
    }
    // Two points with scalars of every length: short ones have fewer multiples.
    for (unsigned bits = 1; bits < 254; bits += 9) {
        Case two{{points[3], points[5]}, {scalars[3], scalars[5]}, 0, {}};
        for (Scalar256& scalar : two.scalars) {
            for (unsigned word = 0; word < 4; ++word) {
                const unsigned kept = bits > 64 * word ? bits - 64 * word : 0;
                if (kept < 64) scalar[word] &= (u64{1} << kept) - 1;
            }
        }
        cases.push_back(two);
    }
    for (Case& one : cases) {
        MsmWork work;
        one.want = msm_pippenger(one.points, one.scalars, {}, work).affine();
    }
    return cases;
}

bool wrong(const Kernel& kernel, const Case& one) {
    Engine engine(kernel, 1, one.precompute);
    engine.prepare(reinterpret_cast<const std::byte*>(one.points.data()), one.points.size(), true);
    RunOptions options;
    options.windows = one.windows;
    options.slices = one.slices;
    const auto* const scalars = reinterpret_cast<const std::byte*>(one.scalars.data());
    Report report;
    return !(engine.run(scalars, one.scalars.size(), options, report) == one.want);
}

// A batch of different sums by two workers, of which one is left over.
bool batch_wrong(const Kernel& kernel, const Case& one) {
    Engine engine(kernel, 2);
    engine.prepare(reinterpret_cast<const std::byte*>(one.points.data()), one.points.size(), true);
    constexpr std::size_t n = 100;
    std::vector<const std::byte*> scalars;
    std::vector<G1Affine> want;
    for (std::size_t i = 0; i < 3; ++i) {
        scalars.push_back(reinterpret_cast<const std::byte*>(one.scalars.data() + i));
        MsmWork work;
        const std::span points(one.points);
        want.push_back(msm_pippenger(points.first(n), {one.scalars.data() + i, n}, {}, work).affine());
    }
    std::vector<Report> reports;
    return engine.run_batch(scalars, n, {}, reports) != want;
}

constexpr const char* names[] = {"none", WHET_PLANT_LIST(WHET_PLANT_TEXT)};
constexpr const char* field_names[] = {"none", WHET_FIELD_PLANT_LIST(WHET_PLANT_TEXT)};

// Some case is wrong with the fault that is planted now, and none without one.
void check_caught(const Kernel& kernel, const std::vector<Case>& cases, const char* name, bool planted) {
    int caught = 0;
    for (const Case& one : cases) caught += wrong(kernel, one);
    caught += batch_wrong(kernel, cases.front());
    if ((caught > 0) != planted) std::fprintf(stderr, "%s: %s: %d\n", kernel.name, name, caught);
    CHECK((caught > 0) == planted);
}

}  // namespace

int main() {
    const std::vector<Case> cases = make_cases();
    for (const Kernel* kernel : all_kernels()) {
        if (!kernel->usable()) continue;
        for (std::size_t plant = 0; plant < std::size(names); ++plant) {
            // The vectors alone take eight points at a time.
            if (std::string(names[plant]).starts_with("few_") && kernel->montgomery_bits != 260) continue;
            Planted<Plant>::active = static_cast<Plant>(plant);
            check_caught(*kernel, cases, names[plant], plant > 0);
        }
        Planted<Plant>::active = Plant::none;
        // The portable kernel has no arithmetic of its own; the faults of Fp are planted elsewhere.
        if (kernel == &portable_kernel) continue;
        for (std::size_t plant = 1; plant < std::size(field_names); ++plant) {
            Planted<FieldPlant>::active = static_cast<FieldPlant>(plant);
            check_caught(*kernel, cases, field_names[plant], true);
        }
        Planted<FieldPlant>::active = FieldPlant::none;
    }
    return whet::test::finish("planted faults of the msm engine");
}
