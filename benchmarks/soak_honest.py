"""Counts turns of honest variants and how many of them are called red: `python benchmarks/soak_honest.py [--turns N]`.

Our own engines, the examples, several threads, very short kernels; `--neighbours 2` lets two processes spin beside
them. Every red is printed with its reason; the exit code is 1 if there is any. GPU variants join with `--gpu`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHET = str(Path(sys.executable).with_name("whet"))
HABITS = str(ROOT / "tests" / "evidence" / "honest_engines.py")
TRIALS = {
    "msm": ["msm", "plain", "pippenger", "affine", "--n", "64"],
    "decode": ["decode", "phased", "fused"],
    "graph": ["graph", "wired", "polling", "hybrid", "replay", "--size", "tasks=1000", "--profile", "random"],
    "examples: horner": [str(ROOT / "examples" / "horner_numpy.py"), "powers", "horner"],
    "examples: histogram": [str(ROOT / "examples" / "histogram_numba.py"), "numpy", "numba"],
    "several threads": [HABITS, "plain", "pool", "spinning", "fresh", "multiplying"],
    "memory and C": [HABITS, "plain", "hungry", "native", "littering", "remembering"],
    "waiting": [HABITS, "plain", "sleeping", "slow-start"],
    "very short": [HABITS, "plain", "remembering", "fresh", "--n", "1"],
}
GPU = {
    "gpu: saxpy": [str(ROOT / "examples" / "saxpy_webgpu.py"), "small", "large"],
    "gpu: msm": ["msm", "affine", "walker", "coop", "--n", "64"],
}
REFUSED = 3


def spin(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(10_000))


def trial(words: list[str], store: Path) -> dict:
    done = subprocess.run(
        [WHET, "ab", *words, "--quick", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "WHET_STORE": str(store)},
    )
    if done.returncode not in (0, 2, REFUSED):
        sys.exit(f"whet ab {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--neighbours", type=int, default=0, help="processes that spin beside the trials")
    parser.add_argument("--gpu", action="store_true", help="with the GPU variants")
    parser.add_argument("--only", choices=[*TRIALS, *GPU], help="one kind of trial")
    given = parser.parse_args()
    trials = {**TRIALS, **(GPU if given.gpu else {})}
    if given.only:
        trials = {given.only: {**TRIALS, **GPU}[given.only]}
    neighbours = [multiprocessing.Process(target=spin, args=(os.getpid(),)) for _ in range(given.neighbours)]
    for neighbour in neighbours:
        neighbour.start()
    try:
        reds = soak(trials, given.turns)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
    sys.exit(1 if reds else 0)


def soak(trials: dict[str, list[str]], wanted: int) -> int:
    turns: Counter[str] = Counter()
    reds: Counter[str] = Counter()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # Each kind at least once, then on until there are enough turns.
        for number, (kind, words) in enumerate(cycle(trials.items())):
            if number >= len(trials) and turns.total() >= wanted:
                break
            run = trial(words, Path(folder, "runs.sqlite"))
            turns[kind] += len(run["samples"])
            for gate in run["gates"]:
                if not gate["green"]:
                    reds[kind] += 1
                    told = f"{gate['failure']['reason']}: {gate['failure']['detail']}"
                    print(f"red: {kind}, {gate['variant']}, seed {run['seed']}: {told}", flush=True)
            print(f"{kind:<22}{turns[kind]:>8,} turns{reds[kind]:>6} red", flush=True)
    print(f"{turns.total():,} honest turns in {time.monotonic() - began_s:.0f} s, {reds.total()} red")
    return reds.total()


if __name__ == "__main__":
    main()
