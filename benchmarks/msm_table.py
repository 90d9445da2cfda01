"""Times of the prepared CPU sum for every size and profile, one and two threads, with stages, growth and memory.

    python benchmarks/msm_table.py --page docs/msm-table.md

Each figure is the least of a few calls, one at the largest sizes: CPU time with one thread, wall time with two. Every
answer is held against the known-multiples oracle.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from whet.msm import Engine, Point, inputs
from whet.msm.affine import stage_times
from whet.msm.oracle import known_multiples
from whet.msm.validate import Limbs

PROFILES = ("random", "B", "C", "D", "E")
SPENT_MS = 30.0  # on the calls of a figure
MOST_CALLS = 200

Row = dict[str, dict[int, float]]  # milliseconds by profile and threads


def least_ms(engine: Engine, limbs: Limbs, threads: int, wanted: Point) -> float:
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    best, spent, calls = float("inf"), 0.0, 0
    while calls == 0 or (spent < SPENT_MS and calls < MOST_CALLS):
        begun = clock()
        got = engine.compute(limbs)
        taken = (clock() - begun) / 1e6
        if got != wanted:
            raise SystemExit(f"wrong answer for {len(limbs)} points")
        best, spent, calls = min(best, taken), spent + taken, calls + 1
    return best


def measure(power: int, threads_tried: list[int]) -> tuple[Row, dict[str, float], float, str]:
    """The row of a size, the shares of its stages with random scalars on one thread, bytes per point, the kernel."""
    n = 1 << power
    logs = inputs.logs("random", n, 1)
    known = inputs.to_ints(logs)
    points = inputs.points_from_logs(logs)
    row: Row = {profile: {} for profile in PROFILES}
    engines = {threads: Engine(points, montgomery=True, check=False, threads=threads) for threads in threads_tried}
    for profile in PROFILES:
        limbs = inputs.scalars(profile, n, 2)
        wanted = known_multiples(known, inputs.to_ints(limbs))
        for threads, engine in engines.items():
            row[profile][threads] = least_ms(engine, limbs, threads, wanted)
    stages = stage_times(engines[1].answer(inputs.scalars("random", n, 2)).work)
    total = sum(stages.values()) or 1
    shares = {stage: 100 * taken / total for stage, taken in stages.items()}
    size_bytes = sum(line.size_bytes for line in engines[1].memory_map()) / n
    kernel = engines[1].backend
    for engine in engines.values():
        engine.close()
    return row, shares, size_bytes, kernel


def three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def page(sizes: list[int], threads: list[int]) -> str:
    lines = ["| n | threads | random | B | C | D | E | two threads, random | per point, us | growth |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    inside = ["| n | scan | digits | sort | buckets | rows | bits | finish | bytes per point |", "|" + "---|" * 9]
    before, kernel = None, ""
    for power in sizes:
        row, shares, size_bytes, kernel = measure(power, threads)
        one = row["random"][1]
        faster = f"{one / row['random'][2]:.2f}" if 2 in threads else ""
        growth = three(one / before[1]) if before and before[0] == power - 2 else ""
        each = [three(row[profile][1]) for profile in PROFILES]
        lines.append(
            f"| 2^{power} | 1 | {' | '.join(each)} | {faster} | {three(1000 * one / (1 << power))} | {growth} |"
        )
        if 2 in threads:
            lines.append(f"| | 2 | {' | '.join(three(row[profile][2]) for profile in PROFILES)} | | | |")
        parts = [f"{shares[stage]:.1f}" if stage in shares else "" for stage in SHARES]
        inside.append(f"| 2^{power} | {' | '.join(parts)} | {size_bytes:,.0f} |")
        before = power, one
        print(*lines[-len(threads) :], inside[-1], sep="\n", flush=True)
    return TEXT.format(kernel=kernel, cores=os.cpu_count(), times="\n".join(lines), inside="\n".join(inside))


SHARES = ("scan", "digits", "sort", "buckets", "rows", "bits", "finish")
TEXT = """# Times of the CPU sum by size and profile

    python benchmarks/msm_table.py --page docs/msm-table.md

Prepared points, kernel `{kernel}`, {cores} logical cores. Milliseconds, least of the calls within 30 ms (one from
about 2^14 on): CPU time with one thread, wall time with two. The column "two threads" is one thread's time over
that of two. Growth is the time beside that of a fourth of the points. Every answer was that of the known-multiples
oracle. Profiles: B 30 % of the scalars below 2^14, C 80 %, D half in 0 to 3, the rest random; E all below 16.

{times}

## Stages and memory

Per cent of the time with random scalars on one thread, of one call. Sums without buckets (up to 36 points) have one
stage. Bytes are those of the memory map, prepared points with it.

{inside}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="0,1,2,3,4,5,6,8,10,12,14,16,18,20", help="powers of two")
    parser.add_argument("--threads", default="1,2", help="1 alone where the machine is busy: two are timed by the wall")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    threads = [int(part) for part in options.threads.split(",")]
    if 1 not in threads:
        parser.error("one thread is what the others are compared with")
    text = page([int(part) for part in options.sizes.split(",")], threads)
    if options.page:
        options.page.write_text(text)


if __name__ == "__main__":
    main()
