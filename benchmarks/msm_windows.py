"""CPU time of the fast MSM engine over the number of windows, with the automatic choice marked.

The weights of `cost` in native/msm/engine/plan.cpp come from this table. Window counts are interleaved; the least CPU
time of the rounds is shown, because other work on the machine only ever adds to it. Every sum that is timed is right.
"""

from __future__ import annotations

import argparse
import time

from whet.msm import inputs
from whet.msm.affine import Affine
from whet.msm.oracle import known_multiples

SPREAD = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="8,10,12,14", help="powers of two")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args()
    for exponent in (int(part) for part in options.sizes.split(",")):
        n = 2**exponent
        logs = inputs.logs("random", n, 1)
        points = inputs.points_from_logs(logs)
        scalars = inputs.scalars("random", n, 2)
        expected = known_multiples(inputs.to_ints(logs), inputs.to_ints(scalars)).to_bytes()
        chosen = Affine.prepared(points, options.backend, 1).run(scalars, 0)[1]["windows"]
        counts = range(max(8, chosen - SPREAD), chosen + SPREAD + 1)
        engines = {windows: Affine.prepared(points, options.backend, 1, windows) for windows in counts}
        best = dict.fromkeys(counts, float("inf"))
        for _ in range(options.rounds):
            for windows, engine in engines.items():
                start = time.process_time_ns()
                answer, _ = engine.run(scalars, 0)
                taken_ms = (time.process_time_ns() - start) / 1e6
                assert answer.tobytes() == expected, f"{windows} windows give a wrong sum; nothing is timed"
                best[windows] = min(best[windows], taken_ms)
        cells = (f"{w}{'*' if w == chosen else ''}: {ms:.2f} ms" for w, ms in best.items())
        print(f"2^{exponent}  {'   '.join(cells)}")


if __name__ == "__main__":
    main()
