"""Two independent answers. Neither touches the native core: only Python integers (gmpy2's where installed) and py-ecc.

`known_multiples` needs points k_i G whose k_i are known, and then costs one scalar multiplication whatever n is.
`naive_sum` takes any points and adds them up one by one with py-ecc.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from whet.errors import Unsupported
from whet.msm.point import P, Point, R

Coordinates = tuple[Any, Any, Any]  # Jacobian (x, y, z); z = 0 is infinity
INFINITY: Coordinates = (1, 1, 0)


@cache
def _integer() -> Any:
    """gmpy2's integers where installed: five times as fast, and one more implementation."""
    try:
        from gmpy2 import mpz
    except ImportError:
        return int
    return mpz


def _double(point: Coordinates) -> Coordinates:
    x, y, z = point
    if z == 0:
        return INFINITY
    s = 4 * x * y * y % P
    m = 3 * x * x % P
    x3 = (m * m - 2 * s) % P
    return x3, (m * (s - x3) - 8 * y**4) % P, 2 * y * z % P


def _add(a: Coordinates, b: Coordinates) -> Coordinates:
    if a[2] == 0:
        return b
    if b[2] == 0:
        return a
    z1, z2 = a[2] * a[2] % P, b[2] * b[2] % P
    u1, u2 = a[0] * z2 % P, b[0] * z1 % P
    s1, s2 = a[1] * z2 * b[2] % P, b[1] * z1 * a[2] % P
    if u1 == u2:
        return _double(a) if s1 == s2 else INFINITY
    h, r = u2 - u1, s2 - s1
    h2 = h * h % P
    h3, v = h * h2 % P, u1 * h2 % P
    x3 = (r * r - h3 - 2 * v) % P
    return x3, (r * (v - x3) - s1 * h3) % P, h * a[2] * b[2] % P


@cache
def _nibbles() -> list[list[Coordinates]]:
    """Row w has 0 to 15 times 16^w G: made once, in a few milliseconds, by additions alone."""
    integer = _integer()
    base: Coordinates = (integer(1), integer(2), integer(1))
    rows = []
    for _ in range(64):
        row = [INFINITY]
        for _ in range(15):
            row.append(_add(row[-1], base))
        rows.append(row)
        base = _add(row[-1], base)
    return rows


def multiple_of_generator(k: int) -> Point:
    """k G as one addition per hexadecimal digit of k."""
    k %= R
    total = INFINITY
    for row in _nibbles():
        total = _add(total, row[k & 15])
        k >>= 4
    x, y, z = total
    if z == 0:
        return Point.infinity()
    inverse = pow(z, -1, P)
    return Point(int(x * inverse**2 % P), int(y * inverse**3 % P))


def known_multiples(logs: Iterable[int], scalars: Iterable[int]) -> Point:
    """sum s_i (k_i G) as (sum s_i k_i mod r) G."""
    integer = _integer()
    total = sum((integer(s) * k for s, k in zip(scalars, logs, strict=True)), start=integer(0))
    return multiple_of_generator(int(total % R))


def naive_sum(points: Sequence[tuple[int, int] | None], scalars: Sequence[int]) -> Point:
    """sum s_i P_i with py-ecc, point by point: some 10 ms each. None and (0, 0) are infinity."""
    try:
        from py_ecc.fields import optimized_bn128_FQ as FQ
        from py_ecc.optimized_bn128.optimized_curve import Z1, add, multiply, normalize
    except ImportError:
        raise Unsupported("the naive oracle needs py-ecc", cure="pip install 'whet[test]'") from None
    total = Z1
    for point, scalar in zip(points, scalars, strict=True):
        if point is None or point == (0, 0):
            continue
        total = add(total, multiply((FQ(point[0]), FQ(point[1]), FQ.one()), scalar % R))
    if total[2] == FQ.zero():
        return Point.infinity()
    x, y = normalize(total)
    return Point(int(x), int(y))
