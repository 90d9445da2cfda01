"""Sums on BLS12-381 by py-ecc, as a header for native/tests/test_second_curve.cpp; `--check` compares it."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from py_ecc.optimized_bls12_381 import G1, Z1, add, curve_order, multiply, neg, normalize

HEADER = Path(__file__).parents[1] / "native" / "tests" / "bls12_381_vectors.hpp"
COUNT = 24
SUMS = [1, 2, 3, 8, 9, 20, 24]  # of as many first terms


def limbs(value: int, count: int) -> str:
    words = ", ".join(f"0x{value >> 64 * i & (1 << 64) - 1:016x}" for i in range(count))
    return f"{{{words}}}"


def shown(point: object) -> str:
    x, y = (0, 0) if point[2] == 0 else (int(c) for c in normalize(point))  # infinity as zeros
    return f"{{{limbs(x, 6)},\n     {limbs(y, 6)}}}"


def text() -> str:
    draw = random.Random(12381)
    points = [multiply(G1, draw.randrange(curve_order)) for _ in range(COUNT)]
    scalars = [draw.randrange(curve_order) for _ in range(COUNT)]
    points[0], scalars[0] = G1, 1
    points[4] = points[5] = points[6] = points[3]  # doublings
    scalars[4] = scalars[5] = scalars[3]
    points[10], scalars[10] = neg(points[9]), scalars[9]  # a pair that vanishes
    points[12], scalars[13], scalars[14] = Z1, 0, curve_order - 1
    sums, total = {}, Z1
    for i, (point, scalar) in enumerate(zip(points, scalars, strict=True), 1):
        total = add(total, multiply(point, scalar))
        sums[i] = total
    blocks = [
        ("VectorPoint vector_points", [shown(point) for point in points]),
        ("whet::Limbs<4> vector_scalars", [limbs(scalar, 4) for scalar in scalars]),
        ("std::size_t vector_sizes", [str(size) for size in SUMS]),
        ("VectorPoint vector_sums", [shown(sums[size]) for size in SUMS]),
    ]
    lines = [
        "// Written by tools/write_bls12_381_vectors.py from py-ecc: points, scalars, sums of the first terms.",
        "// Numbers are plain, lowest limb first; infinity is zeros.",
        "#pragma once",
        "",
        '#include "field/limbs.hpp"',
        "",
        "// clang-format off",
        "struct VectorPoint {",
        "    whet::Limbs<6> x, y;",
        "};",
    ]
    for name, rows in blocks:
        lines += [f"inline constexpr {name}[] = {{", *(f"    {row}," for row in rows), "};"]
    return "\n".join([*lines, "// clang-format on", ""])


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if HEADER.read_text() == text() else f"{HEADER.name} is not what py-ecc gives")
    HEADER.write_text(text())
