// g = tpb: prefix and suffix products by doubling steps, so one inversion serves the workgroup and no thread works
// alone but for that inversion.

//# import vote

var<workgroup> before: array<Fe, TPB>;
var<workgroup> after: array<Fe, TPB>;
var<workgroup> all_inverse: Fe;
// before[i] becomes the product of the factors 0 to i, after[i] that of the factors i to the last.
fn inverse_of(denominator: Fe, lane: u32, lonely: bool) -> Fe {
    before[lane] = denominator;
    after[lane] = denominator;
    workgroupBarrier();
    for (var reach = 1u; reach < TPB; reach *= 2u) {
        var low = FE_ONE;
        var high = FE_ONE;
        if (lane >= reach) { low = before[lane - reach]; }
        if (lane + reach < TPB) { high = after[lane + reach]; }
        workgroupBarrier();
        for (var part = 0u; part < 2u; part++) {
            let m = fe_mul(fe_select(after[lane], before[lane], part == 0u), fe_select(high, low, part == 0u));
            if (part == 0u) { before[lane] = m; } else { after[lane] = m; }
        }
        workgroupBarrier();
    }
    if (lane == 0u) { all_inverse = fe_inv(before[TPB - 1u]); }
    workgroupBarrier();
    var inverse = all_inverse;
    for (var part = 0u; part < 2u; part++) {
        var other = FE_ONE;
        if (part == 0u && lane > 0u) { other = before[lane - 1u]; }
        if (part == 1u && lane + 1u < TPB) { other = after[lane + 1u]; }
        inverse = fe_mul(inverse, other);
    }
    // The arrays are written again in the next round, before its first barrier.
    workgroupBarrier();
    return inverse;
}
