#include "curve/fixed_base.hpp"

#include <algorithm>
#include <vector>

#include "curve/normalise.hpp"

namespace whet {
namespace {

constexpr std::size_t window_bits = 12;
constexpr std::size_t half = std::size_t{1} << (window_bits - 1);
constexpr std::size_t window_count = 254 / window_bits + 1;  // 22: the last one takes the carry of the signed digits

// table[w * half + d - 1] = d 2^(12 w) G for d = 1 .. half.
std::vector<G1Affine> make_table() {
    std::vector<G1Jacobian> multiples(window_count * half);
    G1Jacobian base = G1Jacobian::from(Bn254::generator());
    for (std::size_t w = 0; w < window_count; ++w) {
        const G1Affine step = base.affine();
        G1Jacobian sum = G1Jacobian::infinity();
        for (std::size_t d = 0; d < half; ++d) multiples[w * half + d] = sum = add(sum, step);
        base = sum.doubled();
    }
    std::vector<G1Affine> table(multiples.size());
    normalise<Bn254>(multiples, table);
    return table;
}

G1Jacobian multiply(const std::vector<G1Affine>& table, const Scalar256& any) {
    const Scalar256 k = Fr::reduce(any);
    G1Jacobian sum = G1Jacobian::infinity();
    u64 carry = 0;
    for (std::size_t w = 0; w < window_count; ++w) {
        const u64 digit = bits(k, w * window_bits, window_bits) + carry;
        carry = digit > half ? 1 : 0;
        if (carry) {
            const u64 magnitude = 2 * half - digit;
            if (magnitude != 0) sum = add(sum, -table[w * half + magnitude - 1]);
        } else if (digit != 0) {
            sum = add(sum, table[w * half + digit - 1]);
        }
    }
    return sum;
}

}  // namespace

void multiply_generator(std::span<const Scalar256> scalars, std::span<G1Affine> out) {
    static const std::vector<G1Affine> table = make_table();
    constexpr std::size_t slice = 1024;
    std::vector<G1Jacobian> sums(std::min(slice, scalars.size()));
    for (std::size_t start = 0; start < scalars.size(); start += slice) {
        const std::size_t count = std::min(slice, scalars.size() - start);
        for (std::size_t i = 0; i < count; ++i) sums[i] = multiply(table, scalars[start + i]);
        normalise<Bn254>(std::span<const G1Jacobian>(sums.data(), count), out.subspan(start, count));
    }
}

}  // namespace whet
