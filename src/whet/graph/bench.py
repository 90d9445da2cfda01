"""ns per task: policies, replay and peers on the same graphs, interleaved in one run.

Every figure is the best and the median of several rounds, and the least processor time of all threads together; in a
round every contender runs once, so that a busy moment of the machine falls on all of them. A task is counted from
nothing to done: submission, resolution, dispatch, body, completion.

The bodies that are timed do nothing, so nothing of them can be checked. Before and after, every contender runs the same
graph with bodies that mix the numbers of their predecessors: one task lost, run twice or run too early, and there is
no figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import NamedTuple

import msgspec
import numpy as np

from whet.graph import workloads
from whet.graph.batch import Batch, Dependencies
from whet.graph.bodies import kernel
from whet.graph.built import Graph, hardware_workers
from whet.graph.choice import TRIES
from whet.graph.runtime import POLICIES, Runtime
from whet.graph.verification import Verifier
from whet.graph.workloads import Workload

# The programs that `make bench-peers` builds, and how many tasks they may be given before they take too long.
PEERS = {
    "floor": 1 << 20,
    "taskflow": 1 << 20,
    "tbb_tasks": 1 << 20,
    "tbb_flow": 1 << 20,
    "openmp_gomp": 1 << 18,
    "openmp_omp": 1 << 18,
    "starpu": 1 << 14,
    "dask": 1 << 11,
    "ray": 1 << 11,
}
PEER_LIMIT_S = 60
# Ray reports its use home unless told otherwise.
PEER_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0"}
GROWTH = (1_000, 8_000, 65_000, 500_000)
DEFAULT = ("pa:Case1", "pa:Case4", "bgemm:Case0", "chain", "wavefront", "fan", "random", "cholesky")


class Time(NamedTuple):
    """One run, per task."""

    wall_ns: float
    cpu_ns: float


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one graph."""

    workload: str
    tasks: int
    edges: int
    contender: str
    what: str
    dependencies: str
    workers: int
    best_ns: float
    median_ns: float
    cpu_ns: float
    rounds: list[Time]


Note = Callable[[str], None]


def _figure(work: Workload, key: tuple[str, str, str], workers: int, times: list[Time]) -> Figure:
    contender, what, dependencies = key
    return Figure(
        workload=work.name,
        tasks=work.tasks,
        edges=work.edges,
        contender=contender,
        what=what,
        dependencies=dependencies,
        workers=workers,
        best_ns=round(min(t.wall_ns for t in times), 2),
        median_ns=round(median(t.wall_ns for t in times), 2),
        cpu_ns=round(min(t.cpu_ns for t in times), 2),
        rounds=[Time(round(t.wall_ns, 2), round(t.cpu_ns, 2)) for t in times],
    )


def _submit_and_wait(batch: Batch, runtime: Runtime) -> None:
    batch.submit(runtime)
    runtime.wait()


def window_for(work: Workload) -> int:
    """4,096 tasks, which a core's own cache holds, or more where twice the largest outermost scope needs it."""
    if len(work.scope_open) == 0:
        return 1 << 12
    outside = np.cumsum(work.scope_open - work.scope_close) == work.scope_open
    begins = np.flatnonzero(outside & (work.scope_open > 0))
    largest = int(np.diff(np.append(begins, work.tasks)).max(initial=1))
    return 1 << max(12, (2 * largest - 1).bit_length())


def ours(work: Workload, workers: int, rounds: int) -> list[Figure]:
    """Three policies with inferred and with given edges, and the replay of the built graph."""
    runtimes = {p: Runtime(policy=p, workers=workers, window=window_for(work)) for p in POLICIES}
    batches: dict[Dependencies, Batch] = {
        "inferred": Batch(work, dependencies="inferred"),
        "given": Batch(work, dependencies="given"),
    }
    if work.manual:
        del batches["inferred"]
    built = Graph.from_workload(work)
    chosen = Graph.from_workload(work)
    for _ in range(2 * TRIES):
        chosen.replay()
    verifier = Verifier(work)

    def verify() -> None:
        for policy, runtime in runtimes.items():
            for dependencies in batches:
                verifier.runtime(runtime, dependencies, f"{policy} with {dependencies} edges")
        verifier.replay(workers, "replay")
        verifier.replay(workers, "replay, edges counted", coarsen=False)
        if workers == hardware_workers() > 1:
            verifier.replay(None, "replay, workers chosen")

    times: dict[tuple[str, str, str], list[Time]] = {}

    def timed(key: tuple[str, str, str], run: Callable[[], object]) -> None:
        cpu, began = time.process_time_ns(), time.perf_counter_ns()
        run()
        wall = (time.perf_counter_ns() - began) / work.tasks
        times.setdefault(key, []).append(Time(wall, (time.process_time_ns() - cpu) / work.tasks))

    try:
        verify()
        for _ in range(rounds + 1):
            for policy, runtime in runtimes.items():
                for dependencies, batch in batches.items():
                    timed((policy, "fresh", dependencies), partial(_submit_and_wait, batch, runtime))
            timed(("replay", "replay", "built"), lambda: built.replay(workers=workers))
            if workers == hardware_workers() > 1:
                timed(("replay, workers chosen", "replay", "built"), chosen.replay)
            timed(("replay, edges counted", "replay", "built"), lambda: built.replay(workers=workers, coarsen=False))
            timed(("build and replay", "fresh", "built"), lambda: Graph.from_workload(work).replay(workers=workers))
        verify()
    finally:
        for runtime in runtimes.values():
            runtime.close(10.0)
    # The first round warms up caches and threads.
    return [_figure(work, key, workers, values[1:]) for key, values in times.items()]


def write_edges(work: Workload, path: Path) -> None:
    """The file that the peer programs read: a tag, two counts, predecessor offsets, predecessors."""
    head = np.array([work.tasks, work.edges], np.int64)
    path.write_bytes(b"whetdag1" + head.tobytes() + work.dep_start.tobytes() + work.dep_task.tobytes())


def installed_peers(folder: Path) -> dict[str, list[str]]:
    """Commands of the peers that are built in `folder`."""
    folder = folder.resolve()
    found = {name: [str(folder / name)] for name in PEERS if (folder / name).is_file()}
    python = folder / "venv" / "bin" / "python"
    scripts = {name: folder / f"{name}_peer.py" for name in PEERS}
    found |= {name: [str(python), str(path)] for name, path in scripts.items() if python.exists() and path.is_file()}
    return found


def peers(work: Workload, workers: int, rounds: int, folder: Path) -> list[Figure]:
    """The peers on the same edges, round by round. One that fails or takes too long is left out of this graph."""
    times: dict[tuple[str, str, str], list[Time]] = {}
    commands = {n: c for n, c in installed_peers(folder).items() if work.tasks <= PEERS[n]}
    with tempfile.TemporaryDirectory() as scratch:
        edges = Path(scratch) / "graph.dag"
        write_edges(work, edges)
        for _ in range(rounds):
            for name, command in list(commands.items()):
                try:
                    done = subprocess.run(
                        [*command, str(edges), str(workers), "3"],
                        capture_output=True,
                        text=True,
                        timeout=PEER_LIMIT_S,
                        check=True,
                        cwd=scratch,
                        env={**os.environ, **PEER_ENVIRONMENT},
                    )
                except (subprocess.SubprocessError, OSError):
                    del commands[name]
                    continue
                for line in done.stdout.splitlines():
                    row = json.loads(line)
                    key = (row["peer"], row["what"], row["dependencies"])
                    walls = (row["best_ns_per_task"], row["ns_per_task"])
                    times.setdefault(key, []).extend(Time(wall, row["cpu_ns_per_task"]) for wall in walls)
    return [_figure(work, key, workers, values) for key, values in times.items()]


def growth(rounds: int, note: Note) -> list[Figure]:
    """One family from a thousand to half a million tasks: the cost per task should not grow."""
    figures = []
    for tasks in GROWTH:
        work = workloads.of_size("pa", tasks)
        note(f"growth: {work.tasks:,} tasks")
        figures += ours(work, min(2, hardware_workers()), rounds)
    return figures


def scaling(body_ns: int = 1000, tasks: int = 20_000) -> dict[str, float]:
    """Wall time of bodies that each take `body_ns`, one worker against two: speed-up per way of running."""
    work = workloads.of_size("pa", tasks)
    duration = np.array([body_ns], np.uint64)
    bodies = [kernel("spin").with_user(duration)] * len(work.kinds)
    built = Graph.from_workload(work, bodies)
    batch = Batch(work, bodies)
    took: dict[tuple[str, int], list[float]] = {}
    runtimes = {w: Runtime(workers=w, window=window_for(work)) for w in (1, 2)}
    verifier = Verifier(work)
    try:
        for workers, runtime in runtimes.items():
            verifier.replay(workers, "replay")
            verifier.runtime(runtime, "inferred", "hybrid")
        for _ in range(3):
            for workers, runtime in runtimes.items():
                began = time.perf_counter()
                built.replay(workers=workers)
                middle = time.perf_counter()
                _submit_and_wait(batch, runtime)
                took.setdefault(("replay", workers), []).append(middle - began)
                took.setdefault(("hybrid", workers), []).append(time.perf_counter() - middle)
    finally:
        for runtime in runtimes.values():
            runtime.close(10.0)
    return {how: round(min(took[how, 1]) / min(took[how, 2]), 3) for how in ("replay", "hybrid")}


def build_ms(name: str = "pa:Case1") -> float:
    """From numpy arrays to a built graph, in Python."""
    work = workloads.make(name)
    Verifier(work).replay(1, "a built graph")
    times = []
    for _ in range(5):
        began = time.perf_counter_ns()
        Graph.from_workload(work)
        times.append((time.perf_counter_ns() - began) / 1e6)
    return round(min(times), 2)


def policy_gain(figures: Iterable[Figure], dependencies: str, workers: int, *, cpu: bool = False) -> float | None:
    """Geometric mean over the workloads of wired time / hybrid time, wall or processor. Above 1: hybrid is ahead.

    Of each workload the median of the ratios within rounds: a machine that is slower for a while is so for both.
    """
    chosen = {(f.workload, f.contender): f for f in figures if (f.dependencies, f.workers) == (dependencies, workers)}
    ratios = []
    for (workload, contender), hybrid in chosen.items():
        wired = chosen.get((workload, "wired"))
        if contender != "hybrid" or wired is None:
            continue
        pairs = zip(wired.rounds, hybrid.rounds, strict=True)
        ratios.append(median(w.cpu_ns / h.cpu_ns if cpu else w.wall_ns / h.wall_ns for w, h in pairs))
    return round(geometric_mean(ratios), 3) if ratios else None
