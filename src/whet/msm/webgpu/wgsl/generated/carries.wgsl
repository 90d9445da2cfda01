// Written by tools/field_wgsl; change it there. Reduction, addition and subtraction, unrolled over eight words.

const FE_ONE = Fe(vec4<u32>(0xf6fce4b4u, 0x45520880u, 0xbaa989a8u, 0x49890849u), vec4<u32>(0x818f014au, 0x85a9201du, 0x1bb7724fu, 0x1f16424eu));

// From [0, 2p) to [0, p).
fn fe_reduce(a: Fe) -> Fe {
    var d_c = 0u;
    let d0 = a.lo.x - 0xd87cfd47u - d_c; d_c = ((~a.lo.x & 0xd87cfd47u) | (~(a.lo.x ^ 0xd87cfd47u) & d0)) >> 31u;
    let d1 = a.lo.y - 0x3c208c16u - d_c; d_c = ((~a.lo.y & 0x3c208c16u) | (~(a.lo.y ^ 0x3c208c16u) & d1)) >> 31u;
    let d2 = a.lo.z - 0x6871ca8du - d_c; d_c = ((~a.lo.z & 0x6871ca8du) | (~(a.lo.z ^ 0x6871ca8du) & d2)) >> 31u;
    let d3 = a.lo.w - 0x97816a91u - d_c; d_c = ((~a.lo.w & 0x97816a91u) | (~(a.lo.w ^ 0x97816a91u) & d3)) >> 31u;
    let d4 = a.hi.x - 0x8181585du - d_c; d_c = ((~a.hi.x & 0x8181585du) | (~(a.hi.x ^ 0x8181585du) & d4)) >> 31u;
    let d5 = a.hi.y - 0xb85045b6u - d_c; d_c = ((~a.hi.y & 0xb85045b6u) | (~(a.hi.y ^ 0xb85045b6u) & d5)) >> 31u;
    let d6 = a.hi.z - 0xe131a029u - d_c; d_c = ((~a.hi.z & 0xe131a029u) | (~(a.hi.z ^ 0xe131a029u) & d6)) >> 31u;
    let d7 = a.hi.w - 0x30644e72u - d_c; d_c = ((~a.hi.w & 0x30644e72u) | (~(a.hi.w ^ 0x30644e72u) & d7)) >> 31u;
    return fe_select(Fe(vec4<u32>(d0, d1, d2, d3), vec4<u32>(d4, d5, d6, d7)), a, d_c == 1u);
}
fn fe_add(a: Fe, b: Fe) -> Fe {
    var s_c = 0u;
    let s0 = a.lo.x + b.lo.x + s_c; s_c = ((a.lo.x & b.lo.x) | ((a.lo.x | b.lo.x) & ~s0)) >> 31u;
    let s1 = a.lo.y + b.lo.y + s_c; s_c = ((a.lo.y & b.lo.y) | ((a.lo.y | b.lo.y) & ~s1)) >> 31u;
    let s2 = a.lo.z + b.lo.z + s_c; s_c = ((a.lo.z & b.lo.z) | ((a.lo.z | b.lo.z) & ~s2)) >> 31u;
    let s3 = a.lo.w + b.lo.w + s_c; s_c = ((a.lo.w & b.lo.w) | ((a.lo.w | b.lo.w) & ~s3)) >> 31u;
    let s4 = a.hi.x + b.hi.x + s_c; s_c = ((a.hi.x & b.hi.x) | ((a.hi.x | b.hi.x) & ~s4)) >> 31u;
    let s5 = a.hi.y + b.hi.y + s_c; s_c = ((a.hi.y & b.hi.y) | ((a.hi.y | b.hi.y) & ~s5)) >> 31u;
    let s6 = a.hi.z + b.hi.z + s_c; s_c = ((a.hi.z & b.hi.z) | ((a.hi.z | b.hi.z) & ~s6)) >> 31u;
    let s7 = a.hi.w + b.hi.w + s_c; s_c = ((a.hi.w & b.hi.w) | ((a.hi.w | b.hi.w) & ~s7)) >> 31u;
    return fe_reduce(Fe(vec4<u32>(s0, s1, s2, s3), vec4<u32>(s4, s5, s6, s7)));
}
fn fe_sub(a: Fe, b: Fe) -> Fe {
    var d_c = 0u;
    let d0 = a.lo.x - b.lo.x - d_c; d_c = ((~a.lo.x & b.lo.x) | (~(a.lo.x ^ b.lo.x) & d0)) >> 31u;
    let d1 = a.lo.y - b.lo.y - d_c; d_c = ((~a.lo.y & b.lo.y) | (~(a.lo.y ^ b.lo.y) & d1)) >> 31u;
    let d2 = a.lo.z - b.lo.z - d_c; d_c = ((~a.lo.z & b.lo.z) | (~(a.lo.z ^ b.lo.z) & d2)) >> 31u;
    let d3 = a.lo.w - b.lo.w - d_c; d_c = ((~a.lo.w & b.lo.w) | (~(a.lo.w ^ b.lo.w) & d3)) >> 31u;
    let d4 = a.hi.x - b.hi.x - d_c; d_c = ((~a.hi.x & b.hi.x) | (~(a.hi.x ^ b.hi.x) & d4)) >> 31u;
    let d5 = a.hi.y - b.hi.y - d_c; d_c = ((~a.hi.y & b.hi.y) | (~(a.hi.y ^ b.hi.y) & d5)) >> 31u;
    let d6 = a.hi.z - b.hi.z - d_c; d_c = ((~a.hi.z & b.hi.z) | (~(a.hi.z ^ b.hi.z) & d6)) >> 31u;
    let d7 = a.hi.w - b.hi.w - d_c; d_c = ((~a.hi.w & b.hi.w) | (~(a.hi.w ^ b.hi.w) & d7)) >> 31u;
    var f_c = 0u;
    let f0 = d0 + 0xd87cfd47u + f_c; f_c = ((d0 & 0xd87cfd47u) | ((d0 | 0xd87cfd47u) & ~f0)) >> 31u;
    let f1 = d1 + 0x3c208c16u + f_c; f_c = ((d1 & 0x3c208c16u) | ((d1 | 0x3c208c16u) & ~f1)) >> 31u;
    let f2 = d2 + 0x6871ca8du + f_c; f_c = ((d2 & 0x6871ca8du) | ((d2 | 0x6871ca8du) & ~f2)) >> 31u;
    let f3 = d3 + 0x97816a91u + f_c; f_c = ((d3 & 0x97816a91u) | ((d3 | 0x97816a91u) & ~f3)) >> 31u;
    let f4 = d4 + 0x8181585du + f_c; f_c = ((d4 & 0x8181585du) | ((d4 | 0x8181585du) & ~f4)) >> 31u;
    let f5 = d5 + 0xb85045b6u + f_c; f_c = ((d5 & 0xb85045b6u) | ((d5 | 0xb85045b6u) & ~f5)) >> 31u;
    let f6 = d6 + 0xe131a029u + f_c; f_c = ((d6 & 0xe131a029u) | ((d6 | 0xe131a029u) & ~f6)) >> 31u;
    let f7 = d7 + 0x30644e72u + f_c; f_c = ((d7 & 0x30644e72u) | ((d7 | 0x30644e72u) & ~f7)) >> 31u;
    return fe_select(Fe(vec4<u32>(d0, d1, d2, d3), vec4<u32>(d4, d5, d6, d7)), Fe(vec4<u32>(f0, f1, f2, f3), vec4<u32>(f4, f5, f6, f7)), d_c == 1u);
}
