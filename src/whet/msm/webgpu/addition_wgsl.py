"""Complete additions with a shared inversion, as WGSL.

The denominator of each pair is chosen before the product is formed: dx, else 2y, else one. So no pair can make the
product zero, and one awkward pair costs its batch nothing. Infinity is (0, 0); no point of the curve has y = 0.
Every compiler inlines the multiply, so each call costs time to compile: an addition has six, and loops around it have
one body.
"""

from __future__ import annotations

from whet.msm.webgpu.field_wgsl import field_source, simple_operations
from whet.msm.webgpu.inverse_wgsl import inverse_source

POINT = """
struct Pt { x: Fe, y: Fe }
const INFINITY = Pt(FE_ZERO, FE_ZERO);
fn is_infinity(p: Pt) -> bool { return fe_is_zero(p.y); }
"""

LOAD = """
fn load_point(handle: u32) -> Pt {
    let index = handle & 0x7fffffffu;
    let row = select(index, index - params.resident, index >= params.resident);
    var p = Pt(points_x[index], points_y[row]);
    if (handle >= 0x80000000u) { p.y = fe_neg(p.y); }
    return p;
}
"""

PAIR = """
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
"""

_JOIN = """
{comment}
fn {name}(l: Pt, r: Pt, pair: Pair, {arguments}) -> Pt {{
    if (pair.kind == CANCEL) {{ return INFINITY; }}
    if (pair.kind == KEEP_LEFT) {{ return l; }}
    if (pair.kind == KEEP_RIGHT) {{ return r; }}
    {inverse}
    var slope = fe_sub(r.y, l.y);
    if (pair.kind == DOUBLE) {{
        let m = fe_mul(l.x, l.x);
        slope = fe_add(fe_add(m, m), m);
    }}
    slope = fe_mul(slope, inverse);
    let x = fe_sub(fe_sub(fe_mul(slope, slope), l.x), r.x);
    return Pt(x, fe_sub(fe_mul(slope, fe_sub(l.x, x)), l.y));
}}
"""

JOIN = _JOIN.format(
    comment="// l + r, given the inverse of the pair's denominator. Three multiplications; a doubling has one more.",
    name="join",
    arguments="inverse: Fe",
    inverse="",
)
PEEL = _JOIN.format(
    comment="// l + r, given the inverse of the batch's product up to and with this pair (`running`) and the product\n"
    "// before it. Leaves in `running` the inverse for the pair before. Two multiplications more than `join`.",
    name="peel",
    arguments="prefix: Fe, running: ptr<function, Fe>",
    inverse="let inverse = fe_mul(*running, prefix);\n    *running = fe_mul(*running, pair.denominator);",
)


def addition_source(*, wide: bool, load: bool = False, shared: bool = True) -> str:
    """Field, inversion, and additions that share one (`peel`) or not (`join`); with `load` handles become points."""
    parts = [field_source(wide=wide), inverse_source(), POINT, PAIR, PEEL if shared else JOIN]
    return "".join([*parts, LOAD] if load else parts)


def point_source(*, load: bool = False) -> str:
    """Points without multiplication: for kernels that only move them."""
    return "".join([simple_operations(), POINT, LOAD] if load else [simple_operations(), POINT])
