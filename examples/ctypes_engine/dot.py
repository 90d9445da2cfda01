"""C kernels through ctypes. The library is compiled when the engine is described, once per version of the source.

whet ab examples/ctypes_engine/dot.py --n 2^14 --quick
"""

import ctypes
import hashlib
import subprocess
import tempfile
from math import fsum
from pathlib import Path

import numpy as np

from whet.errors import Unsupported
from whet.protocol import Case, Engine, Output, Tolerance, VariantSpec

SOURCE = Path(__file__).with_name("dot.c")
COMPILE = ["cc", "-O2", "-shared", "-fPIC"]


def library():
    """Where the compiled kernels are. A bench may not start a compiler once it is sealed, so this is done before."""
    name = f"dot-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    built = Path(tempfile.gettempdir()) / name
    if not built.exists():
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            made = Path(folder) / name
            try:
                subprocess.run([*COMPILE, str(SOURCE), "-o", str(made)], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise Unsupported(f"dot.c cannot be compiled: {error}", cure="install a C compiler called cc") from None
            made.replace(built)
    return built


class Dot(Engine):
    name = "dot"
    tolerance = Tolerance(relative=1e-12, absolute=1e-9)

    def cases(self):
        return [Case(sizes={"n": n}) for n in (0, 1, 3, 7, 1000, 2**14)]

    def variants(self):
        library()
        return [VariantSpec("plain", "one sum, in order"), VariantSpec("four", "four sums side by side")]

    def outputs(self, case):
        return {"result": Output((), np.float64)}

    def prepare(self, case, seed):
        rng = np.random.default_rng(seed)
        return {"x": rng.normal(size=case.sizes["n"]), "y": rng.normal(size=case.sizes["n"])}

    def setup(self, variant, case, fixed, device):
        function = getattr(ctypes.CDLL(str(library())), f"dot_{variant.name}")
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        function.restype = None
        return function, case.sizes["n"]

    def run(self, variant, state, inputs, outputs):
        function, n = state
        function(inputs["x"].ctypes.data, inputs["y"].ctypes.data, n, outputs["result"].ctypes.data)

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"result": fsum(a * b for a, b in zip(inputs["x"].tolist(), inputs["y"].tolist(), strict=True))}

    def sources(self):
        # The library itself is found by what the bench has loaded.
        return [SOURCE]
