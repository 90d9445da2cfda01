// Field identities that hold for every value, on edge values and on a deterministic walk through both fields.
#include <vector>

#include "check.hpp"
#include "field/batch.hpp"

using namespace whet;

namespace {

template <class Field>
std::vector<Field> sample() {
    std::vector<Field> values = {Field::zero(), Field::one(), -Field::one(), Field::from_u64(2), -Field::from_u64(2)};
    Limbs<4> ones;
    ones.fill(~u64{0});
    values.push_back(Field::from_canonical(ones));
    Field walk = Field::from_u64(0x9e3779b97f4a7c15);
    for (int i = 0; i < 300; ++i) {
        walk = walk.squared() + Field::from_u64(7);
        values.push_back(walk);
    }
    return values;
}

template <class Field>
void check_identities() {
    const auto values = sample<Field>();
    Limbs<4> minus_two = Field::modulus;
    minus_two[0] -= 2;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const Field a = values[i], b = values[(7 * i + 3) % values.size()], c = values[(11 * i + 5) % values.size()];
        CHECK(a + b == b + a);
        CHECK((a + b) - b == a);
        CHECK(a + (-a) == Field::zero());
        CHECK(a * (b + c) == a * b + a * c);
        CHECK((a * b) * c == a * (b * c));
        CHECK(a.squared() == a * a);
        CHECK(Field::from_canonical(a.canonical()) == a);
        CHECK(Field::is_canonical(a.montgomery_limbs()) && Field::is_canonical(a.canonical()));
        CHECK(a.inverse() == a.power(minus_two));
        Field root;
        CHECK(a.squared().square_root(root) && (root == a || root == -a));
    }
    std::vector<Field> inverted(values.size());
    batch_operations<Field>().invert(inverted.data(), values.data(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(inverted[i] == values[i].inverse());
}

void check_backends() {
    CHECK(!batch_backends<Fp>().empty());
    CHECK(select_batch_backend<Fp>("portable"));
    CHECK(!select_batch_backend<Fp>("none such"));
    CHECK(std::string_view(batch_operations<Fp>().name) == "portable");
}

}  // namespace

int main() {
    check_identities<Fp>();
    check_identities<Fr>();
    Fr root;
    CHECK(!Fr::from_u64(Bn254ScalarParams::nonresidue).square_root(root));
    CHECK(!(-Fp::one()).inverse().is_zero());
    check_backends();
    return whet::test::finish("field");
}
