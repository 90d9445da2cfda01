// Two points to be added. The denominator is chosen before any product is formed: dx, else 2y, else one. So no pair can
// make a product zero, and one awkward pair costs its batch nothing.

//# import point

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
