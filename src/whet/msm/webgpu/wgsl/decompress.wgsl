// y of points of which x and a sign are here: the root of x^3 + 3 that is odd or even as its sign says; a thread each.
// Against y that stays: 32 bytes and a bit per point instead of 64, for 313 multiplications per point and sum.
// Each call of the multiply costs time to compile, so there are three, in loops; the long one changes one value alone,
// for what changes in a loop is copied lane by lane by some drivers. Infinity is x = 0, for 3 is no square.
// Presses on: arithmetic. An x without a root is counted.

//# import params
//# import tally
//# import multiply
//# import generated/root

@group(0) @binding(1) var<storage, read> points_x: array<Fe>;
@group(0) @binding(2) var<storage, read> signs: array<u32>;
@group(0) @binding(3) var<storage, read_write> points_y: array<Fe>;
@group(0) @binding(4) var<storage, read_write> tally: array<atomic<u32>>;

const PLAIN_ONE = Fe(vec4<u32>(1u, 0u, 0u, 0u), vec4<u32>());

// Bit `index` of all signs. Constant shifts only: some drivers miscompile others.
fn is_odd(index: u32) -> bool {
    var word = signs[index / 32u];
    if ((index & 16u) != 0u) { word >>= 16u; }
    if ((index & 8u) != 0u) { word >>= 8u; }
    if ((index & 4u) != 0u) { word >>= 4u; }
    if ((index & 2u) != 0u) { word >>= 2u; }
    if ((index & 1u) != 0u) { word >>= 1u; }
    return (word & 1u) != 0u;
}

@compute @workgroup_size(${roots}) fn decompress(@builtin(global_invocation_id) id: vec3<u32>) {
    let place = params.stride + id.x;
    if (place >= params.points) { return; }
    let index = params.offset + place;
    let x = points_x[index];
    var value = x;
    var cubic = FE_ZERO;  // x^3 + 3, then its square and three more of its powers
    var square = FE_ZERO;
    var third = FE_ZERO;
    var fifth = FE_ZERO;
    var seventh = FE_ZERO;
    var step = 0u;
    loop {
        var factor = value;
        if (step == 1u) { factor = x; }
        if (step == 3u) { factor = cubic; }
        if (step > 3u) { factor = square; }
        value = fe_mul(value, factor);
        if (step == 1u) { value = fe_add(value, CURVE_B); cubic = value; }
        if (step == 2u) { square = value; }
        if (step == 3u) { third = value; }
        if (step == 4u) { fifth = value; }
        if (step == 5u) { seventh = value; }
        continuing {
            step++;
            break if step == 6u;
        }
    }
    // What the value is multiplied with, three bits a step: itself, or an odd power. The first window is 3.
    value = third;
    var steps = 0u;
    step = 0u;
    loop {
        if (step % ROOT_STEPS_PER_WORD == 0u) { steps = root_steps(step / ROOT_STEPS_PER_WORD); }
        var factor = value;
        if ((steps & 1u) != 0u) {
            let low = fe_select(cubic, third, (steps & 2u) != 0u);
            let high = fe_select(fifth, seventh, (steps & 2u) != 0u);
            factor = fe_select(low, high, (steps & 4u) != 0u);
        }
        value = fe_mul(value, factor);
        steps >>= 3u;
        continuing {
            step++;
            break if step == ROOT_STEPS;
        }
    }
    // Its square shows whether it is a root, and times a plain one it is a plain number, which is odd or even.
    var squared = FE_ZERO;
    var plain = FE_ZERO;
    step = 0u;
    loop {
        squared = plain;
        plain = fe_mul(value, fe_select(value, PLAIN_ONE, step == 1u));
        continuing {
            step++;
            break if step == 2u;
        }
    }
    if (is_odd(index) != ((plain.lo.x & 1u) != 0u)) { value = fe_neg(value); }
    let infinite = fe_is_zero(x);
    points_y[place] = fe_select(value, FE_ZERO, infinite);
    if (!fe_equal(squared, cubic) && !infinite) { atomicAdd(&tally[COUNT_ROOTLESS], 1u); }
}
