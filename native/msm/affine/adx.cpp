// The batch-affine sums with mulx, adcx and adox: the scalar kernel over a field whose product is hand-ordered
// assembly. Two carry chains run through one accumulator, which C++ cannot say; it halves the time of a multiplication.
// Limit: the one multiplier port, 36 mulx per product.
#include <immintrin.h>

#include "field/bn254.hpp"
#include "msm/affine/scalar_input.hpp"
#include "msm/affine/scalar_sums.hpp"

namespace whet::msm {

namespace {

struct AdxConstants {
    u64 p[4];
    u64 n0;  // -1 / p mod 2^64
};

constexpr AdxConstants make_constants() {
    u64 inverse = 1;
    for (int i = 0; i < 6; ++i) inverse *= 2 - Fp::modulus[0] * inverse;
    return {{Fp::modulus[0], Fp::modulus[1], Fp::modulus[2], Fp::modulus[3]}, u64{0} - inverse};
}
alignas(64) constexpr AdxConstants adx_constants = make_constants();

#define WHET_ROW_OF_PRODUCT(offset) \
    "movq " #offset                 \
    "(%[b]), %%rdx\n\t"             \
    "xorl %%eax, %%eax\n\t"         \
    "mulxq %[a0], %%rax, %[t4]\n\t" \
    "adoxq %%rax, %[t0]\n\t"        \
    "adcxq %[t4], %[t1]\n\t"        \
    "mulxq %[a1], %%rax, %[t4]\n\t" \
    "adoxq %%rax, %[t1]\n\t"        \
    "adcxq %[t4], %[t2]\n\t"        \
    "mulxq %[a2], %%rax, %[t4]\n\t" \
    "adoxq %%rax, %[t2]\n\t"        \
    "adcxq %[t4], %[t3]\n\t"        \
    "mulxq %[a3], %%rax, %[t4]\n\t" \
    "adoxq %%rax, %[t3]\n\t"        \
    "movl $0, %%eax\n\t"            \
    "adcxq %%rax, %[t4]\n\t"        \
    "adoxq %%rax, %[t4]\n\t"

// t = (t + m p) / 2^64; the top bit of p is free, so nothing overflows the fifth word.
#define WHET_ROW_OF_REDUCTION          \
    "movq 32(%[k]), %%rdx\n\t"         \
    "imulq %[t0], %%rdx\n\t"           \
    "xorl %%eax, %%eax\n\t"            \
    "mulxq 0(%[k]), %%rax, %[s]\n\t"   \
    "adcxq %[t0], %%rax\n\t"           \
    "movq %[s], %[t0]\n\t"             \
    "adcxq %[t1], %[t0]\n\t"           \
    "mulxq 8(%[k]), %%rax, %[t1]\n\t"  \
    "adoxq %%rax, %[t0]\n\t"           \
    "adcxq %[t2], %[t1]\n\t"           \
    "mulxq 16(%[k]), %%rax, %[t2]\n\t" \
    "adoxq %%rax, %[t1]\n\t"           \
    "adcxq %[t3], %[t2]\n\t"           \
    "mulxq 24(%[k]), %%rax, %[t3]\n\t" \
    "adoxq %%rax, %[t2]\n\t"           \
    "movl $0, %%eax\n\t"               \
    "adcxq %%rax, %[t3]\n\t"           \
    "adoxq %[t4], %[t3]\n\t"

struct AdxFp {
    u64 v[4];

    static AdxFp from(const Limbs<4>& limbs) { return {{limbs[0], limbs[1], limbs[2], limbs[3]}}; }
    static AdxFp one() { return from(Fp::one().montgomery_limbs()); }
    bool is_zero() const { return (v[0] | v[1] | v[2] | v[3]) == 0; }
    friend bool operator==(const AdxFp& a, const AdxFp& b) {
        return ((a.v[0] ^ b.v[0]) | (a.v[1] ^ b.v[1]) | (a.v[2] ^ b.v[2]) | (a.v[3] ^ b.v[3])) == 0;
    }

    friend AdxFp operator*(const AdxFp& a, const AdxFp& b) {
        u64 t0 = 0, t1 = 0, t2 = 0, t3 = 0, t4, s;
        asm(WHET_ROW_OF_PRODUCT(0) WHET_ROW_OF_REDUCTION WHET_ROW_OF_PRODUCT(8)
                WHET_ROW_OF_REDUCTION WHET_ROW_OF_PRODUCT(16) WHET_ROW_OF_REDUCTION WHET_ROW_OF_PRODUCT(24)
                    WHET_ROW_OF_REDUCTION
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [t4] "=&r"(t4), [s] "=&r"(s)
            : [a0] "m"(a.v[0]), [a1] "m"(a.v[1]), [a2] "m"(a.v[2]), [a3] "m"(a.v[3]), [b] "r"(b.v),
              [k] "r"(&adx_constants), "m"(b), "m"(adx_constants)
            : "rax", "rdx", "cc");
        return reduced({{t0, t1, t2, t3}});
    }
    friend AdxFp operator-(const AdxFp& a, const AdxFp& b) {
        AdxFp r;
        unsigned char borrow = 0;
        for (int i = 0; i < 4; ++i) borrow = subtract(WHET_PLANT(carry_dropped) ? 0 : borrow, a.v[i], b.v[i], r.v[i]);
        const u64 mask = u64{0} - borrow;
        unsigned char carry = 0;
        for (int i = 0; i < 4; ++i) carry = add(carry, r.v[i], adx_constants.p[i] & mask, r.v[i]);
        return r;
    }
    friend AdxFp operator+(const AdxFp& a, const AdxFp& b) {
        AdxFp r;
        unsigned char carry = 0;
        for (int i = 0; i < 4; ++i) carry = add(carry, a.v[i], b.v[i], r.v[i]);
        return reduced(r);
    }
    AdxFp operator-() const { return AdxFp{{0, 0, 0, 0}} - *this; }
    AdxFp doubled() const { return *this + *this; }
    AdxFp inverse() const {
        return from(Fp::from_montgomery_limbs({v[0], v[1], v[2], v[3]}).inverse().montgomery_limbs());
    }

  private:
    static unsigned char add(unsigned char carry, u64 a, u64 b, u64& sum) {
        unsigned long long wide;
        const unsigned char out = _addcarry_u64(carry, a, b, &wide);
        sum = wide;
        return out;
    }
    static unsigned char subtract(unsigned char borrow, u64 a, u64 b, u64& difference) {
        unsigned long long wide;
        const unsigned char out = _subborrow_u64(borrow, a, b, &wide);
        difference = wide;
        return out;
    }
    static AdxFp reduced(const AdxFp& a) {  // from below 2 p
        AdxFp less;
        unsigned char borrow = 0;
        for (int i = 0; i < 4; ++i) borrow = subtract(borrow, a.v[i], adx_constants.p[i], less.v[i]);
        if (WHET_PLANT(reduction_missing)) return a;
        AdxFp r;
        for (int i = 0; i < 4; ++i) r.v[i] = borrow ? a.v[i] : less.v[i];
        return r;
    }
};

bool usable() {
    // Not __builtin_cpu_supports("adx"): gcc 12 does not know that name.
    unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
    asm("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    return (ebx >> 8 & 1) && (ebx >> 19 & 1);  // BMI2, ADX
}

}  // namespace

const Kernel adx_kernel = {
    "adx",           256, sizeof(ScalarSums<AdxFp>::Scratch), usable, ScalarSums<AdxFp>::sum_lists, prepare_scalar,
    decompose_scalar};

}  // namespace whet::msm
