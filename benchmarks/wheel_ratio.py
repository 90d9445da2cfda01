"""Is the wheel as fast as the build beside it? The same work by both, in turns, in processor time.

python benchmarks/wheel_ratio.py OTHER_PYTHON, where that one has the wheel installed
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

ROUNDS = 7
WORK = """
import json, time
import numpy as np
from whet import msm
rng = np.random.default_rng(1)
scalars = rng.integers(0, 2**60, (2**13, 4), dtype=np.uint64)
found = {}
for backend in ("ifma", "avx2", "adx", "portable"):
    try:
        engine = msm.Engine([(1, 2), (1, 2)] * 2**12, backend=backend, threads=1)
    except Exception:
        continue
    best = []
    for _ in range(5):
        begun = time.process_time_ns()
        engine(scalars)
        best.append(time.process_time_ns() - begun)
    found[backend] = min(best)
best = []
for _ in range(5):
    begun = time.process_time_ns()
    msm.msm([(1, 2)] * 64, list(range(64)))
    best.append(time.process_time_ns() - begun)
found["small sum"] = min(best)
print(json.dumps(found))
"""


def main() -> None:
    ours, other = sys.executable, sys.argv[1]
    ratios: dict[str, list[float]] = {}
    for turn in range(ROUNDS):
        order = (ours, other) if turn % 2 else (other, ours)
        got = {}
        for python in order:
            done = subprocess.run([python, "-c", WORK], check=True, capture_output=True, text=True)
            got[python] = json.loads(done.stdout)
        for name in got[ours]:
            ratios.setdefault(name, []).append(got[other][name] / got[ours][name])
    for name, found in ratios.items():
        print(f"{name:10} {median(found):.3f}  ({min(found):.3f} to {max(found):.3f} in {ROUNDS} turns)")


if __name__ == "__main__":
    main()
