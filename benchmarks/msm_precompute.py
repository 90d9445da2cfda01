"""What `precompute` buys: CPU time of a sum with up to 2, 4, 8 and 16 multiples of each point, beside one multiple.

    taskset -c 1 python benchmarks/msm_precompute.py --backends avx2,adx

All factors take turns in every round, on the same scalars and one thread; the least time of all rounds counts, and the
answers are compared.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from whet._native import msm as native

from whet.msm import inputs
from whet.msm.affine import Affine

FACTORS = (1, 2, 4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default=native.backends()[0])
    parser.add_argument("--bits", default="8,10,12,14,16", help="n as powers of two")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", default="random")
    options = parser.parse_args()
    print("| backend | n | ms, one | F = 2 | F = 4 | F = 8 | F = 16 | multiples x windows | prepare, us per point |")
    print("|---|---|---|---|---|---|---|---|---|")
    for backend in options.backends.split(","):
        for bits in map(int, options.bits.split(",")):
            print_row(backend, bits, options.rounds, options.profile)


def print_row(backend: str, bits: int, rounds: int, profile: str) -> None:
    n = 1 << bits
    points = inputs.points_from_logs(inputs.logs("random", n, 1))
    engines, prepare_us = {}, {}
    for factor in FACTORS:
        started = time.process_time_ns()
        engines[factor] = Affine.prepared(points, backend, 1, 0, factor)
        prepare_us[factor] = (time.process_time_ns() - started) / 1e3 / n
    least = dict.fromkeys(FACTORS, float("inf"))
    windows = {}
    calls = max(1, (1 << 14) // n)
    for round_ in range(rounds):
        scalars = inputs.scalars(profile, n, 100 + round_)
        answers = []
        for factor in FACTORS:
            started = time.process_time_ns()
            for _ in range(calls):
                limbs, work = engines[factor].run(scalars, 0)
            least[factor] = min(least[factor], (time.process_time_ns() - started) / calls)
            answers.append(limbs)
            windows[factor] = f"{work['blocks']}x{work['windows']}"
        assert all(np.array_equal(answers[0], other) for other in answers)
    ratios = " | ".join(f"{least[factor] / least[1]:.2f}" for factor in FACTORS[1:])
    cells = ", ".join(windows[factor] for factor in FACTORS)
    print(f"| {backend} | 2^{bits} | {least[1] / 1e6:.2f} | {ratios} | {cells} | {prepare_us[16]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
