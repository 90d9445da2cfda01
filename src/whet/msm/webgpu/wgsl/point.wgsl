// Affine points. Infinity is (0, 0); no point of the curve has y = 0.

//# import field

struct Pt { x: Fe, y: Fe }
const INFINITY = Pt(FE_ZERO, FE_ZERO);
fn is_infinity(p: Pt) -> bool { return fe_is_zero(p.y); }
