// A value of Fp for processors with mulx, adcx and adox, R = 2^256: the product is hand-ordered assembly. Two carry
// chains run through one accumulator, which C++ cannot say; it halves the time of a multiplication. Values are lazy,
// below 2 p, so a product ends without a subtraction. Limit: the one multiplier port, 36 mulx per product. Unnamed,
// because it is code of the files that have asked the processor.
#pragma once

#include "field/bn254.hpp"
#include "field/plants.hpp"

namespace whet {

namespace {

struct AdxConstants {
    u64 p[4];
    u64 n0;  // -1 / p mod 2^64
    u64 twice_p[4];
};

constexpr AdxConstants make_constants() {
    u64 inverse = 1;
    for (int i = 0; i < 6; ++i) inverse *= 2 - Fp::modulus[0] * inverse;
    Limbs<4> twice = Fp::modulus;
    add_to(twice, Fp::modulus);
    return {{Fp::modulus[0], Fp::modulus[1], Fp::modulus[2], Fp::modulus[3]},
            u64{0} - inverse,
            {twice[0], twice[1], twice[2], twice[3]}};
}
alignas(64) constexpr AdxConstants adx_constants = make_constants();

// clang-format off: one instruction per line.
// One row each, for the columns named t0 .. t4 and the factors at byte `at` behind %[a] and %[b].
#define WHET_COLUMN(t, index) "%[" #t #index "]"
#define WHET_FIRST_ROW(t, at)                                               \
    "movq " #at "(%[b]), %%rdx\n\t"                                         \
    "mulxq " #at "(%[a]), " WHET_COLUMN(t, 0) ", " WHET_COLUMN(t, 1) "\n\t" \
    "mulxq " #at "+8(%[a]), %%rax, " WHET_COLUMN(t, 2) "\n\t"               \
    "addq %%rax, " WHET_COLUMN(t, 1) "\n\t"                                 \
    "mulxq " #at "+16(%[a]), %%rax, " WHET_COLUMN(t, 3) "\n\t"              \
    "adcq %%rax, " WHET_COLUMN(t, 2) "\n\t"                                 \
    "mulxq " #at "+24(%[a]), %%rax, " WHET_COLUMN(t, 4) "\n\t"              \
    "adcq %%rax, " WHET_COLUMN(t, 3) "\n\t"                                 \
    "adcq $0, " WHET_COLUMN(t, 4) "\n\t"

#define WHET_ROW_OF_PRODUCT(t, at, limb)             \
    "movq " #at "+" #limb "(%[b]), %%rdx\n\t"                  \
    "xorl %%eax, %%eax\n\t"                                    \
    "mulxq " #at "(%[a]), %%rax, " WHET_COLUMN(t, 4) "\n\t"    \
    "adoxq %%rax, " WHET_COLUMN(t, 0) "\n\t"                   \
    "adcxq " WHET_COLUMN(t, 4) ", " WHET_COLUMN(t, 1) "\n\t"   \
    "mulxq " #at "+8(%[a]), %%rax, " WHET_COLUMN(t, 4) "\n\t"  \
    "adoxq %%rax, " WHET_COLUMN(t, 1) "\n\t"                   \
    "adcxq " WHET_COLUMN(t, 4) ", " WHET_COLUMN(t, 2) "\n\t"   \
    "mulxq " #at "+16(%[a]), %%rax, " WHET_COLUMN(t, 4) "\n\t" \
    "adoxq %%rax, " WHET_COLUMN(t, 2) "\n\t"                   \
    "adcxq " WHET_COLUMN(t, 4) ", " WHET_COLUMN(t, 3) "\n\t"   \
    "mulxq " #at "+24(%[a]), %%rax, " WHET_COLUMN(t, 4) "\n\t" \
    "adoxq %%rax, " WHET_COLUMN(t, 3) "\n\t"                   \
    "movl $0, %%eax\n\t"                                       \
    "adcxq %%rax, " WHET_COLUMN(t, 4) "\n\t"                   \
    "adoxq %%rax, " WHET_COLUMN(t, 4) "\n\t"

// t = (t + m p) / 2^64. After each row t < a + p, which is below 3 p < 2^256: nothing overflows the fifth word. The low
// half of m p_0 cancels t0, so its carry is known before it: there is one unless t0 was zero.
#define WHET_ROW_OF_REDUCTION(t)                             \
    "movq %[n0], %%rdx\n\t"                                  \
    "imulq " WHET_COLUMN(t, 0) ", %%rdx\n\t"                 \
    "xorl %%eax, %%eax\n\t"                                  \
    "movq $-1, %%rax\n\t"                                    \
    "adcxq " WHET_COLUMN(t, 0) ", %%rax\n\t"                 \
    "mulxq %[p0], %%rax, " WHET_COLUMN(t, 0) "\n\t"          \
    "adcxq " WHET_COLUMN(t, 1) ", " WHET_COLUMN(t, 0) "\n\t" \
    "mulxq %[p1], %%rax, " WHET_COLUMN(t, 1) "\n\t"          \
    "adoxq %%rax, " WHET_COLUMN(t, 0) "\n\t"                 \
    "adcxq " WHET_COLUMN(t, 2) ", " WHET_COLUMN(t, 1) "\n\t" \
    "mulxq %[p2], %%rax, " WHET_COLUMN(t, 2) "\n\t"          \
    "adoxq %%rax, " WHET_COLUMN(t, 1) "\n\t"                 \
    "adcxq " WHET_COLUMN(t, 3) ", " WHET_COLUMN(t, 2) "\n\t" \
    "mulxq %[p3], %%rax, " WHET_COLUMN(t, 3) "\n\t"          \
    "adoxq %%rax, " WHET_COLUMN(t, 2) "\n\t"                 \
    "movl $0, %%eax\n\t"                                     \
    "adcxq %%rax, " WHET_COLUMN(t, 3) "\n\t"                 \
    "adoxq " WHET_COLUMN(t, 4) ", " WHET_COLUMN(t, 3) "\n\t"
// clang-format on

#define WHET_ROWS(limb) \
    WHET_ROW_OF_PRODUCT(t, 0, limb) WHET_ROW_OF_PRODUCT(u, 32, limb) WHET_ROW_OF_REDUCTION(t) WHET_ROW_OF_REDUCTION(u)

// A value below 2 p; two such values may stand for one element. Products: (2 p)^2 / R + p < 2 p, because 4 p < R.
struct AdxFp {
    u64 v[4];

    static AdxFp from(const Limbs<4>& limbs) { return {{limbs[0], limbs[1], limbs[2], limbs[3]}}; }
    static AdxFp one() { return from(Fp::one().montgomery_limbs()); }
    bool is_zero() const {
        const u64* const p = adx_constants.p;
        return (v[0] | v[1] | v[2] | v[3]) == 0 ||
               (((v[0] ^ p[0]) | (v[1] ^ p[1]) | (v[2] ^ p[2]) | (v[3] ^ p[3])) == 0 &&
                !WHET_FIELD_PLANT(lazy_zero_missed));
    }
    friend bool operator==(const AdxFp& a, const AdxFp& b) { return (a - b).is_zero(); }

    // Two products, row by row in turn: a product alone fills the scheduler with sums that wait for each other.
    static void multiply_pair(AdxFp (&out)[2], const AdxFp* a, const AdxFp* b) {
        u64 t0, t1, t2, t3, t4, u0, u1, u2, u3, u4;
        asm(WHET_FIRST_ROW(t, 0) WHET_FIRST_ROW(u, 32) WHET_ROW_OF_REDUCTION(t) WHET_ROW_OF_REDUCTION(u) WHET_ROWS(8)
                WHET_ROWS(16) WHET_ROWS(24)
            : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [u0] "=&r"(u0),
              [u1] "=&r"(u1), [u2] "=&r"(u2), [u3] "=&r"(u3), [u4] "=&r"(u4)
            : [a] "r"(a), [b] "r"(b), [n0] "m"(adx_constants.n0), [p0] "m"(adx_constants.p[0]),
              [p1] "m"(adx_constants.p[1]), [p2] "m"(adx_constants.p[2]), [p3] "m"(adx_constants.p[3])
            : "rax", "rdx", "cc", "memory");  // as operands the factors could ask for registers: there are none left
        out[0] = {{t0, t1, t2, t3}};
        out[1] = {{u0, u1, u2, u3}};
    }
    friend AdxFp operator*(const AdxFp& a, const AdxFp& b) {
        u64 t0, t1, t2, t3, t4;
        asm(WHET_FIRST_ROW(t, 0) WHET_ROW_OF_REDUCTION(t) WHET_ROW_OF_PRODUCT(t, 0, 8) WHET_ROW_OF_REDUCTION(t)
                WHET_ROW_OF_PRODUCT(t, 0, 16) WHET_ROW_OF_REDUCTION(t) WHET_ROW_OF_PRODUCT(t, 0, 24)
                    WHET_ROW_OF_REDUCTION(t)
            : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4)
            : [a] "r"(a.v), [b] "r"(b.v), "m"(a), "m"(b), [n0] "m"(adx_constants.n0), [p0] "m"(adx_constants.p[0]),
              [p1] "m"(adx_constants.p[1]), [p2] "m"(adx_constants.p[2]), [p3] "m"(adx_constants.p[3])
            : "rax", "rdx", "cc");
        return {{t0, t1, t2, t3}};
    }
    friend AdxFp operator-(const AdxFp& a, const AdxFp& b) {
        AdxFp r = a;
        u64 mask = difference(r, b.v);
        if (WHET_FIELD_PLANT(reduction_missing)) mask = 0;
        if (WHET_FIELD_PLANT(carry_dropped)) r.v[1] += a.v[0] < b.v[0];
        const u64* const twice = adx_constants.twice_p;
        const AdxFp correction = {{twice[0] & mask, twice[1] & mask, twice[2] & mask, twice[3] & mask}};
        add(r, correction);
        return r;
    }
    friend AdxFp operator+(const AdxFp& a, const AdxFp& b) {
        AdxFp sum = a;
        add(sum, b);
        return sum.less(adx_constants.twice_p);
    }
    AdxFp operator-() const { return AdxFp{{0, 0, 0, 0}} - *this; }
    AdxFp doubled() const { return *this + *this; }
    AdxFp settled() const { return less(adx_constants.p); }
    AdxFp inverse() const {
        const AdxFp c = settled();
        return from(Fp::from_montgomery_limbs({c.v[0], c.v[1], c.v[2], c.v[3]}).inverse().montgomery_limbs());
    }

  private:
    // a -= b; all ones if that went below zero.
    static u64 difference(AdxFp& a, const u64 (&b)[4]) {
        u64 mask;
        asm("subq %[b0], %[a0]\n\t"
            "sbbq %[b1], %[a1]\n\t"
            "sbbq %[b2], %[a2]\n\t"
            "sbbq %[b3], %[a3]\n\t"
            "sbbq %[mask], %[mask]"
            : [a0] "+&r"(a.v[0]), [a1] "+&r"(a.v[1]), [a2] "+&r"(a.v[2]), [a3] "+&r"(a.v[3]), [mask] "=&r"(mask)
            : [b0] "m"(b[0]), [b1] "m"(b[1]), [b2] "m"(b[2]), [b3] "m"(b[3])
            : "cc");
        return mask;
    }
    static void add(AdxFp& a, const AdxFp& b) {
        asm("addq %[b0], %[a0]\n\t"
            "adcq %[b1], %[a1]\n\t"
            "adcq %[b2], %[a2]\n\t"
            "adcq %[b3], %[a3]"
            : [a0] "+&r"(a.v[0]), [a1] "+&r"(a.v[1]), [a2] "+&r"(a.v[2]), [a3] "+&r"(a.v[3])
            : [b0] "rm"(b.v[0]), [b1] "rm"(b.v[1]), [b2] "rm"(b.v[2]), [b3] "rm"(b.v[3])
            : "cc");
    }
    // Less `bound` where it reaches it.
    AdxFp less(const u64 (&bound)[4]) const {
        AdxFp r = *this;
        const u64 keep = difference(r, bound);
        for (int i = 0; i < 4; ++i) r.v[i] = (v[i] & keep) | (r.v[i] & ~keep);
        return r;
    }
};

}  // namespace

}  // namespace whet
