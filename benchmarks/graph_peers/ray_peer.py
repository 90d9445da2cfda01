"""Ray on the same edges: `python ray_peer.py EDGES WORKERS REPEATS` prints one line of JSON.

Its processes are started before the clock is; the first tasks, which load the function into them, are not timed either.
The processor time is the driver's alone.
"""

from __future__ import annotations

import sys

import ray
from edges import Edges, load, measure


@ray.remote
def body(task: int, *_: object) -> int:
    return task


def run(edges: Edges) -> int:
    start, preds = edges
    tasks = len(start) - 1
    made: list[object] = []
    for t in range(tasks):
        made.append(body.remote(t, *[made[p] for p in preds[start[t] : start[t + 1]]]))
    return len(set(ray.get(made)) & set(range(tasks)))


if __name__ == "__main__":
    workers = int(sys.argv[2])
    ray.init(
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _node_ip_address="127.0.0.1",
    )
    try:
        ray.get([body.remote(i) for i in range(10 * workers)])
        measure("Ray", run, load(sys.argv[1]), dependencies="given")
    finally:
        ray.shutdown()
