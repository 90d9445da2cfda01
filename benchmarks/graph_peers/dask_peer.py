"""Dask on the same edges: `python dask_peer.py EDGES THREADS REPEATS` prints one line of JSON."""

from __future__ import annotations

import sys

import dask.threaded
from edges import Edges, load, measure


def run(edges: Edges) -> int:
    start, preds = edges
    tasks = len(start) - 1
    ran = bytearray(tasks)

    def body(task: int, *_: object) -> int:
        ran[task] += 1
        return task

    graph = {f"t{t}": (body, t, *[f"t{p}" for p in preds[start[t] : start[t + 1]]]) for t in range(tasks)}
    dask.threaded.get(graph, list(graph), num_workers=int(sys.argv[2]))
    return ran.count(1)


if __name__ == "__main__":
    measure("Dask threads", run, load(sys.argv[1]), dependencies="built")
