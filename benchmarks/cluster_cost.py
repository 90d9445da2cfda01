"""What a cluster of workers costs against one engine with as many threads, on one machine.

One engine with T threads, T workers with one thread each, and one worker with T threads get the same points and
scalars, in turns; each cell is the least of the rounds over the least of the engine. `head`: the scalars go through
Ray's store. `file`: each worker reads its own from a file. Then start-up, small calls, a killed worker and a check.

    python benchmarks/cluster_cost.py [--sizes 16,18,20,22] [--rounds 5] [--folder FOLDER]

Points are made once and kept in FOLDER.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from whet.cluster import MsmCluster, PointsFile, ScalarsFile, connect
from whet.cluster.messages import Request, digest_of
from whet.msm import Engine, Srs
from whet.msm import inputs as make

MADE_AT_ONCE = 1 << 16
SMALL_CALLS = 200


def points_file(folder: Path, n: int) -> Path:
    path = folder / f"points_{n}.bin"
    if not path.exists():
        with path.with_suffix(".part").open("wb") as out:
            for at in range(0, n, MADE_AT_ONCE):
                rng = make.generator(1, f"points from {at}")
                out.write(make.points_from_logs(make.uniform(rng, min(MADE_AT_ONCE, n - at))).tobytes())
        path.with_suffix(".part").rename(path)
    return path


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def sizes_table(folder: Path, logs: list[int], rounds: int, threads: int) -> None:
    print(f"| points | engine, {threads} threads | {threads} workers, head | file | verify | 1 worker, head | load |")
    print("|---|---|---|---|---|---|---|")
    for log in logs:
        n = 1 << log
        source = PointsFile(str(points_file(folder, n)), "raw-le-mont", check="none")
        with (
            Srs.open(source.path, source.format, check="none") as srs,
            Engine(srs, threads=threads) as engine,
            MsmCluster(source, workers=1, threads=threads) as one,
        ):
            began = time.perf_counter()
            with MsmCluster(source, workers=threads, threads=1) as many:
                load = time.perf_counter() - began
                with MsmCluster(source, workers=threads, threads=1, verify=True) as checked:
                    print(
                        f"| 2^{log} | {row(folder, n, rounds, (engine, many, checked, one))} | {load:.1f} s |",
                        flush=True,
                    )


def row(folder: Path, n: int, rounds: int, sums: tuple[Engine, MsmCluster, MsmCluster, MsmCluster]) -> str:
    engine, many, checked, one = sums
    limbs = make.uniform(make.generator(2, f"scalars {n}"), n)
    path = folder / "scalars.bin"
    path.write_bytes(limbs.tobytes())
    named = ScalarsFile(str(path), "raw-le")
    ways: dict[str, Callable[[], object]] = {
        "engine": lambda: engine(limbs),
        "head": lambda: many(limbs),
        "file": lambda: many(named),
        "verify": lambda: checked(limbs),
        "one": lambda: one(limbs),
    }
    assert len({str(way()) for way in ways.values()}) == 1
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            spent[name].append(timed(way))
    least = {name: min(times) for name, times in spent.items()}
    cells = (f"{least[name] / least['engine']:.2f}" for name in ("head", "file", "verify", "one"))
    return " | ".join([f"{least['engine'] * 1e3:.1f} ms", *cells])


def small_figures(threads: int) -> None:
    rows = make.points_from_logs(make.uniform(make.generator(1, "few"), 64))
    limbs = make.uniform(make.generator(2, "few"), 64)
    began = time.perf_counter()
    with MsmCluster(rows, montgomery=True, workers=threads, threads=1) as cluster:
        print(f"workers started, points loaded: {time.perf_counter() - began:.2f} s")
        calls = [timed(lambda: cluster(limbs)) for _ in range(SMALL_CALLS)]
        with Engine(rows, montgomery=True, threads=1) as engine:
            alone = [timed(lambda: engine(limbs)) for _ in range(SMALL_CALLS)]
        print(f"one sum of 64 points: {median(calls) * 1e3:.2f} ms (engine {median(alone) * 1e3:.2f} ms)")
        jobs = 4000
        print(f"the same by map: {timed(lambda: list(cluster.map([limbs] * jobs))) / jobs * 1e3:.3f} ms each")
        back = []
        for _ in range(5):
            os.kill(cluster.describe().rows[0].pid, signal.SIGKILL)
            back.append(timed(lambda: cluster(limbs)))
        print(f"the sum after kill -9 of a worker: {median(back):.2f} s")


def bytes_per_scalar(n: int = 1 << 16) -> None:
    limbs = make.uniform(make.generator(2, "bytes"), n)
    with MsmCluster(np.zeros((n, 8), np.uint64), check="none", workers=2, threads=1) as cluster:
        shards = cluster._shards
        heads = [pickle.dumps(Request("job", shard, 1, digest_of(limbs[shard.start : shard.stop]))) for shard in shards]
        each = sum(map(len, heads)) / len(heads)
        print(f"out: 32 bytes per scalar and {each:.0f} per worker and call; back: 64 per sum and worker, and a frame")
        file = ScalarsFile("/data/scalars", "raw-le")
        named = [pickle.dumps(Request("job", shard, 1, file.identity, parts=(file,))) for shard in shards]
        print(f"out with scalars from a file: {sum(map(len, named)) / len(named):.0f} bytes per worker and call")


def main() -> None:
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--sizes", default="16,18,20", help="log2 of the points")
    read.add_argument("--rounds", type=int, default=5)
    read.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    read.add_argument("--folder", type=Path)
    read.add_argument("--make", action="store_true", help="make the points and end")
    given = read.parse_args()
    logs = [int(log) for log in given.sizes.split(",")]
    with tempfile.TemporaryDirectory() as own:
        folder = given.folder or Path(own)
        for log in logs:
            points_file(folder, 1 << log)
        if given.make:
            return
        began = time.perf_counter()
        with connect(workers=8 * given.threads, object_store_bytes=2 << 30):
            print(f"Ray started: {time.perf_counter() - began:.2f} s")
            small_figures(given.threads)
            bytes_per_scalar()
            sizes_table(folder, logs, given.rounds, given.threads)
            began = time.perf_counter()
        print(f"Ray ended: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
