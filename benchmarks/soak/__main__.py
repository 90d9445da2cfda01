"""Self-comparison and power on the noise of this very machine: `python benchmarks/soak --trials 200 [--busy]`.

Every trial is what `whet ab --quick` does, on fresh processes. A kernel against itself must not come out FASTER or
SLOWER; one slowed by 5 % must be found by a default trial. Figures are added to a JSON file, so that a soak can be
ended at any time and continued; `--page` prints them as the table of docs/evidence.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from whet.evidence.compare import compare
from whet.evidence.comparison import ab

HERE = Path(__file__).parent
TWINS = HERE / "twins.py"
# Name, engine, the two names of one kernel, size.
KERNELS = {
    "100 us": (f"{TWINS}:Twins", ("first", "second"), 2**14),
    "5 ms": (f"{TWINS}:Twins", ("first", "second"), 2**19),
    "two threads": (f"{TWINS}:TwinsInThreads", ("first", "second"), 2**18),
    "msm affine 2^10": ("msm", ("affine", "affine:windows=0"), 2**10),
}
SPIN = "while True: pass"


def self_comparisons(kernels, trials, state):
    """Trials of each kernel in turn, so that the machine's weather falls on all of them."""
    before = {}
    for number in range(trials):
        for name in kernels:
            ref, names, n = KERNELS[name]
            started = time.monotonic()
            run = ab(ref, *names, sizes={"n": n}, budget="quick")
            said = run.verdicts[0].outcome.value
            state.setdefault(name, Counter())[said] += 1
            state[name]["seconds"] = round(state[name]["seconds"] + time.monotonic() - started, 1)
            if said in ("FASTER", "SLOWER", "REFUSED"):
                print(f"  {name}: {said}: {run.verdicts[0].reasons}", flush=True)
            if name in before:
                for change in compare(before[name], run, effect=0.02).changes:
                    state.setdefault(f"compare: {name}", Counter())[change.outcome.value] += 1
            before[name] = run
            print(f"{number + 1:4} {name}: {said} {run.verdicts[0].ratio or 0:.3f}", flush=True)


def power(trials, state, slower):
    ref, names, n = KERNELS["100 us"]
    for number in range(trials):
        run = ab(ref, names[0], f"{names[1]}:slower={slower}", sizes={"n": n})
        said = run.verdicts[0].outcome.value
        state.setdefault(f"slowed to {slower / 10:g} %", Counter())[said] += 1
        print(
            f"{number + 1:4} slowed to {slower / 10:g} %: {said} {run.verdicts[0].ratio:.3f} {run.stopped}", flush=True
        )


def page(figures):
    print("| machine | what | trials | FASTER | SLOWER | SAME | UNDECIDED | REFUSED |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for weather, rows in figures.items():
        for name, counts in rows.items():
            said = [counts.get(word, 0) for word in ("FASTER", "SLOWER", "SAME", "UNDECIDED", "REFUSED")]
            print(f"| {weather} | {name} | {sum(said)} | {' | '.join(map(str, said))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--power", type=int, default=0, metavar="TRIALS", help="default trials of a slowed kernel")
    parser.add_argument("--slower", type=int, default=1050, help="in thousandths of the work")
    parser.add_argument("--busy", action="store_true", help="beside two spinning processes")
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--file", type=Path, default=Path("build/soak.json"))
    parser.add_argument("--page", action="store_true", help="print what the file holds and stop")
    given = parser.parse_args()
    figures = json.loads(given.file.read_text()) if given.file.exists() else {}
    if given.page:
        page(figures)
        return
    weather = "beside two spinning processes" if given.busy else "idle"
    state = {name: Counter(counts) for name, counts in figures.get(weather, {}).items()}
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2 * given.busy)]
    try:
        self_comparisons(given.kernels, given.trials, state)
        power(given.power, state, given.slower)
    except KeyboardInterrupt:
        print("ended; what was done is kept")
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
        given.file.parent.mkdir(parents=True, exist_ok=True)
        figures[weather] = {name: dict(counts) for name, counts in state.items()}
        given.file.write_text(json.dumps(figures, indent=2) + "\n")
    page(figures)


if __name__ == "__main__":
    main()
