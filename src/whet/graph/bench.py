"""ns per task: policies, replay and peers on the same graphs, interleaved in one run.

Every figure is the best and the median of several rounds, and the least processor time of all threads together; in a
round every contender runs once, so that a busy moment of the machine falls on all of them. How ours run, and why a
wrong one has no figure, is in `overhead`.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import NamedTuple

import msgspec
import numpy as np

from whet.graph.overhead import PROCESSOR, WALL, case_of, workload_of
from whet.graph.replay import hardware_workers
from whet.graph.runtime import POLICIES
from whet.graph.workloads import Workload
from whet.protocol import Case

# The programs that `make bench-peers` builds, and how many tasks they may be given before they take too long.
PEERS = {
    "floor": 1 << 20,
    "taskflow": 1 << 20,
    "tbb_tasks": 1 << 20,
    "tbb_flow": 1 << 20,
    "levels_gomp": 1 << 20,
    "levels_omp": 1 << 20,
    "levels_tbb": 1 << 20,
    "levels_rayon": 1 << 20,
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
# Variants of the overhead engine, a case and how many turns: what each turn of each variant took, all answers checked.
Turns = Callable[[Sequence[str], Case, int], Mapping[str, Sequence[Mapping[str, int]]]]


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


class Run(NamedTuple):
    """A contender as the tables name it, and the variant that it is."""

    contender: str
    what: str
    dependencies: str
    variant: str


def contenders(work: Workload, workers: int) -> list[Run]:
    """Three policies with inferred and with given edges, and the replay of the built graph."""
    edges = ("given",) if work.manual else ("inferred", "given")
    fresh = [Run(p, "fresh", e, f"{p}:workers={workers},edges={e}") for p in POLICIES for e in edges]
    replays = [
        Run("replay", "replay", "built", f"replay:workers={workers}"),
        Run("replay, edges counted", "replay", "built", f"replay:workers={workers},coarsen=false"),
        Run("build and replay", "fresh", "built", f"build-and-replay:workers={workers}"),
    ]
    if workers == hardware_workers() > 1:
        replays.append(Run("replay, workers chosen", "replay", "built", "replay:workers=0"))
    return [*fresh, *replays]


def ours(case: Case, workers: int, rounds: int, turns: Turns) -> list[Figure]:
    work = workload_of(case)
    runs = contenders(work, workers)
    taken = turns([run.variant for run in runs], case, rounds)
    return [_figure(work, run[:3], workers, _per_task(taken[run.variant], work.tasks)) for run in runs]


def _per_task(turns: Sequence[Mapping[str, int]], tasks: int) -> list[Time]:
    return [Time(turn[WALL] / tasks, turn[PROCESSOR] / tasks) for turn in turns]


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


def growth(rounds: int, turns: Turns, note: Note) -> list[Figure]:
    """One family from a thousand to half a million tasks: the cost per task should not grow."""
    figures = []
    for tasks in GROWTH:
        note(f"growth: {tasks:,} tasks")
        figures += ours(case_of("pa", tasks), min(2, hardware_workers()), rounds, turns)
    return figures


def scaling(turns: Turns, body_ns: int = 1000, tasks: int = 20_000) -> dict[str, float]:
    """Wall time of bodies that each take `body_ns`, one worker against two: speed-up per way of running."""
    ways = ("replay", "hybrid")
    variants = {(how, workers): f"{how}:workers={workers}" for how in ways for workers in (1, 2)}
    taken = turns(list(variants.values()), case_of("pa", tasks, body_ns), 3)
    best = {key: min(turn[WALL] for turn in taken[variant]) for key, variant in variants.items()}
    return {how: round(best[how, 1] / best[how, 2], 3) for how in ways}


def build_ms(turns: Turns, name: str = "pa:Case1") -> float:
    """From numpy arrays to a built graph, in Python."""
    return round(min(turn[WALL] for turn in turns(["build"], case_of(name), 5)["build"]) / 1e6, 2)


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
