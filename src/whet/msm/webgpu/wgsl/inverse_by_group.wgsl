// 1 < g < tpb: the first thread of each group inverts the product of the group.

//# import vote

var<workgroup> factors: array<Fe, TPB>;
var<workgroup> products: array<Fe, TPB>;
// Threads without an addition bring one as their factor, so the product of a group is never zero.
fn inverse_of(denominator: Fe, lane: u32, lonely: bool) -> Fe {
    factors[lane] = denominator;
    workgroupBarrier();
    if (lane % GROUP == 0u) {
        var product = FE_ONE;
        for (var i = lane; i < lane + GROUP; i++) {
            products[i] = product;
            product = fe_mul(product, factors[i]);
        }
        var running = fe_inv(product);
        for (var i = lane + GROUP; i > lane;) {
            i--;
            let own = factors[i];
            for (var part = 0u; part < 2u; part++) {
                let m = fe_mul(running, fe_select(products[i], own, part == 1u));
                if (part == 0u) { factors[i] = m; } else { running = m; }
            }
        }
    }
    workgroupBarrier();
    return factors[lane];
}
