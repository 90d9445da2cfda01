"""Dask on the same edges: `python dask_peer.py EDGES THREADS REPEATS` prints one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from statistics import median

import numpy as np


def load(path: str) -> tuple[np.ndarray, np.ndarray]:
    with open(path, "rb") as file:  # noqa: PTH123
        if file.read(8) != b"whetdag1":
            raise SystemExit(f"{path} is not an edge file")
        tasks, edges = np.frombuffer(file.read(16), np.int64)
        words = np.frombuffer(file.read(), np.int64)
    return words[: tasks + 1], words[tasks + 1 : tasks + 1 + edges]


def main() -> None:
    import dask.threaded

    path, threads, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    start, preds = load(path)
    tasks = len(start) - 1
    ran = bytearray(tasks)

    def body(task: int, *_: object) -> int:
        ran[task] += 1
        return task

    times, processor = [], []
    for _ in range(repeats):
        ran[:] = bytes(tasks)
        cpu, began = time.process_time_ns(), time.perf_counter_ns()
        graph = {f"t{t}": (body, t, *[f"t{p}" for p in preds[start[t] : start[t + 1]].tolist()]) for t in range(tasks)}
        dask.threaded.get(graph, list(graph), num_workers=threads)
        times.append((time.perf_counter_ns() - began) / tasks)
        processor.append((time.process_time_ns() - cpu) / tasks)
        if ran.count(1) != tasks:
            raise SystemExit("dask: a task did not run exactly once")
    line = {"peer": "Dask threads", "what": "fresh", "dependencies": "built", "threads": threads}
    figures = {"ns_per_task": median(times), "best_ns_per_task": min(times), "cpu_ns_per_task": min(processor)}
    print(json.dumps({**line, **{name: round(value, 2) for name, value in figures.items()}}))


if __name__ == "__main__":
    main()
