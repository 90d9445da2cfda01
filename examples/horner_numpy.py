"""Your own kernel in 30 lines, numpy: a polynomial at many points, by powers and by Horner's rule.

whet ab examples/horner_numpy.py powers horner --n 2^14 --quick
"""

from math import fsum

import numpy as np

from whet.protocol import Case, Engine, Output, Tolerance, VariantSpec

COEFFICIENTS = [0.5, -1.25, 3.0, 0.75, -2.0, 1.0]


class Polynomial(Engine):
    name = "polynomial"
    tolerance = Tolerance(relative=1e-12, absolute=1e-12)

    def cases(self):
        return [Case(sizes={"n": n}) for n in (1, 7, 64, 1000, 2**14)]

    def variants(self):
        return [VariantSpec("powers", "one power per term"), VariantSpec("horner", "one multiply-add per term")]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.float64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).uniform(-2, 2, case.sizes["n"])}

    def run(self, variant, state, inputs, outputs):
        x, y = inputs["x"], outputs["y"]
        if variant.name == "powers":
            y[:] = sum(c * x**k for k, c in enumerate(COEFFICIENTS))
        else:
            y[:] = COEFFICIENTS[-1]
            for c in reversed(COEFFICIENTS[:-1]):
                y *= x
                y += c

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": np.array([fsum(c * x**k for k, c in enumerate(COEFFICIENTS)) for x in inputs["x"].tolist()])}
