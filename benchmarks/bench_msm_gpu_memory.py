"""What bytes cost a sum on a GPU: forced batches against one, and large sums whose ledger is held against the map.

Each sum is compared with the known-multiples oracle before it is timed; wall time around a call, minimum of the rounds,
batches interleaved. `--points` compares points that stay, points sent in two pieces and compressed ones in two pieces
in the same way, with what a root takes beside an addition. `--large` computes 2^17 and 2^18 points as they come, 2^20
within 100 MB, and 2^20 within 64 MB in pieces and compressed, once each: some minutes on a software adapter;
`--large 20` only those of that size.

    python benchmarks/bench_msm_gpu_memory.py [--log-n 14] [--rounds 3] [--points [--multiply wide] | --large [LOG_N]]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.webgpu.knobs import MULTIPLIES, Choice
from whet.msm.webgpu.pieces import place
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sums import WebGpuSums

LARGE: tuple[tuple[int, int | None, str], ...] = (
    (17, None, "auto"),
    (18, None, "auto"),
    (20, 100_000_000, "auto"),
    (20, 64_000_000, "auto"),
    (20, 64_000_000, "compressed"),
)
PLACES = ("resident", "pieces", "compressed")
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


def places(log_n: int, rounds: int, multiply: str) -> None:
    """Where points are between calls, interleaved; the last line is of the passes alone, on the device's clock."""
    points, scalars, expected = subject(log_n)
    choices = {where: Choice(points=where, multiply=multiply) for where in PLACES}
    engines = {where: WebGpuSums(points, choice, timed=True, verify=False) for where, choice in choices.items()}
    spent: dict[str, list[int]] = {where: [] for where in engines}
    roots: list[float] = []
    additions: list[float] = []
    for turn in range(1 + rounds):  # the first compiles
        for where, sums in engines.items():
            begun = time.perf_counter_ns()
            answer = sums.compute(scalars, 0)
            taken = time.perf_counter_ns() - begun
            assert answer.limbs.tobytes() == expected, "the sum is wrong"
            if turn:
                spent[where].append(taken)
                named = {name: sum(ns or 0 for one, ns in sums.passes_ns if one == name) for name, _ in sums.passes_ns}
                roots += [named["decompress"] / (1 << log_n)] if where == "compressed" else []
                additions.append(named["accumulate"] / max(1, answer.work["accumulated"]))
    for where, sums in engines.items():
        held_bytes = sum(row.size_bytes for row in sums.memory_map())
        ratio = min(spent[where]) / min(spent["resident"])
        print(
            f"2^{log_n}  {where:10}  {held_bytes / 1e6:7.1f} MB  {min(spent[where]) / 1e6:8.1f} ms  {ratio:5.2f}x",
            flush=True,
        )
        sums.close()
    root, addition = statistics.median(roots), statistics.median(additions)
    print(
        f"2^{log_n}  a root {root:,.0f} ns, an addition {addition:,.0f} ns: {root / addition:.1f} additions", flush=True
    )


def large(log_n: int) -> None:
    """`log_n` is 0 for all of them."""
    made: dict[int, tuple[np.ndarray, np.ndarray, bytes]] = {}
    for size, budget, where in LARGE:
        if log_n not in (0, size):
            continue
        if size not in made:
            made[size] = subject(size)
        points, scalars, expected = made[size]
        sums = WebGpuSums(points, Choice(points=where), memory_budget=budget)
        first = timed(sums, scalars, expected)
        bought = place(Request(1 << size, Choice(points=where), 1 << size, memory_budget=budget)).point
        asked = "default" if budget is None else f"budget {budget / 1e6:.0f} MB"
        print(
            f"2^{size}  {asked:14}  {bought.points:10}  {bought.pieces} x {bought.batches:2} batches"
            f"  peak of the ledger {held(sums):,} bytes = the map  right  {first / 1e9:.1f} s with compiling",
            flush=True,
        )
        sums.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-n", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--points", action="store_true", help="where points are between calls, instead of the batches")
    parser.add_argument("--multiply", choices=MULTIPLIES, default="auto", help="of --points")
    parser.add_argument("--large", type=int, nargs="?", const=0, metavar="LOG_N", help="the large sums instead")
    given = parser.parse_args()
    if given.large is not None:
        large(given.large)
    elif given.points:
        places(given.log_n, given.rounds, given.multiply)
    else:
        batches(given.log_n, given.rounds)


if __name__ == "__main__":
    main()
