// Complete additions. The denominator of each pair is chosen before the product is formed: dx, else 2y, else one. So no
// pair can make the product zero, and one awkward pair costs its batch nothing.
// Every compiler inlines the multiply, so each call costs time to compile: an addition that shares an inversion has six
// (one of them for the product), and loops around it have one body.

//# import point
//# import multiply
//# import generated/inverse

const ADD = 0u;
const DOUBLE = 1u;
const CANCEL = 2u;
const KEEP_LEFT = 3u;
const KEEP_RIGHT = 4u;
struct Pair { kind: u32, denominator: Fe }

fn pair_of(l: Pt, r: Pt) -> Pair {
    if (is_infinity(r)) { return Pair(KEEP_LEFT, FE_ONE); }
    if (is_infinity(l)) { return Pair(KEEP_RIGHT, FE_ONE); }
    let dx = fe_sub(r.x, l.x);
    if (!fe_is_zero(dx)) { return Pair(ADD, dx); }
    if (fe_equal(l.y, r.y)) { return Pair(DOUBLE, fe_add(l.y, l.y)); }
    return Pair(CANCEL, FE_ONE);
}

//# if inversion == shared
// l + r, given the inverse of the batch's product up to and with this pair (`running`) and the product before it.
// Leaves in `running` the inverse for the pair before. Two multiplications more than with an inversion of its own.
fn peel(l: Pt, r: Pt, pair: Pair, prefix: Fe, running: ptr<function, Fe>) -> Pt {
//# else
// l + r, given the inverse of the pair's denominator. Three multiplications; a doubling has one more.
fn join(l: Pt, r: Pt, pair: Pair, inverse: Fe) -> Pt {
//# end
    if (pair.kind == CANCEL) { return INFINITY; }
    if (pair.kind == KEEP_LEFT) { return l; }
    if (pair.kind == KEEP_RIGHT) { return r; }
    //# if inversion == shared
    let inverse = fe_mul(*running, prefix);
    *running = fe_mul(*running, pair.denominator);
    //# end
    var slope = fe_sub(r.y, l.y);
    if (pair.kind == DOUBLE) {
        let m = fe_mul(l.x, l.x);
        slope = fe_add(fe_add(m, m), m);
    }
    slope = fe_mul(slope, inverse);
    let x = fe_sub(fe_sub(fe_mul(slope, slope), l.x), r.x);
    return Pt(x, fe_sub(fe_mul(slope, fe_sub(l.x, x)), l.y));
}
