"""Modular inversion by division steps (Bernstein and Yang) as WGSL.

Fourteen steps are decided on the low bits and then applied at once to four long numbers of nineteen signed 14-bit
limbs: every product and sum fits an i32. The half-delta start needs at most 590 steps for 256 bits, so 43 batches end
it whatever the value; most values end earlier. The result is in Montgomery form because e starts at R^2.
Zero gives zero.
"""

from __future__ import annotations

from field import R_BITS, P, construct, limb, pack

BITS = 14
LIMBS = 19
BATCHES = 43
MASK = (1 << BITS) - 1


def _constant(value: int, out: str) -> list[str]:
    return [f"var {out}{i} = {value >> BITS * i & MASK};" for i in range(LIMBS)]


def _apply(first: str, second: str, modulus: list[int] | None) -> list[str]:
    """(first, second) := (u first + v second, q first + r second) / 2^14, made whole by a multiple of p if given."""
    lines = []
    if modulus is not None:
        inverse = pow(P, -1, 1 << BITS)
        top = LIMBS - 1
        lines += [f"var m1 = select(0, u, {first}{top} < 0) + select(0, v, {second}{top} < 0);"]
        lines += [f"var m2 = select(0, q, {first}{top} < 0) + select(0, r, {second}{top} < 0);"]
        lines += [f"m1 -= ({inverse} * ((u * {first}0 + v * {second}0) & {MASK}) + m1) & {MASK};"]
        lines += [f"m2 -= ({inverse} * ((q * {first}0 + r * {second}0) & {MASK}) + m2) & {MASK};"]
    lines += ["var c1 = 0;", "var c2 = 0;"]
    for i in range(LIMBS):
        extra1 = f" + {modulus[i]} * m1" if modulus is not None and modulus[i] else ""
        extra2 = f" + {modulus[i]} * m2" if modulus is not None and modulus[i] else ""
        lines.append(f"c1 += u * {first}{i} + v * {second}{i}{extra1};")
        lines.append(f"c2 += q * {first}{i} + r * {second}{i}{extra2};")
        if i > 0:
            lines.append(f"{first}{i - 1} = c1 & {MASK}; {second}{i - 1} = c2 & {MASK};")
        lines.append(f"c1 >>= {BITS}u; c2 >>= {BITS}u;")
    lines.append(f"{first}{LIMBS - 1} = c1; {second}{LIMBS - 1} = c2;")
    return lines


def _carry(name: str) -> list[str]:
    lines = []
    for i in range(LIMBS - 1):
        lines.append(f"{name}{i + 1} += {name}{i} >> {BITS}u; {name}{i} &= {MASK};")
    return lines


def inverse() -> str:
    """The inverse of a value, both in Montgomery form."""
    modulus = [P >> BITS * i & MASK for i in range(LIMBS)]
    everything = " | ".join(f"g{i}" for i in range(LIMBS))
    start = "\n    ".join(
        [
            *_constant(P, "f"),
            *(f"var g{i} = i32({limb('a', i, BITS)});" for i in range(LIMBS)),
            *_constant(0, "d"),
            *_constant((1 << 2 * R_BITS) % P, "e"),
        ]
    )
    on_fg = "\n            ".join(_apply("f", "g", None))
    on_de = "\n            ".join(_apply("d", "e", modulus))
    add_p = " ".join(f"d{i} += select(0, {modulus[i]}, low);" for i in range(LIMBS))
    negate = " ".join(f"d{i} = select(d{i}, -d{i}, flip);" for i in range(LIMBS))
    carry = " ".join(_carry("d"))
    top = LIMBS - 1
    packed = construct(pack([f"u32(d{i})" for i in range(LIMBS)], BITS))
    return f"""fn fe_inv(a: Fe) -> Fe {{
    {start}
    var zeta = -1;
    var batch = 0;
    loop {{
        var u = 1; var v = 0; var q = 0; var r = 1;
        var fl = f0 | (f1 << {BITS}u);
        var gl = g0 | (g1 << {BITS}u);
        for (var step = 0; step < {BITS}; step++) {{
            let swap = zeta >> 31u;
            let odd = -(gl & 1);
            gl += ((fl ^ swap) - swap) & odd;
            q += ((u ^ swap) - swap) & odd;
            r += ((v ^ swap) - swap) & odd;
            let both = swap & odd;
            zeta = (zeta ^ both) - 1;
            fl += gl & both;
            u += q & both;
            v += r & both;
            gl >>= 1u;
            u <<= 1u;
            v <<= 1u;
        }}
        {{
            {on_fg}
        }}
        {{
            {on_de}
        }}
        continuing {{
            batch++;
            break if batch == {BATCHES} || ({everything}) == 0;
        }}
    }}
    // d lies in (-2p, p); f is 1 or -1 and gives the sign.
    var low = d{top} < 0;
    {add_p}
    {carry}
    let flip = f{top} < 0;
    {negate}
    {carry}
    low = d{top} < 0;
    {add_p}
    {carry}
    return {packed};
}}
"""
