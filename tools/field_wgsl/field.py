"""BN254 base-field arithmetic as WGSL, fully unrolled: loops over limb arrays cost three to five times as much.

A value is eight 32-bit words (`Fe`), canonical, in Montgomery form with R = 2^260. The portable multiply cuts it into
twenty 13-bit limbs: 40 products of 26 bits and the carries fit one u32 accumulator, so no carry moves until the end.
Where the adapter has 64-bit integers an 8 x 32 multiply with the same R does half the work per product.
"""

from __future__ import annotations

from collections.abc import Sequence

P = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
R_BITS = 260
LIMB_BITS = 13
LIMBS = 20
WORDS = 8
MASK = (1 << LIMB_BITS) - 1


def words(value: int) -> list[int]:
    """The eight 32-bit words of a value, lowest first."""
    return [value >> 32 * i & 0xFFFFFFFF for i in range(WORDS)]


def literal(value: int) -> str:
    """A value as a WGSL constructor."""
    low, high = (", ".join(f"0x{word:x}u" for word in half) for half in (words(value)[:4], words(value)[4:]))
    return f"Fe(vec4<u32>({low}), vec4<u32>({high}))"


def word(name: str, index: int) -> str:
    """The WGSL of one 32-bit word of a value."""
    return f"{name}.{'lo' if index < 4 else 'hi'}.{'xyzw'[index % 4]}"


def limb(name: str, index: int, bits: int) -> str:
    """`bits` bits of a packed value from position `bits * index` on, by constant shifts; zero beyond the top."""
    first, shift = divmod(bits * index, 32)
    if first >= WORDS:
        return "0u"
    low = f"({word(name, first)} >> {shift}u)" if shift else word(name, first)
    if shift + bits > 32 and first + 1 < WORDS:
        low = f"({low} | ({word(name, first + 1)} << {32 - shift}u))"
    return f"({low} & {(1 << bits) - 1}u)"


def pack(limbs: Sequence[str], bits: int) -> list[str]:
    """Eight words from clean limbs of `bits` bits, given as u32 expressions."""
    packed = []
    for place in range(WORDS):
        parts = []
        for index, expression in enumerate(limbs):
            shift = bits * index - 32 * place
            if 0 <= shift < 32:
                parts.append(f"({expression} << {shift}u)" if shift else expression)
            elif -bits < shift < 0:
                parts.append(f"({expression} >> {-shift}u)")
        packed.append(" | ".join(parts))
    return packed


def construct(parts: list[str]) -> str:
    """The WGSL of a value made of eight words."""
    return f"Fe(vec4<u32>({', '.join(parts[:4])}), vec4<u32>({', '.join(parts[4:])}))"


def multiply_portable() -> str:
    """a b / R mod p with 32-bit integers only."""
    inverse = -pow(P, -1, 1 << LIMB_BITS) & MASK
    modulus = [P >> LIMB_BITS * i & MASK for i in range(LIMBS)]
    lines = [f"let b{j} = {limb('b', j, LIMB_BITS)};" for j in range(LIMBS)]
    lines += [f"var t{j} = 0u;" for j in range(LIMBS)]
    lines.append("var a_i = 0u;\n    var m = 0u;")
    for i in range(LIMBS):
        lines.append(f"a_i = {limb('a', i, LIMB_BITS)};")
        lines += [f"t{j} += a_i * b{j};" for j in range(LIMBS)]
        lines.append(f"m = (t0 * {inverse}u) & {MASK}u;")
        lines.append(f"t0 = (t0 + m * {modulus[0]}u) >> {LIMB_BITS}u;")
        lines.append(f"t0 = t0 + t1 + m * {modulus[1]}u;")
        lines += [f"t{j - 1} = t{j} + m * {modulus[j]}u;" for j in range(2, LIMBS)]
        lines.append(f"t{LIMBS - 1} = 0u;")
    for j in range(LIMBS - 1):
        lines.append(f"t{j + 1} += t{j} >> {LIMB_BITS}u;\n    t{j} &= {MASK}u;")
    body = "\n    ".join(lines)
    packed = construct(pack([f"t{j}" for j in range(LIMBS)], LIMB_BITS))
    return f"fn fe_mul(a: Fe, b: Fe) -> Fe {{\n    {body}\n    return fe_reduce({packed});\n}}\n"


def multiply_wide() -> str:
    """The same product with 64-bit integers: eight 32-bit rows, then four more reduction bits to reach R = 2^260."""
    inverse = -pow(P, -1, 1 << 32) & 0xFFFFFFFF
    modulus = words(P)
    lines = [f"let b{j} = u64({word('b', j)});" for j in range(WORDS)]
    lines += [f"var t{j} = 0lu;" for j in range(WORDS + 1)]
    lines.append("var c = 0lu;\n    var a_i = 0lu;\n    var m = 0lu;")
    for i in range(WORDS):
        lines.append(f"a_i = u64({word('a', i)});\n    c = 0lu;")
        for j in range(WORDS):
            lines.append(f"c += t{j} + a_i * b{j}; t{j} = c & 0xfffffffflu; c >>= 32u;")
        lines.append(f"t{WORDS} = c;")
        lines.append(f"m = (t0 * {inverse}lu) & 0xfffffffflu;\n    c = (t0 + m * {modulus[0]}lu) >> 32u;")
        for j in range(1, WORDS):
            lines.append(f"c += t{j} + m * {modulus[j]}lu; t{j - 1} = c & 0xfffffffflu; c >>= 32u;")
        lines.append(f"t{WORDS - 1} = t{WORDS} + c;")
    four = -pow(P, -1, 16) & 15
    lines.append(f"m = (t0 * {four}lu) & 15lu;\n    c = 0lu;")
    for j in range(WORDS):
        lines.append(f"c += t{j} + m * {modulus[j]}lu; t{j} = c & 0xfffffffflu; c >>= 32u;")
    parts = [f"u32((t{j} >> 4u) | ((t{j + 1} << 28u) & 0xfffffffflu))" for j in range(WORDS - 1)]
    parts.append("u32((t7 >> 4u) | ((c << 28u) & 0xfffffffflu))")
    body = "\n    ".join(lines)
    return f"fn fe_mul(a: Fe, b: Fe) -> Fe {{\n    {body}\n    return fe_reduce({construct(parts)});\n}}\n"


def _chain(op: str, left: list[str], right: list[str], out: str) -> list[str]:
    """Unrolled add or subtract with carry over eight words; leaves words in `out`0.. and the carry in `out`_c.

    The carry is bit 31 of a function of three words: one instruction where there are three-way bit operations, and less
    than comparisons cost where there are none.
    """
    lines = [f"var {out}_c = 0u;"]
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        d = f"{out}{i}"
        carry = f"({a} & {b}) | (({a} | {b}) & ~{d})" if op == "+" else f"(~{a} & {b}) | (~({a} ^ {b}) & {d})"
        lines.append(f"let {d} = {a} {op} {b} {op} {out}_c; {out}_c = ({carry}) >> 31u;")
    return lines


def carries() -> str:
    """What moves carries through eight words: reduce, add, subtract; all canonical in, canonical out."""
    modulus = [f"0x{word:x}u" for word in words(P)]
    a = [word("a", i) for i in range(WORDS)]
    b = [word("b", i) for i in range(WORDS)]
    reduce_body = "\n    ".join(_chain("-", a, modulus, "d"))
    add_body = "\n    ".join(_chain("+", a, b, "s"))
    sub_body = "\n    ".join(_chain("-", a, b, "d"))
    fix_body = "\n    ".join(_chain("+", [f"d{i}" for i in range(WORDS)], modulus, "f"))
    difference = construct([f"d{i}" for i in range(WORDS)])
    fixed = construct([f"f{i}" for i in range(WORDS)])
    total = construct([f"s{i}" for i in range(WORDS)])
    return f"""const FE_ONE = {literal((1 << R_BITS) % P)};

// From [0, 2p) to [0, p).
fn fe_reduce(a: Fe) -> Fe {{
    {reduce_body}
    return fe_select({difference}, a, d_c == 1u);
}}
fn fe_add(a: Fe, b: Fe) -> Fe {{
    {add_body}
    return fe_reduce({total});
}}
fn fe_sub(a: Fe, b: Fe) -> Fe {{
    {sub_body}
    {fix_body}
    return fe_select({difference}, {fixed}, d_c == 1u);
}}
"""
