// exp and sigmoid from multiplications and additions, about 1.5 ULP; an adapter that is off by more than 2 is refused.
// WGSL's own exp may be off by 3 + 2|x| ULP, and drivers use that. 0 below -87, exp(88) above 88.
fn exponential(x: f32) -> f32 {
    let clipped = clamp(x, -87.0, 88.0);
    let n = floor(clipped * 1.44269504 + 0.5);
    let r = (clipped - n * 0.693359375) + n * 2.12194440e-4;
    var p = 1.9875691500e-4;
    p = p * r + 1.3981999507e-3;
    p = p * r + 8.3334519073e-3;
    p = p * r + 4.1665795894e-2;
    p = p * r + 1.6666665459e-1;
    p = p * r + 5.0000001201e-1;
    p = (p * (r * r) + r) + 1.0;
    return select(p * bitcast<f32>(u32(i32(n) + 127) << 23u), 0.0, x < -87.0);
}

fn sigmoid(x: f32) -> f32 { return 1.0 / (1.0 + exponential(-x)); }
