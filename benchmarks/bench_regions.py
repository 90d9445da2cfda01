"""What regions cost: one recorded trip, and how the analysis grows with the workers. CPU time throughout."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from whet.regions import account, judge, predict, record, recorder_tax, recording, reduce
from whet.regions.capture import CELL, About, Capture, make_capture
from whet.regions.schema import Region, Schema

TRIPS = 20_000


def best_ns(work: Callable[[], object], rounds: int = 7) -> int:
    """The least CPU time of several rounds: what the work costs when nothing else gets in its way."""
    taken = []
    for _ in range(rounds):
        start = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - start)
    return min(taken)


def empty_blocks() -> None:
    empty = nullcontext()
    for _ in range(TRIPS):
        with empty:
            pass


def recorded_blocks() -> None:
    for _ in range(TRIPS):
        with record("block"):
            pass


def recorded_on() -> None:
    with recording("bench"):
        recorded_blocks()


def tuned_work() -> np.ndarray:
    """Twenty passes over 1.6 MB with a region around each: what a sensible grain looks like."""
    values = np.linspace(0.0, 1.0, 200_000)
    for _ in range(20):
        with record("pass"):
            values = np.sqrt(values * 0.5 + 0.25)
    return values


def two_phase_launch(workers: int) -> Capture:
    """Work, a barrier and work again, with a different last arriver for every seed."""
    rng = np.random.default_rng(1)
    first = 1 + rng.integers(0, 50, workers)
    arrive = first + rng.integers(1000, 9000, workers)
    release = int(arrive.max()) + 10
    last = release + rng.integers(5000, 6000, workers)
    cells = np.zeros((workers, 3), dtype=CELL)
    for column, (entry, leave) in enumerate(
        ((first, arrive), (arrive, np.full(workers, release)), (np.full(workers, release), last))
    ):
        cells["entry"][:, column], cells["exit"][:, column] = entry, leave
        cells["ticks"][:, column] = leave - entry
    cells["count"] = cells["written"] = 1
    regions = (
        Region(id=0, name="before", role="work", tags=("hot",)),
        Region(id=1, name="barrier", role="wait"),
        Region(id=2, name="after", role="work"),
    )
    about = About(grid={"workers": workers}, launch={"bench": 1}, total_ns=float(last.max()))
    return make_capture(cells, Schema(name="bench", regions=regions), about)


def main() -> None:
    empty, off, on = (best_ns(work) / TRIPS for work in (empty_blocks, recorded_blocks, recorded_on))
    print(f"one trip: empty block {empty:.0f} ns, recording off {off:.0f} ns, on {on:.0f} ns ({on / off:.1f}x off)")
    tax = recorder_tax(tuned_work, rounds=25)
    print(f"20 passes over 1.6 MB: tax {tax.tax:+.2%}, spread of runs without {tax.spread:.2%}, bits equal")
    print(f"{'workers':>8} {'reduce':>12} {'judge':>12} {'predict':>12}   us per worker")
    for workers in (64, 256, 1024, 4096):
        capture = two_phase_launch(workers)
        steps = (
            lambda capture=capture: reduce(capture, counted=account(capture)),
            lambda capture=capture: judge(capture, tag="hot"),
            lambda capture=capture: predict(capture, ["region=before factor=4"]),
        )
        print(f"{workers:>8} " + " ".join(f"{best_ns(step, 3) / workers / 1000:>12.1f}" for step in steps))


if __name__ == "__main__":
    main()
