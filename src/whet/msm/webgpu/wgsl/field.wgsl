// The base field of BN254. A value is eight 32-bit words, canonical, in Montgomery form with R = 2^260.
// What is unrolled stands in generated/, written by tools/field_wgsl.

struct Fe { lo: vec4<u32>, hi: vec4<u32> }
const FE_ZERO = Fe(vec4<u32>(), vec4<u32>());

fn fe_select(no: Fe, yes: Fe, choice: bool) -> Fe {
    return Fe(select(no.lo, yes.lo, choice), select(no.hi, yes.hi, choice));
}
fn fe_is_zero(a: Fe) -> bool {
    let any = a.lo | a.hi;
    return (any.x | any.y | any.z | any.w) == 0u;
}
fn fe_equal(a: Fe, b: Fe) -> bool {
    let any = (a.lo ^ b.lo) | (a.hi ^ b.hi);
    return (any.x | any.y | any.z | any.w) == 0u;
}
fn fe_neg(a: Fe) -> Fe { return fe_sub(FE_ZERO, a); }

//# import generated/carries
