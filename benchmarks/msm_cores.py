"""The tasks of one sum on simulated cores: python benchmarks/msm_cores.py [12 14 16 18]

For each size and number of cores the work is cut as for so many threads and computed by one, the processor time of
every task is taken, and the tasks are scheduled on so many cores (whet.graph.simulate). Least of a few rounds, of which
each has every row once. Beside it the same with one slice per window. Two threads are measured as well: what the
simulation says of two cores can be held against that.
"""

from __future__ import annotations

import sys
import time

from whet.graph.simulate import Simulated, simulate
from whet.msm import inputs as make
from whet.msm.affine import Affine
from whet.msm.trace import as_graph

CORES = (1, 2, 4, 16, 64)
ONE_SLICE = 1


def simulated(engine: Affine, scalars: object, cores: int, slices: int) -> tuple[Simulated, int]:
    _, work, steps = engine.trace(scalars, cut_for=cores, slices=slices)
    return simulate(as_graph(steps), cores), work["slices"]


def wall_ns(engine: Affine, scalars: object) -> int:
    begun_ns = time.perf_counter_ns()
    engine.run(scalars, 0)
    return time.perf_counter_ns() - begun_ns


def table(size: int) -> None:
    n = 1 << size
    points, scalars = make.points_from_logs(make.logs("random", n, 1)), make.scalars("random", n, 2)
    alone, pair = Affine.prepared(points, threads=1), Affine.prepared(points, threads=2)
    cut: dict[tuple[int, int], list[tuple[Simulated, int]]] = {}
    one_ns, two_ns = [], []
    for _ in range(max(3, min(15, 2 ** (17 - size)))):
        for cores in CORES:
            for slices in (ONE_SLICE, 0):
                cut.setdefault((cores, slices), []).append(simulated(alone, scalars, cores, slices))
        one_ns.append(wall_ns(alone, scalars))
        two_ns.append(wall_ns(pair, scalars))
    best = {key: min(told, key=lambda one: one[0].span_ns) for key, told in cut.items()}
    serial_ns = best[1, 0][0].span_ns
    for cores in CORES:
        told, slices = best[cores, 0]
        before, _ = best[cores, ONE_SLICE]
        speed_up = serial_ns / told.span_ns
        measured = f"{min(one_ns) / min(two_ns):.2f}" if cores == 2 else ""
        print(
            f"| 2^{size} | {cores} | {slices} | {told.tasks:,} | {speed_up:.1f} | {100 * speed_up / cores:.0f} % "
            f"| {told.critical_ns / serial_ns:.3f} | {told.work_ns / serial_ns:.2f} "
            f"| {before.tasks:,}, {serial_ns / before.span_ns:.1f} | {measured} |",
            flush=True,
        )


if __name__ == "__main__":
    print(
        "| n | cores | slices | tasks | speed-up | efficiency | critical path | work "
        "| one slice: tasks, speed-up | measured |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for argument in sys.argv[1:] or ["12", "14", "16", "18"]:
        table(int(argument))
