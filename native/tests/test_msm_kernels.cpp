// The kernels against the portable one on coordinates made of awkward limbs: zeros, ones, all bits, the modulus and its
// neighbours. A sum of lists follows the addition formulas whether or not its points lie on the curve, so any limbs
// can be put into a table. Random points never reach these carries: a limb of zero has probability 2^-64.
#include <cfenv>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"
#include "field/bn254.hpp"
#include "field/cpuid.hpp"
#include "msm/affine/forms.hpp"
#include "msm/engine/engine.hpp"

using namespace whet;
using namespace whet::msm;

namespace {

constexpr std::size_t points = 512, groups = 40, rounds = 9;
std::mt19937_64 random_bits(77);

// In the Montgomery form of a kernel: the limbs themselves are the awkward ones, of 64 bits or of the kernel's 51.
Fp awkward(const Fp& to_plain_form) {
    Limbs<4> limbs;
    const u64 kind = random_bits() % 8;
    for (std::size_t i = 0; i < 4; ++i) {
        constexpr u64 some[] = {0, 0, 0, 1, ~u64{0}, u64{1} << 63, u64{1} << 52, (u64{1} << 52) - 1};
        limbs[i] = kind < 5 ? some[random_bits() % 8] : kind == 5 ? Fp::modulus[i] : random_bits();
    }
    if (kind == 5) limbs[0] -= 1 + random_bits() % 3;
    if (kind == 6) {
        constexpr u64 some[] = {0, 1, u64{1} << 50, (u64{1} << 50) - 1, (u64{1} << 50) + 1, (u64{1} << 51) - 1};
        limbs = {};
        for (unsigned bit = 0; bit < 255; bit += 51) {
            const u64 limb = some[random_bits() % std::size(some)];
            limbs[bit / 64] |= limb << bit % 64;
            if (bit % 64 > 13 && bit < 192) limbs[bit / 64 + 1] |= limb >> (64 - bit % 64);
        }
    }
    return Fp::from_montgomery_limbs(Fp::reduce(limbs)) * to_plain_form;
}

struct Work {
    std::vector<Fp> table;  // x, y of each point
    std::vector<u32> entries, targets;
    std::vector<u16> endo_rounds;  // lanes that change over at any round, also before the first and after the last
    std::vector<Group> lists;
};

Work make_work(const Kernel& kernel) {
    Work work;
    const Fp to_plain_form = form_factor(kernel.montgomery_bits, 256);
    while (work.table.size() < 2 * points) {
        const Fp value = awkward(to_plain_form);
        if (work.table.size() % 2 == 1 && value.is_zero()) continue;  // no point of the curve has y = 0
        work.table.push_back(value);
    }
    for (std::size_t g = 0; g < groups; ++g) {
        const u32 first = static_cast<u32>(work.entries.size());
        const bool ragged = random_bits() % 4 != 0;
        work.lists.push_back({first, static_cast<u16>(rounds), ragged});
        for (std::size_t i = 0; i < lanes * rounds; ++i) {
            const u64 bits = random_bits();
            const u32 entry = entry_of(bits % points) | (bits >> 33 & entry_sign);
            work.entries.push_back(bits >> 34 & 31 || !ragged ? entry : padding_entry);
        }
        for (std::size_t i = 0; i < lanes; ++i) {
            work.targets.push_back(static_cast<u32>(lanes * g + i));
            work.endo_rounds.push_back(static_cast<u16>(random_bits() % (rounds + 1)));
        }
    }
    return work;
}

struct Answer {
    std::vector<Fp> sums = std::vector<Fp>(2 * lanes * groups);
    std::vector<u8> present = std::vector<u8>(lanes * groups);
    Counts counts;
};

// Results in the form of the portable kernel again. `scale`: what its form must be multiplied by for this kernel.
Answer run(const Kernel& kernel, const Work& work) {
    const Fp scale = form_factor(256, kernel.montgomery_bits);
    std::vector<Fp> table = work.table;
    for (Fp& value : table) value *= scale;
    const std::size_t room = (kernel.scratch_bytes + 63) / 64 * 64;
    void* const scratch = std::aligned_alloc(64, room);
    std::memset(scratch, 0xa5, room);
    Answer answer;
    const Chunk chunk = {reinterpret_cast<const std::byte*>(table.data()),
                         work.entries.data(),
                         work.lists.data(),
                         groups,
                         work.targets.data(),
                         work.endo_rounds.data(),
                         reinterpret_cast<std::byte*>(answer.sums.data()),
                         answer.present.data(),
                         scratch};
    // A kernel that works with doubles must not take over how its caller rounds, nor change it.
    std::fesetround(FE_TOWARDZERO);
    kernel.sum_lists(chunk, answer.counts);
    CHECK(std::fegetround() == FE_TOWARDZERO);
    std::fesetround(FE_TONEAREST);
    std::free(scratch);
    const Fp back = scale.inverse();
    for (Fp& value : answer.sums) {
        CHECK(Fp::is_canonical(value.montgomery_limbs()));
        value *= back;
    }
    return answer;
}

// A CPU that knows no leaf 7 answers it with the registers of another leaf.
void check_instructions_are_asked_for() {
    constexpr unsigned bmi2 = 1u << 8, adx = 1u << 19;
    CHECK(has_mulx_and_adx([](unsigned leaf, unsigned) { return CpuidAnswer{7, leaf == 7 ? bmi2 | adx : 0, 0, 0}; }));
    CHECK(has_mulx_and_adx([](unsigned leaf, unsigned) { return CpuidAnswer{31, leaf == 7 ? ~0u : 0, 0, 0}; }));
    CHECK(!has_mulx_and_adx([](unsigned, unsigned) { return CpuidAnswer{6, ~0u, ~0u, ~0u}; }));
    CHECK(!has_mulx_and_adx([](unsigned, unsigned) { return CpuidAnswer{1, ~0u, ~0u, ~0u}; }));
    CHECK(!has_mulx_and_adx([](unsigned leaf, unsigned) { return CpuidAnswer{7, leaf == 7 ? bmi2 : ~0u, ~0u, ~0u}; }));
    CHECK(!has_mulx_and_adx([](unsigned leaf, unsigned) { return CpuidAnswer{7, leaf == 7 ? adx : ~0u, ~0u, ~0u}; }));
    // Leaf 7 has several pages; the first has the features.
    CHECK(!has_mulx_and_adx(
        [](unsigned leaf, unsigned page) { return CpuidAnswer{7, leaf == 7 && page == 0 ? 0 : ~0u, 0, 0}; }));
}

}  // namespace

int main() {
#ifdef WHET_EMULATED_AVX512
    CHECK(ifma_kernel.usable());
#endif
    check_instructions_are_asked_for();
    u64 doublings = 0, cancellations = 0, compared = 0;
    for (int repeat = 0; repeat < 60; ++repeat) {
        for (const Kernel* kernel : all_kernels()) {
            if (!kernel->usable() || kernel == &portable_kernel) continue;
            const Work work = make_work(*kernel);
            const Answer want = run(portable_kernel, work);
            ++compared;
            doublings += want.counts.doublings;
            cancellations += want.counts.cancellations;
            const Answer got = run(*kernel, work);
            CHECK(got.present == want.present);
            CHECK(got.counts.doublings == want.counts.doublings);
            CHECK(got.counts.cancellations == want.counts.cancellations);
            std::size_t different = 0;
            for (std::size_t i = 0; i < want.sums.size(); ++i)
                different += want.present[i / 2] && !(got.sums[i] == want.sums[i]);
            CHECK(different == 0);
        }
    }
    CHECK(compared == 0 || (doublings > 0 && cancellations > 0));
    return whet::test::finish("msm kernels");
}
