// Complete additions of pairs, given an inverse.
// Every compiler inlines the multiply, so each call costs time to compile: an addition that shares an inversion has six
// (one of them for the product), and loops around it have one body.

//# import pair
//# import multiply

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
