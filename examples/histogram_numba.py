"""Your own kernel in 30 lines, numba: a histogram of bytes, by numpy and by a compiled loop with a typed knob.

whet ab examples/histogram_numba.py numpy numba numba:lanes=4 --n 2^16 --quick
"""

from collections import Counter

import numpy as np

from whet.errors import Unsupported
from whet.protocol import Case, Engine, Knob, Output, VariantSpec, Work

try:
    from numba import njit
except ImportError:
    raise Unsupported("this example needs numba", cure="pip install numba") from None


@njit
def count(data, lanes, result):
    # Several tables, so that equal neighbours do not wait for each other's store.
    tables = np.zeros((lanes, 256), np.int64)
    for i in range(len(data)):
        tables[i % lanes, data[i]] += 1
    result[:] = tables.sum(axis=0)


class Histogram(Engine):
    name = "histogram"

    def cases(self):
        return [Case(sizes={"n": n}) for n in (0, 1, 255, 4096, 2**16)]

    def variants(self):
        lanes = Knob("lanes", 1, minimum=1, maximum=16, help="tables that are added up at the end")
        return [VariantSpec("numpy", "np.bincount"), VariantSpec("numba", "compiled loop", (lanes,))]

    def outputs(self, case):
        return {"counts": Output((256,), np.int64)}

    def work(self, case):
        # What any variant has to do at least; from it come GB/s, and the share of what the memory could give.
        return Work(moved_bytes=case.sizes["n"] + 256 * 8, operations=case.sizes["n"], operation="bytes")

    def prepare(self, case, seed):
        return {"data": np.random.default_rng(seed).integers(0, 256, case.sizes["n"], np.uint8)}

    def run(self, variant, state, inputs, outputs):
        if variant.name == "numpy":
            outputs["counts"][:] = np.bincount(inputs["data"], minlength=256)
        else:
            count(inputs["data"], int(variant.knobs.get("lanes", 1)), outputs["counts"])

    def oracle(self, case, fixed_seed, seed, inputs):
        found = Counter(inputs["data"].tobytes())
        return {"counts": np.array([found[value] for value in range(256)], np.int64)}
