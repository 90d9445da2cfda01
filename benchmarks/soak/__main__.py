"""Self-comparison and power on the noise of this very machine: `python benchmarks/soak --trials 200 [--busy]`.

Every trial is what `whet ab --quick` does, on fresh processes. A kernel against itself must not come out FASTER or
SLOWER; one slowed by 5 % must be found by a default trial. Every trial is added to a JSON file at once, by machine and
by what ran beside it, so that a soak can be ended at any time and continued, and several can run at once (`taskset`
gives each a core of its own); `--page` prints the file as a table.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
import time
from pathlib import Path

from whet.evidence import statistics
from whet.evidence.compare import compare
from whet.evidence.comparison import ab
from whet.evidence.environment import capture
from whet.evidence.record import CONTROL

HERE = Path(__file__).parent
TWINS = HERE / "twins.py"
# Name, engine, the two names of one kernel, size.
KERNELS = {
    "100 us": (f"{TWINS}:Twins", ("first", "second"), 2**14),
    "5 ms": (f"{TWINS}:Twins", ("first", "second"), 2**19),
    "two threads": (f"{TWINS}:TwinsInThreads", ("first", "second"), 2**18),
    "msm affine 2^10": ("msm", ("affine", "affine:windows=0"), 2**10),
}
# How many trials have an interval without 1 at these confidences tells more than their verdicts, which are rare.
CONFIDENCES = (0.95, 0.99)
SPIN = "while True: pass"
SPINNING = "two spinning processes"


class Figures:
    """Counts by machine, neighbours and kernel; written after every trial, by several soaks at once if need be."""

    def __init__(self, path: Path, machine: str = "", beside: str = "") -> None:
        self.path = path
        self.place = (machine, beside)

    def add(self, name: str, word: str, number: float = 1) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            everything = json.loads(file.read() or "{}")
            machine, beside = self.place
            counts = everything.setdefault(machine, {}).setdefault(beside, {}).setdefault(name, {})
            counts[word] = round(counts.get(word, 0) + number, 1)
            file.truncate(0)
            file.write(json.dumps(everything, indent=2) + "\n")

    def page(self) -> None:
        words = ("FASTER", "SLOWER", "SAME", "UNDECIDED", "REFUSED")
        print(f"| machine | beside | what | trials | {' | '.join(words)} | without 1 at 95, 99 % |")
        print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|")
        for machine, weathers in json.loads(self.path.read_text()).items():
            for beside, rows in weathers.items():
                for name, counts in rows.items():
                    said = [counts.get(word, 0) for word in words]
                    without = ", ".join(str(counts.get(f"without 1 at {one:.0%}", "")) for one in CONFIDENCES)
                    row = [machine, beside, name, sum(said), *said, without]
                    print(f"| {' | '.join(map(str, row))} |")


def self_comparisons(kernels, trials, figures):
    """Trials of each kernel in turn, so that the machine's weather falls on all of them."""
    before = {}
    for number in range(trials):
        for name in kernels:
            ref, names, n = KERNELS[name]
            started = time.monotonic()
            run = ab(ref, *names, sizes={"n": n}, budget="quick")
            said = run.verdicts[0].outcome.value
            figures.add(name, said)
            figures.add(name, "seconds", time.monotonic() - started)
            for arm, word in ((names[1], "without 1"), (CONTROL, "control without 1")):
                for confidence in CONFIDENCES:
                    figures.add(name, f"{word} at {confidence:.0%}", excludes_one(run, names[0], arm, confidence))
            if said in ("FASTER", "SLOWER", "REFUSED"):
                print(f"  {name}: {said}: {run.verdicts[0].reasons}", flush=True)
            if name in before:
                for change in compare(before[name], run, effect=0.02).changes:
                    figures.add(f"compare: {name}", change.outcome.value)
            before[name] = run
            print(f"{number + 1:4} {name}: {said} {run.verdicts[0].ratio or 0:.3f}", flush=True)


def excludes_one(run, baseline, arm, confidence):
    """Whether the interval of so much confidence over the blocks of one whole trial leaves out what is true."""
    first, second = (statistics.times([one for one in run.samples if one.variant == name]) for name in (baseline, arm))
    found = statistics.interval(second, first, confidence=confidence)
    return int(found is not None and not found.low <= 1 <= found.high)


def power(trials, figures, slower):
    ref, names, n = KERNELS["100 us"]
    what = f"work of {slower / 10:g} %"
    for number in range(trials):
        run = ab(ref, names[0], f"{names[1]}:slower={slower}", sizes={"n": n})
        said = run.verdicts[0].outcome.value
        figures.add(what, said)
        print(f"{number + 1:4} {what}: {said} {run.verdicts[0].ratio or 0:.3f} {run.stopped}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--power", type=int, default=0, metavar="TRIALS", help="default trials of a slowed kernel")
    parser.add_argument("--slower", type=int, default=1050, help="in thousandths of the work")
    parser.add_argument("--busy", action="store_true", help=f"beside {SPINNING}")
    parser.add_argument("--beside", default="nothing", help="what else runs, where it is not the soak that starts it")
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--file", type=Path, default=HERE / "figures.json")
    parser.add_argument("--page", action="store_true", help="print what the file holds and stop")
    given = parser.parse_args()
    if given.page:
        Figures(given.file).page()
        return
    cpu = capture()["cpu"]
    machine = f"{cpu.get('model', 'unknown')}, {cpu.get('usable_cores', '?')} cores"
    figures = Figures(given.file, machine, SPINNING if given.busy else given.beside)
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2 * given.busy)]
    try:
        self_comparisons(given.kernels, given.trials, figures)
        power(given.power, figures, given.slower)
    except KeyboardInterrupt:
        print("ended; what was done is kept")
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    figures.page()


if __name__ == "__main__":
    main()
