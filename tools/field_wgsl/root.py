"""The steps of a square root as WGSL: y = a^((p + 1) / 4), for p is 3 modulo 4.

Windows of up to three bits slide over the exponent: 250 squarings and 55 products with a, a^3, a^5 or a^7. The kernel
multiplies in one place, in a loop, so these steps are data: what the value is multiplied with, three bits each.
"""

from __future__ import annotations

from field import R_BITS, P, literal

WINDOW = 3
PER_WORD = 10
EXPONENT = (P + 1) // 4
ITSELF = 0  # a squaring; an odd number is the power that the value is multiplied with


def windows(exponent: int) -> list[int]:
    """The steps from one to a power with that exponent."""
    bits, steps, at = f"{exponent:b}", [], 0
    while at < len(bits):
        if bits[at] == "0":
            steps.append(ITSELF)
            at += 1
            continue
        end = at + len(bits[at : at + WINDOW].rstrip("0"))
        steps += [ITSELF] * (end - at) + [int(bits[at:end], 2)]
        at = end
    return steps


def root() -> str:
    """The constants of a root, and its steps ten to a word."""
    whole = windows(EXPONENT)
    first = next(at for at, step in enumerate(whole) if step != ITSELF)
    assert whole[first] == 3, "the kernel begins with a^3"
    steps = whole[first + 1 :]
    lines = []
    for number in range(-(-len(steps) // PER_WORD)):
        word = sum(step << 3 * i for i, step in enumerate(steps[PER_WORD * number : PER_WORD * (number + 1)]))
        lines.append(f"case {number}u: {{ return 0x{word:x}u; }}")
    cases = "\n        ".join(lines)
    return f"""const CURVE_B = {literal(3 * (1 << R_BITS) % P)};
const ROOT_STEPS = {len(steps)}u;
const ROOT_STEPS_PER_WORD = {PER_WORD}u;

fn root_steps(word: u32) -> u32 {{
    switch word {{
        {cases}
        default: {{ return 0u; }}
    }}
}}
"""
