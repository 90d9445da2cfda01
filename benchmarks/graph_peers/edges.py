"""What the peers written in Python share: the edges they read and the line of JSON they print."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

Edges = tuple[list[int], list[int]]


def load(path: str) -> Edges:
    """Predecessor offsets and predecessors."""
    with open(path, "rb") as file:  # noqa: PTH123
        if file.read(8) != b"whetdag1":
            raise SystemExit(f"{path} is not an edge file")
        tasks, edges = np.frombuffer(file.read(16), np.int64)
        words = np.frombuffer(file.read(), np.int64)
    return words[: tasks + 1].tolist(), words[tasks + 1 : tasks + 1 + edges].tolist()


def measure(peer: str, run: Callable[[Edges], int], edges: Edges, *, dependencies: str) -> None:
    """Times `run`, which returns how many tasks it ran, as often as the command line says."""
    threads, repeats = int(sys.argv[2]), int(sys.argv[3])
    tasks = len(edges[0]) - 1
    times, processor = [], []
    for _ in range(repeats):
        cpu, began = time.process_time_ns(), time.perf_counter_ns()
        ran = run(edges)
        times.append((time.perf_counter_ns() - began) / tasks)
        processor.append((time.process_time_ns() - cpu) / tasks)
        if ran != tasks:
            raise SystemExit(f"{peer}: {ran} of {tasks} tasks ran exactly once")
    line = {"peer": peer, "what": "fresh", "dependencies": dependencies, "threads": threads}
    figures = {"ns_per_task": median(times), "best_ns_per_task": min(times), "cpu_ns_per_task": min(processor)}
    print(json.dumps({**line, **{name: round(value, 2) for name, value in figures.items()}}))
