"""The sum on a GPU in this tree against the same sum in another tree, such as an older revision.

A block is a fresh process of each tree, both on the same cores. They are warmed up, then they take turns in random
order on scalars that are new in every round; whoever has no turn is stopped. Every answer is compared with the CPU's,
warm-up included, before any time of the block counts. A ratio is this tree's time over the other's within one round;
shown are the median over all rounds, their quartiles, and the least and largest median of a block. CPU time is that of
all threads.

Calls are those of a user: `Engine(points, device="webgpu")` with the checks that each tree makes by default. One vector
is called again and again. Many vectors (64 x 128) are planned anew in every round: a call with fewer stands between.

    git worktree add --detach ../other REVISION        (and an environment in ../other/.venv: make setup)
    python benchmarks/bench_msm_gpu_against.py ../other [--cases 2^10,2^12,2^14,2^16,64x128] [--blocks 5] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

CASES = "2^10,2^12,2^14,2^16,64x128"
CLOCKS = ("wall", "CPU")
BETWEEN = 3  # vectors of the call that makes the next one plan anew
HERE = Path(__file__).resolve().parents[1]


def read_case(text: str) -> tuple[int, int]:
    """Vectors and points of `2^12` or `64x128`."""
    vectors, _, points = text.rpartition("x")
    base, _, power = points.partition("^")
    return int(vectors or 1), int(base) ** int(power or 1)


def serve(folder: Path, variant: str) -> None:
    """The process of a tree: a call per line of input, its answers and times as a line of output.

    It uses nothing of the package but what callers use, so that it runs in either tree.
    """
    from whet.msm import Engine

    vectors = int(np.load(folder / "vectors.npy"))
    with Engine(np.load(folder / "points.npy"), device="webgpu", variant=variant) as engine:
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            scalars = np.load(folder / f"scalars{int(line)}.npy")
            if vectors > 1:
                engine.batch(list(scalars[:BETWEEN]))
            wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
            points = engine.batch(list(scalars)) if vectors > 1 else [engine(scalars[0])]
            cpu_ns = time.process_time_ns() - cpu_ns
            wall_ns = time.perf_counter_ns() - wall_ns
            print(json.dumps([[point.to_bytes().hex() for point in points], wall_ns, cpu_ns]), flush=True)


class Tree:
    """A process of a tree, stopped unless it is its turn."""

    def __init__(self, tree: Path, folder: Path, variant: str) -> None:
        python = tree / ".venv" / "bin" / "python"
        command = [str(python), str(Path(__file__).resolve()), "--serve", str(folder), "--variant", variant, str(tree)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()
        self.process.send_signal(signal.SIGSTOP)

    def turn(self, number: int) -> tuple[list[str], tuple[int, int]]:
        """The answers to that set of scalars, and nanoseconds of wall and CPU time."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        self.process.send_signal(signal.SIGCONT)
        answers, wall_ns, cpu_ns = self._answer()
        self.process.send_signal(signal.SIGSTOP)
        return answers, (wall_ns, cpu_ns)

    def close(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.communicate()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.process.args)} ended without an answer")  # type: ignore[arg-type]
        return json.loads(line)


def prepare(folder: Path, vectors: int, points: int, sets: int, seed: int) -> list[list[str]]:
    """Writes points and sets of scalars for both trees. Returns the CPU's answers, which known multiples confirm."""
    from whet._native import curve

    from whet.msm import Engine, inputs
    from whet.msm.oracle import known_multiples

    logs = inputs.logs("random", points, seed)
    made = curve.write_points(inputs.points_from_logs(logs))
    np.save(folder / "points.npy", made)
    np.save(folder / "vectors.npy", vectors)
    expected = []
    with Engine(made, device="cpu") as engine:
        for number in range(sets):
            scalars = [inputs.scalars("random", points, seed + 1 + number * vectors + i) for i in range(vectors)]
            np.save(folder / f"scalars{number}.npy", np.stack(scalars))
            expected.append([point.to_bytes().hex() for point in engine.batch(scalars)])
    known = known_multiples(inputs.to_ints(logs), inputs.to_ints(scalars[-1]))
    if known.to_bytes().hex() != expected[-1][-1]:
        raise SystemExit("the CPU's sum is not the sum of the known multiples; nothing is timed")
    return expected


def block(
    trees: tuple[Path, Path], folder: Path, expected: list[list[str]], variant: str
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The times of all rounds but the first, of the other tree and of this one. Ends the run at a wrong answer."""
    running = [Tree(tree, folder, variant) for tree in trees]
    rounds = []
    try:
        for number, right in enumerate(expected):
            times: dict[int, tuple[int, int]] = {}
            for which in random.sample((0, 1), 2):
                answers, times[which] = running[which].turn(number)
                if answers != right:
                    raise SystemExit(f"{trees[which]} gives a wrong point; nothing is timed")
            rounds.append((times[0], times[1]))
    finally:
        for one in running:
            one.close()
    return rounds[1:]


def compare(case: str, trees: tuple[Path, Path], blocks: int, rounds: int, variant: str) -> None:
    """The lines of one case: wall and CPU time."""
    vectors, points = read_case(case)
    times = []
    for number in range(blocks):
        with tempfile.TemporaryDirectory() as name:
            expected = prepare(Path(name), vectors, points, 1 + rounds, 1 + 100_000 * number)
            times.append(block(trees, Path(name), expected, variant))
    for clock, word in enumerate(CLOCKS):
        by_block = [[new[clock] / old[clock] for old, new in one] for one in times]
        ratios = [ratio for one in by_block for ratio in one]
        low, middle, high = quantiles(ratios, n=4)
        old_ms, new_ms = (median(pair[which][clock] for one in times for pair in one) / 1e6 for which in (0, 1))
        medians = sorted(median(one) for one in by_block)
        print(
            f"{case:>7} {word:>4}  {middle:6.3f} ({low:.3f} to {high:.3f})"
            f"  blocks {medians[0]:.3f} to {medians[-1]:.3f}  {old_ms:10.1f} ms  {new_ms:10.1f} ms",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="another tree of this repository, with its own .venv")
    parser.add_argument("--cases", default=CASES, help=CASES)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--variant", default="walker:multiply=wide", help="the same for both; default %(default)s")
    parser.add_argument("--cores", help="such as 0,1; all by default")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.variant)
        return
    if given.blocks * given.rounds < 2:
        parser.error("a spread needs two rounds or more")
    if given.cores:
        os.sched_setaffinity(0, {int(core) for core in given.cores.split(",")})
    trees = given.other.resolve(), HERE
    print(f"{given.variant}, {given.blocks} blocks of {given.rounds} rounds, cores {sorted(os.sched_getaffinity(0))}")
    print("   case        ratio (quartiles)                               other          this tree", flush=True)
    for case in given.cases.split(","):
        compare(case, trees, given.blocks, given.rounds, given.variant)


if __name__ == "__main__":
    main()
