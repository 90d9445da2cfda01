"""Honest variants with habits that a strict gate might take for a cheat. None may ever be red.

`whet ab honest_engines.py plain NAME` works for every name; numba is offered where it is installed.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from whet.protocol import Case, Engine, Output, Tolerance, VariantSpec

SPIN_S = 0.0002


def work(x, y):
    np.sin(x, out=y)
    y *= np.exp(x)


class Plain:
    """One thread, one pass."""

    def __init__(self, weights):
        self.weights = weights

    def __call__(self, x, y):
        work(x, y)

    def close(self):
        pass


class Pool(Plain):
    """A pool of threads that sleep between calls."""

    def __init__(self, weights):
        self.pool = ThreadPoolExecutor(2)

    def __call__(self, x, y):
        half = len(x) // 2
        parts = [self.pool.submit(work, x[:half], y[:half]), self.pool.submit(work, x[half:], y[half:])]
        for part in parts:
            part.result()

    def close(self):
        self.pool.shutdown()


class Spinning(Plain):
    """A helper that spins for a while after its work before it sleeps, as OpenMP's threads do."""

    def __init__(self, weights):
        self.asked, self.done, self.open = threading.Event(), threading.Event(), True
        threading.Thread(target=self.help, daemon=True).start()

    def help(self):
        while self.asked.wait() and self.open:
            self.asked.clear()
            work(*self.part)
            self.done.set()
            until = time.perf_counter() + SPIN_S
            while time.perf_counter() < until and not self.asked.is_set():
                pass

    def __call__(self, x, y):
        half = len(x) // 2
        self.part = x[half:], y[half:]
        self.done.clear()
        self.asked.set()
        work(x[:half], y[:half])
        self.done.wait()

    def close(self):
        self.open = False
        self.asked.set()


class Fresh(Plain):
    """Starts a thread in every call and waits for it."""

    def __call__(self, x, y):
        thread = threading.Thread(target=work, args=(x, y))
        thread.start()
        thread.join()


class Hungry(Plain):
    """Allocates and touches 32 megabytes in every call."""

    def __call__(self, x, y):
        room = np.ones(2**22)
        work(x, y)
        y += room[-1] - 1


class Native(Plain):
    """Calls C through ctypes, element by element."""

    def __init__(self, weights):
        self.libm = ctypes.CDLL(ctypes.util.find_library("m"))
        for name in ("sin", "exp"):
            function = getattr(self.libm, name)
            function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]

    def __call__(self, x, y):
        y[:] = [self.libm.sin(value) * self.libm.exp(value) for value in x.tolist()]


class Sleeping(Plain):
    """Waits for something that takes no processor time, as a device driver does."""

    def __call__(self, x, y):
        time.sleep(0.002)
        work(x, y)


class SlowStart(Plain):
    """Does in the first call what a compiler would do."""

    started = False

    def __call__(self, x, y):
        if not self.started:
            time.sleep(0.15)
            self.started = True
        work(x, y)


class Littering(Plain):
    """Leaves many cycles to the garbage collector."""

    def __call__(self, x, y):
        for _ in range(2000):
            loop = []
            loop.append(loop)
        work(x, y)


class Remembering(Plain):
    """Keeps what depends on the fixed inputs alone: that is what they are fixed for."""

    def __init__(self, weights):
        self.sorted = np.sort(weights)

    def __call__(self, x, y):
        assert len(self.sorted) == len(x)
        work(x, y)


class Multiplying(Plain):
    """Goes through BLAS, whose threads spin and sleep as they like."""

    def __init__(self, weights):
        self.matrix = np.eye(192)

    def __call__(self, x, y):
        self.matrix @ self.matrix
        work(x, y)


class Compiled(Plain):
    """numba, compiled in the first call."""

    def __init__(self, weights):
        import numba

        @numba.njit
        def compiled(x, y):
            for i in range(len(x)):
                y[i] = math.sin(x[i]) * math.exp(x[i])

        self.compiled = compiled

    def __call__(self, x, y):
        self.compiled(x, y)


HABITS = {
    "plain": Plain,
    "pool": Pool,
    "spinning": Spinning,
    "fresh": Fresh,
    "hungry": Hungry,
    "native": Native,
    "sleeping": Sleeping,
    "slow-start": SlowStart,
    "littering": Littering,
    "remembering": Remembering,
    "multiplying": Multiplying,
}
if importlib.util.find_spec("numba"):
    HABITS["compiled"] = Compiled


class Honest(Engine):
    """y = sin(x) exp(x), with weights that nobody needs but that stay the same over a trial."""

    name = "honest"
    tolerance = Tolerance(relative=1e-12, absolute=1e-13)

    def cases(self):
        return [Case(sizes={"n": n}) for n in (1, 4096)]

    def variants(self):
        return [VariantSpec(name, (habit.__doc__ or "").splitlines()[0]) for name, habit in HABITS.items()]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.float64)}

    def fixed(self, case, seed):
        return {"weights": np.random.default_rng(seed).uniform(0, 1, case.sizes["n"])}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).uniform(-1, 1, case.sizes["n"])}

    def setup(self, variant, case, fixed, device):
        return HABITS[variant.name](fixed["weights"])

    def run(self, variant, state, inputs, outputs):
        state(inputs["x"], outputs["y"])

    def close(self, state):
        state.close()

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": np.array([math.sin(value) * math.exp(value) for value in inputs["x"].tolist()])}
