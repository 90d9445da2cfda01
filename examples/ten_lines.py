"""Two functions in one call: python examples/ten_lines.py"""

from math import fsum

import whet


def powers(x):
    return 5 - 4 * x + 3 * x**2 - 2 * x**3


def horner(x):
    return 5 + x * (-4 + x * (3 - 2 * x))


def exact(x):
    return [fsum((5, -4 * v, 3 * v * v, -2 * v * v * v)) for v in x.tolist()]


sizes = {"n": [1, 7, 2**14]}
print(whet.ab(powers, horner, oracle=exact, inputs=lambda n, rng: rng.random(n), sizes=sizes, budget="quick"))
