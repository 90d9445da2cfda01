"""CPU time of sums of few points: without buckets, and with them at the best number of windows.

The crossovers in native/msm/affine/small.cpp come from this table. Both ways are interleaved; the least CPU time of the
rounds is shown, because other work on the machine only ever adds to it.
"""

from __future__ import annotations

import argparse
import time

from whet.msm import inputs
from whet.msm.affine import Affine

WINDOWS = range(14, 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1,2,4,8,16,24,32,40,48")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args()
    print("points  without buckets  with buckets  ratio")
    for n in (int(part) for part in options.sizes.split(",")):
        points = inputs.points_from_logs(inputs.logs("random", n, 1))
        scalars = inputs.scalars("random", n, 2)
        engines = {windows: Affine.prepared(points, options.backend, 1, windows) for windows in (0, *WINDOWS)}
        if not engines[0].run(scalars, 0)[1]["small"]:
            print(f"{n:>6}  beyond the crossover")
            continue
        best = dict.fromkeys(engines, float("inf"))
        for _ in range(options.rounds):
            for windows, engine in engines.items():
                start = time.thread_time_ns()
                engine.run(scalars, 0)
                best[windows] = min(best[windows], (time.thread_time_ns() - start) / 1e3)
        buckets = min(best[windows] for windows in WINDOWS)
        print(f"{n:>6}  {best[0]:>12.0f} us  {buckets:>9.0f} us  {best[0] / buckets:>5.2f}")


if __name__ == "__main__":
    main()
