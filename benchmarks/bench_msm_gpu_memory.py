"""What bytes cost a sum on a GPU: forced batches against one, and large sums whose ledger is held against the map.

Each sum is compared with the known-multiples oracle before it is timed; wall time around a call, minimum of the rounds,
batches interleaved. `--large` computes 2^17 and 2^18 points as they come and 2^20 within 100 MB, once each: a minute or
two on a software adapter.

    python benchmarks/bench_msm_gpu_memory.py [--log-n 14] [--rounds 3] [--large]
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.sums import WebGpuSums

LARGE: tuple[tuple[int, int | None], ...] = ((17, None), (18, None), (20, 100_000_000))
PIECE = 1 << 12


def subject(log_n: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Points of known logarithms, scalars, and their sum."""
    n = 1 << log_n
    logs, scalars = make.logs("random", n, 1), make.scalars("random", n, 2)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pieces = list(pool.map(make.points_from_logs, (logs[at : at + PIECE] for at in range(0, n, PIECE))))
    return np.concatenate(pieces), scalars, known_multiples(make.to_ints(logs), make.to_ints(scalars)).to_bytes()


def timed(sums: WebGpuSums, scalars: np.ndarray, expected: bytes) -> int:
    begun = time.perf_counter_ns()
    answer = sums.compute(scalars, 0)
    taken = time.perf_counter_ns() - begun
    assert answer.limbs.tobytes() == expected, "the sum is wrong"
    return taken


def held(sums: WebGpuSums) -> int:
    """The peak of what was allocated, which has to be the map to the byte."""
    rows = {row.name: row.size_bytes for row in sums.memory_map()}
    assert sums.device.ledger.peak == rows, "the ledger is not the map"
    return sums.device.ledger.peak_bytes


def batches(log_n: int, rounds: int) -> None:
    points, scalars, expected = subject(log_n)
    windows = build(1 << log_n, Choice()).geometry.all_windows
    engines = {count: WebGpuSums(points, Choice(batches=count)) for count in (1, 2, 4, 8, windows)}
    spent: dict[int, list[int]] = {count: [] for count in engines}
    for turn in range(1 + rounds):  # the first compiles
        for count, sums in engines.items():
            taken = timed(sums, scalars, expected)
            if turn:
                spent[count].append(taken)
    for count, sums in engines.items():
        best = min(spent[count])
        ratio = best / min(spent[1])
        print(
            f"2^{log_n}  {count:3} batches  {held(sums) / 1e6:7.1f} MB  {best / 1e6:8.1f} ms  {ratio:5.2f}x", flush=True
        )
        sums.close()


def large() -> None:
    for log_n, budget in LARGE:
        points, scalars, expected = subject(log_n)
        sums = WebGpuSums(points, Choice(), memory_budget=budget)
        first = timed(sums, scalars, expected)
        geometry = build(1 << log_n, Choice(), memory_budget=budget).geometry
        asked = "default" if budget is None else f"budget {budget / 1e6:.0f} MB"
        print(
            f"2^{log_n}  {asked:14}  {len(geometry.batches):2} batches"
            f"  peak of the ledger {held(sums):,} bytes = the map  right  {first / 1e9:.1f} s with compiling",
            flush=True,
        )
        sums.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-n", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="the large sums instead of the batches")
    given = parser.parse_args()
    large() if given.large else batches(given.log_n, given.rounds)


if __name__ == "__main__":
    main()
