"""Two functions in one call: python examples/ten_lines.py"""

from fractions import Fraction

import whet


def powers(x):
    return 5 - 4 * x + 3 * x**2 - 2 * x**3


def horner(x):
    return 5 + x * (-4 + x * (3 - 2 * x))


def exact(x):
    return [float(5 - 4 * v + 3 * v**2 - 2 * v**3) for v in map(Fraction, x)]


print(whet.ab(powers, horner, inputs=lambda n, rng: rng.normal(size=n), oracle=exact, sizes={"n": [1, 7, 2**14]}))
