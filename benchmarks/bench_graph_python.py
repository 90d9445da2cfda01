"""What a task costs from Python, beside the thread pool of the standard library.

    python benchmarks/bench_graph_python.py [--tasks 5000] [--rounds 15]

Every round runs each way once, in random order, and a ratio is that of two times of one round. A time goes from the
first submission until every task is done. Bodies do nothing.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from whet.graph import In, InOut, Runtime, kernel

POOL = "ThreadPoolExecutor(2)"
GOALS = {"native body": 20, "native body, two views, a scalar": 6, "Python body": 2, "map": 60, "replay": 60}


def nothing() -> None:
    """The body that Python runs."""


def ways(tasks: int, runtime: Runtime, pool: ThreadPoolExecutor) -> dict[str, Callable[[], None]]:
    empty = kernel("empty")
    a, b = np.zeros((tasks, 8)), np.zeros((tasks, 8))

    def in_pool() -> None:
        wait([pool.submit(nothing) for _ in range(tasks)])

    def native() -> None:
        for _ in range(tasks):
            runtime.submit(empty)
        runtime.wait()

    def with_views() -> None:
        for i in range(tasks):
            runtime.submit(empty, In(a[i]), InOut(b[i]), 1.5)
        runtime.wait()

    def python() -> None:
        for _ in range(tasks):
            runtime.submit(nothing)
        runtime.wait()

    def mapped() -> None:
        runtime.map(empty, In(a), InOut(b), 1.5).wait()

    with runtime.record() as graph:
        with_views()

    def replayed() -> None:
        graph.replay()

    names = [POOL, *GOALS]
    return dict(zip(names, (in_pool, native, with_views, python, mapped, replayed), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    with Runtime(workers=2) as runtime, ThreadPoolExecutor(2) as pool:
        contenders = ways(asked.tasks, runtime, pool)
        took: dict[str, list[float]] = {name: [] for name in contenders}
        spent: dict[str, list[float]] = {name: [] for name in contenders}
        order = random.Random(1)
        for number in range(asked.rounds + 1):
            for name in order.sample(list(contenders), len(contenders)):
                began, processor = time.perf_counter(), time.process_time()
                contenders[name]()
                if number:  # the first round warms up
                    took[name].append((time.perf_counter() - began) / asked.tasks)
                    spent[name].append((time.process_time() - processor) / asked.tasks)
    print(f"{asked.tasks} tasks, {asked.rounds} rounds, two workers; median (best, worst)")
    print("µs per task, of the processor in brackets, and which part of the pool's cost that is")
    for name, times in took.items():
        ratios = sorted(pool_s / own for pool_s, own in zip(took[POOL], times, strict=True))
        text = f"{name:34} {statistics.median(times) * 1e6:8.3f} ({min(times) * 1e6:.3f}, {max(times) * 1e6:.3f})"
        text += f" [{statistics.median(spent[name]) * 1e6:.3f}]"
        if name in GOALS:
            middle = statistics.median(ratios)
            reached = "met" if middle >= GOALS[name] else "not met"
            text += f"   1/{middle:.1f} (1/{ratios[-1]:.1f}, 1/{ratios[0]:.1f}), goal 1/{GOALS[name]} {reached}"
        print(text)


if __name__ == "__main__":
    main()
