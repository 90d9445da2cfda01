#include "msm/affine/scalar_input.hpp"

#include <cstring>

#include "curve/glv.hpp"
#include "msm/plants.hpp"

namespace whet::msm {

namespace {

static_assert(sizeof(Fp) == field_bytes);

// k (two's complement) plus the bias, cut into non-negative fields; each less half its range is a signed digit.
void cut(u128 k, u128 bias, const Digits& digits, std::int16_t* out) {
    u128 rest = k + bias;
    unsigned position = 0;
    for (unsigned b = 0; b < digits.blocks; ++b, out += digits.block) {
        const int wrong_carry = WHET_PLANT(block_carry_wrong) && b > 0 ? 1 : 0;
        for (unsigned w = 0; w < digits.windows; ++w) {
            const unsigned width = fitting_width(position, digits.width[w]);
            const int field = static_cast<int>(static_cast<u64>(rest) & ((u64{1} << width) - 1));
            if (w >= digits.first && w < digits.last)
                out[(w - digits.first) * digits.stride] =
                    static_cast<std::int16_t>(field - ((1 << width) >> 1) + (w == 0 ? wrong_carry : 0));
            rest >>= width;
            position += digits.width[w];
        }
    }
}

u128 two_complement(const glv::Half& half) {
    const u128 magnitude = static_cast<u128>(half.magnitude[1]) << 64 | half.magnitude[0];
    return half.negative ? u128{0} - magnitude : magnitude;
}

}  // namespace

u128 digit_bias(const Digits& digits) {
    u128 bias = 0;
    unsigned position = 0;
    for (unsigned b = 0; b < digits.blocks; ++b) {
        for (unsigned w = 0; w < digits.windows; ++w) {
            const unsigned width = fitting_width(position, digits.width[w]);
            const bool inner_top = w + 1 == digits.windows && b + 1 < digits.blocks;
            if (width > 0 && !(WHET_PLANT(block_sign_lost) && inner_top))
                bias += static_cast<u128>(1) << (position + width - 1);
            position += digits.width[w];
        }
    }
    return bias;
}

void prepare_scalar(const std::byte* points, std::size_t n, bool montgomery, std::byte* table) {
    for (std::size_t i = 0; i < n; ++i) {
        Limbs<4> x, y;
        std::memcpy(&x, points + point_bytes * i, field_bytes);
        std::memcpy(&y, points + point_bytes * i + field_bytes, field_bytes);
        const Fp px = montgomery ? Fp::from_montgomery_limbs(x) : Fp::from_canonical(x);
        const Fp py = montgomery ? Fp::from_montgomery_limbs(y) : Fp::from_canonical(y);
        const Fp prepared[2] = {px, py};
        std::memcpy(table + point_bytes * i, prepared, point_bytes);
    }
}

void prepare_scalar_255(const std::byte* points, std::size_t n, bool montgomery, std::byte* table) {
    prepare_scalar(points, n, montgomery, table);
    for (std::size_t i = 0; i < 2 * n; ++i) {
        Limbs<4> value;
        std::memcpy(&value, table + field_bytes * i, field_bytes);
        const u64 odd = u64{0} - (value[0] & 1);  // half of it, or of it and p, which fit 256 bits
        Limbs<4> p = Fp::modulus;
        for (u64& limb : p) limb &= odd;
        add_to(value, p);
        value = shift_right(value, 1);
        std::memcpy(table + field_bytes * i, &value, field_bytes);
    }
}

void decompose_scalar(const std::byte* scalars, std::size_t n, const Digits& digits) {
    const u128 bias = digit_bias(digits);
    for (std::size_t i = 0; i < n; ++i) {
        Limbs<4> k;
        std::memcpy(&k, scalars + field_bytes * i, field_bytes);
        k = Fr::reduce(k);
        if (digits.half == 0) {
            cut(static_cast<u128>(k[1]) << 64 | k[0], bias, digits, digits.out + i);
            continue;
        }
        const glv::Split split = glv::split(k);
        cut(two_complement(split.k1), bias, digits, digits.out + i);
        cut(two_complement(split.k2), bias, digits, digits.out + digits.half + i);
    }
}

}  // namespace whet::msm
