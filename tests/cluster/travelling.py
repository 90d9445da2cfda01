"""A small task for other machines, as its user has it: a module beside it, a file that it reads, and candidates."""

from __future__ import annotations

from pathlib import Path

TASK = """
from pathlib import Path
import numpy as np
from beside import shift
from whet.protocol import *

class Shifted(Engine):
    name = "shifted"
    factor = int((Path(__file__).parent / "data" / "factor.txt").read_text())
    def cases(self): return [Case(sizes={"n": 8})]
    def variants(self): return [VariantSpec(name, "") for name in ("plain", "other")]
    def outputs(self, case): return {"y": Output((case.sizes["n"],), "i8")}
    def prepare(self, case, seed): return {"x": np.random.default_rng(seed).integers(0, 1000, case.sizes["n"])}
    def setup(self, variant, case, fixed, device): return None
    def run(self, variant, state, inputs, outputs):
        np.add(self.factor * inputs["x"], shift.SHIFT, out=outputs["y"])
    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": np.array([self.factor * int(x) + shift.SHIFT for x in inputs["x"]])}
"""
CANDIDATES = """
import helper_of_candidates

def wrong(inputs, outputs):
    outputs["y"][:] = helper_of_candidates.SEVEN
"""


def write_project(folder: Path) -> Path:
    """The task's file. Spaces in its path, because there are such paths."""
    home = folder / "my project"
    for name, text in {
        "task.py": TASK,
        "beside/__init__.py": "",
        "beside/shift.py": "from beside import deeper\nSHIFT = deeper.SHIFT\n",
        "beside/deeper.py": "SHIFT = 11\n",
        "data/factor.txt": "3\n",
        "tried/candidates.py": CANDIDATES,
        "tried/helper_of_candidates.py": "SEVEN = 7\n",
        "unrelated.py": "raise RuntimeError\n",
    }.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home / "task.py"
