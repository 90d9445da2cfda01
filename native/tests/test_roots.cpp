// Every batch of square roots against the plain one: all tail lengths, edge values, squares and non-squares.
#include <vector>

#include "check.hpp"
#include "msm/affine/roots.hpp"

using namespace whet;

namespace {

std::vector<Fp> some_values(std::size_t n) {
    std::vector<Fp> values = {Fp::zero(), Fp::one(), -Fp::one(), Fp::from_u64(3), Fp::from_u64(67)};
    for (Fp v = Fp::from_u64(1234567); values.size() < n; v = v.squared() + Fp::from_u64(7)) values.push_back(v);
    values.resize(n);
    return values;
}

void check_batch(RootBatch batch) {
    const Fp untouched = Fp::from_u64(99);
    for (std::size_t n = 0; n <= 67; ++n) {
        const std::vector<Fp> values = some_values(n);
        std::vector<Fp> plain(n), found(n + 1, untouched);
        root_candidates(values.data(), plain.data(), n);
        batch(values.data(), found.data(), n);
        for (std::size_t i = 0; i < n; ++i) CHECK(found[i] == plain[i]);
        CHECK(found[n] == untouched);
    }
}

}  // namespace

int main() {
    const std::vector<Fp> values = some_values(40);
    std::vector<Fp> roots(values.size());
    root_candidates(values.data(), roots.data(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        Fp root;
        if (values[i].square_root(root))
            CHECK(roots[i] == root);
        else
            CHECK(!(roots[i].squared() == values[i]));
    }
    check_batch(msm::fastest_roots());
    return whet::test::finish("roots");
}
