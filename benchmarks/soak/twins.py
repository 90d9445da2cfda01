"""Equal kernels under two names, and one that is slower by a set share: what a self-comparison is made of.

`slower=1050` in thousandths makes `second` do that share of the work of `first`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from whet.protocol import Case, Engine, Knob, Output, Tolerance, VariantSpec

KNOB = Knob("slower", 1000, minimum=1000, maximum=4000, help="thousandths of the work of first")


class Twins(Engine):
    """y = sin(x); the size of the kernel is the case's, `passes` repeats the whole."""

    name = "twins"
    tolerance = Tolerance(relative=1e-12, absolute=1e-12)
    threads = 1

    def cases(self):
        return [Case(sizes={"n": n}) for n in (1, 64, 2**14)]

    def variants(self):
        return [VariantSpec("first", "one name"), VariantSpec("second", "another name", knobs=(KNOB,))]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.float64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).uniform(-1, 1, case.sizes["n"])}

    def setup(self, variant, case, fixed, device):
        return State(case.sizes["n"], int(variant.knobs.get("slower", 1000)), self.threads)

    def run(self, variant, state, inputs, outputs):
        state.run(inputs["x"], outputs["y"])

    def close(self, state):
        state.close()

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": np.sin(inputs["x"].astype(np.longdouble)).astype(np.float64)}


class TwinsInThreads(Twins):
    """The same halves on two threads."""

    name = "twins-in-threads"
    threads = 2


class State:
    def __init__(self, n, slower, threads):
        self.more = n * (slower - 1000) // 1000
        self.scratch = np.empty(max(1, self.more))
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.threads = threads

    def run(self, x, y):
        if self.pool is None:
            np.sin(x, out=y)
        else:
            cut = len(x) // self.threads
            spans = [slice(i * cut, None if i + 1 == self.threads else (i + 1) * cut) for i in range(self.threads)]
            list(self.pool.map(lambda span: np.sin(x[span], out=y[span]), spans))
        if self.more:
            np.sin(x[: self.more], out=self.scratch)

    def close(self):
        if self.pool is not None:
            self.pool.shutdown()
