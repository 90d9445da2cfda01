// A prime field in Montgomery form with R = 2^(64 N), for any modulus that leaves the top bit of its highest limb free.
// Values are always canonical (below the modulus), so that equality is equality of limbs. Variable time throughout:
// nothing here may touch a secret that an attacker can time.
#pragma once

#include <cstddef>
#include <span>

#include "field/inverse.hpp"
#include "field/limbs.hpp"

namespace whet {

// Params names the modulus; everything else is derived from it at compile time.
template <class Params>
class PrimeField {
  public:
    static constexpr std::size_t limb_count = Params::modulus.size();
    using Value = Limbs<limb_count>;

    static constexpr Value modulus = Params::modulus;
    static_assert((modulus[0] & 1) == 1, "the modulus is odd");
    static_assert((modulus[limb_count - 1] >> 63) == 0, "multiplication relies on a free top bit");
    static constexpr std::size_t modulus_bits = bit_length(modulus);

    constexpr PrimeField() = default;

    static constexpr PrimeField zero() { return {}; }
    static constexpr PrimeField one() { return from_montgomery_limbs(r1_); }
    static constexpr PrimeField from_u64(u64 small) {
        Value value{};
        value[0] = small;
        return from_canonical(value);
    }
    // `value` may be any integer below R; it is reduced.
    static constexpr PrimeField from_canonical(const Value& value) {
        return from_montgomery_limbs(multiply(r2_, value));
    }
    // `limbs` must be canonical: the caller vouches for it.
    static constexpr PrimeField from_montgomery_limbs(const Value& limbs) {
        PrimeField result;
        result.limbs_ = limbs;
        return result;
    }
    constexpr Value canonical() const {
        Value unit{};
        unit[0] = 1;
        return multiply(limbs_, unit);
    }
    constexpr const Value& montgomery_limbs() const { return limbs_; }
    static constexpr bool is_canonical(const Value& value) { return less_than(value, modulus); }
    // Any integer below R, reduced; no Montgomery form involved.
    static constexpr Value reduce(Value value) {
        Value trial = value;
        while (subtract_from(trial, modulus) == 0) value = trial;
        return value;
    }

    constexpr bool is_zero() const { return whet::is_zero(limbs_); }
    friend constexpr bool operator==(const PrimeField&, const PrimeField&) = default;

    friend constexpr PrimeField operator+(const PrimeField& a, const PrimeField& b) {
        PrimeField sum = a;
        add_to(sum.limbs_, b.limbs_);
        subtract_modulus_once(sum.limbs_);
        return sum;
    }
    friend constexpr PrimeField operator-(const PrimeField& a, const PrimeField& b) {
        PrimeField difference = a;
        const u64 mask = u64{0} - subtract_from(difference.limbs_, b.limbs_);
        Value correction = modulus;
        for (u64& limb : correction) limb &= mask;
        add_to(difference.limbs_, correction);
        return difference;
    }
    constexpr PrimeField operator-() const { return zero() - *this; }
    friend constexpr PrimeField operator*(const PrimeField& a, const PrimeField& b) {
        return from_montgomery_limbs(multiply(a.limbs_, b.limbs_));
    }
    constexpr PrimeField& operator+=(const PrimeField& b) { return *this = *this + b; }
    constexpr PrimeField& operator-=(const PrimeField& b) { return *this = *this - b; }
    constexpr PrimeField& operator*=(const PrimeField& b) { return *this = *this * b; }
    constexpr PrimeField doubled() const { return *this + *this; }
    constexpr PrimeField squared() const { return *this * *this; }

    template <std::size_t M>
    constexpr PrimeField power(const Limbs<M>& exponent) const {
        PrimeField result = one();
        for (std::size_t i = bit_length(exponent); i-- > 0;) {
            result = result.squared();
            if (bit(exponent, i)) result *= *this;
        }
        return result;
    }

    // The inverse of zero is zero: batch code relies on it.
    PrimeField inverse() const {
        if (is_zero()) return zero();
        return from_montgomery_limbs(multiply(r3_, inverse_vartime(limbs_, modulus)));  // (aR)^-1 R^3 / R
    }

    // A square root into `root`; false (and root untouched) when there is none. Which of the two is unspecified.
    bool square_root(PrimeField& root) const;

  private:
    static constexpr u64 negated_inverse_of_low_limb() {
        u64 inverse = 1;
        for (int i = 0; i < 6; ++i) inverse *= 2 - modulus[0] * inverse;
        return u64{0} - inverse;
    }
    static constexpr void subtract_modulus_once(Value& value) {
        Value trial = value;
        const u64 keep = u64{0} - subtract_from(trial, modulus);
        for (std::size_t i = 0; i < limb_count; ++i) value[i] = (value[i] & keep) | (trial[i] & ~keep);
    }
    static constexpr Value power_of_two(std::size_t exponent) {
        Value value{};
        value[0] = 1;
        for (std::size_t i = 0; i < exponent; ++i) {
            const Value copy = value;
            add_to(value, copy);
            subtract_modulus_once(value);
        }
        return value;
    }

    // a b / R mod p by operand scanning over b. a must be canonical, b may be anything below R: every running sum stays
    // below 2p, which is why two carry words suffice. N (2N + 1) multiplications.
    static constexpr Value multiply(const Value& a, const Value& b) {
        Value t{};
        for (std::size_t i = 0; i < limb_count; ++i) {
            u128 product = static_cast<u128>(a[0]) * b[i] + t[0];
            const u64 m = low(product) * n0_;
            u64 carry = high(product);
            u64 reduction = high(static_cast<u128>(m) * modulus[0] + low(product));
            for (std::size_t j = 1; j < limb_count; ++j) {
                product = static_cast<u128>(a[j]) * b[i] + t[j] + carry;
                carry = high(product);
                const u128 reduced = static_cast<u128>(m) * modulus[j] + low(product) + reduction;
                t[j - 1] = low(reduced);
                reduction = high(reduced);
            }
            t[limb_count - 1] = carry + reduction;
        }
        subtract_modulus_once(t);
        return t;
    }

    static constexpr u64 n0_ = negated_inverse_of_low_limb();
    static constexpr Value r1_ = power_of_two(64 * limb_count);
    static constexpr Value r2_ = power_of_two(128 * limb_count);
    static constexpr Value r3_ = power_of_two(192 * limb_count);

    Value limbs_{};
};

template <class Params>
bool PrimeField<Params>::square_root(PrimeField& root) const {
    PrimeField candidate;
    if constexpr ((modulus[0] & 3) == 3) {
        constexpr Value quarter = [] {  // (p + 1) / 4 = floor(p / 4) + 1
            Value value = shift_right(modulus, 2);
            value[0] += 1;
            return value;
        }();
        candidate = power(quarter);
    } else {
        // Tonelli and Shanks: p - 1 = 2^s q.
        constexpr std::size_t s = [] {
            Value even = modulus;
            even[0] -= 1;
            std::size_t count = 0;
            while (!bit(even, count)) ++count;
            return count;
        }();
        constexpr Value q = shift_right(modulus, s);
        constexpr Value q_half = shift_right(q, 1);
        if (is_zero()) {
            root = zero();
            return true;
        }
        const PrimeField half = power(q_half);
        candidate = *this * half;         // a^((q+1)/2)
        PrimeField t = candidate * half;  // a^q, of order 2^k
        PrimeField c = from_u64(Params::nonresidue).power(q);
        for (std::size_t m = s; !(t == one());) {
            std::size_t order = 0;
            for (PrimeField u = t; !(u == one()) && order < m; ++order) u = u.squared();
            if (order == m) return false;
            for (std::size_t i = 0; i + order + 1 < m; ++i) c = c.squared();
            candidate *= c;
            c = c.squared();
            t *= c;
            m = order;
        }
    }
    if (!(candidate.squared() == *this)) return false;
    root = candidate;
    return true;
}

// Inverts every element in place with one inversion and 3 (n - 1) multiplications; zeros stay zero.
// `scratch` needs as many elements as `values`.
template <class Field>
void invert_all(std::span<Field> values, std::span<Field> scratch) {
    Field product = Field::one();
    for (std::size_t i = 0; i < values.size(); ++i) {
        scratch[i] = product;
        if (!values[i].is_zero()) product *= values[i];
    }
    Field inverse = product.inverse();
    for (std::size_t i = values.size(); i-- > 0;) {
        if (values[i].is_zero()) continue;
        const Field value = values[i];
        values[i] = inverse * scratch[i];
        inverse *= value;
    }
}

}  // namespace whet
