"""Ray and Dask as what a cluster stands on: start, cost of a call, moving 32 MB, an actor whose process is killed.

    python benchmarks/cluster_peers.py ray|dask

Each is run in an environment that has it: whet[cluster], or `pip install 'dask[distributed]'`. Nothing else is needed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

CALLS = 300
MOVED = np.zeros(32 << 20, np.uint8)


class Holder:
    """A stateful worker, as both call it."""

    def __init__(self) -> None:
        self.points = np.zeros(1 << 20, np.uint8)

    def pid(self) -> int:
        return os.getpid()

    def size(self, data: np.ndarray) -> int:
        return int(data[-1]) + len(data)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def told(name: str, start_s: float, actor_s: float, call: Callable[[], object], move: Callable[[], object]) -> None:
    print(f"{name}: started {start_s:.2f} s, first answer of an actor {actor_s:.2f} s")
    print(f"call: median {median(timed(call) for _ in range(CALLS)) * 1e3:.2f} ms")
    print(f"32 MB to the actor: median {median(timed(move) for _ in range(20)) * 1e3:.1f} ms")


def on_ray() -> None:
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_enable_worker_prestart="0")
    import ray

    began = time.perf_counter()
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    start = time.perf_counter() - began
    began = time.perf_counter()
    actor = ray.remote(max_restarts=-1)(Holder).remote()
    pid = ray.get(actor.pid.remote())
    told(
        "ray " + ray.__version__, start, time.perf_counter() - began,
        lambda: ray.get(actor.pid.remote()), lambda: ray.get(actor.size.remote(ray.put(MOVED))),
    )  # fmt: skip
    os.kill(pid, signal.SIGKILL)
    began = time.perf_counter()
    while True:
        try:
            assert ray.get(actor.pid.remote(), timeout=60) != pid
            break
        except ray.exceptions.RayActorError:
            time.sleep(0.02)
    print(f"after kill -9 the same actor answers: {time.perf_counter() - began:.2f} s")
    print(f"ended: {timed(ray.shutdown):.2f} s")


def on_dask() -> None:
    import distributed

    began = time.perf_counter()
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    client = distributed.Client(cluster)
    start = time.perf_counter() - began
    began = time.perf_counter()
    actor = client.submit(Holder, actor=True).result()
    pid = actor.pid().result()
    told(
        "distributed " + distributed.__version__, start, time.perf_counter() - began,
        lambda: actor.pid().result(), lambda: actor.size(MOVED).result(),
    )  # fmt: skip
    os.kill(pid, signal.SIGKILL)
    began = time.perf_counter()
    try:
        print(f"after kill -9 it answers: {actor.pid().result(timeout=60)}, {time.perf_counter() - began:.2f} s")
    except Exception as error:
        print(f"after kill -9: {type(error).__name__}: {str(error)[:120]} after {time.perf_counter() - began:.2f} s")
    print(f"ended: {timed(lambda: (client.close(), cluster.close())):.2f} s")


if __name__ == "__main__":
    {"ray": on_ray, "dask": on_dask}[sys.argv[1]]()
