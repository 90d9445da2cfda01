"""The same functions as an engine for the command line, without a class: whet ab examples/declared.py --quick"""

from math import fsum

import whet


@whet.inputs(sizes={"n": [1, 7, 2**14]})
def make(n, rng):
    return rng.normal(size=n)


@whet.variant
def powers(x):
    """One power per term"""
    return 5 - 4 * x + 3 * x**2 - 2 * x**3


@whet.variant
def horner(x):
    """One multiply-add per term"""
    return 5 + x * (-4 + x * (3 - 2 * x))


@whet.oracle
def exact(x):
    return [fsum((5, -4 * v, 3 * v * v, -2 * v * v * v)) for v in x.tolist()]
