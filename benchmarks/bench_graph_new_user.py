"""Three small programs, each written as a newcomer would with each library, on the same bodies.

    pip install dask joblib
    python benchmarks/bench_graph_new_user.py [--rounds 5] [--without dask]

A stencil in blocks, a tiled Cholesky factor, and a map over 100,000 small arrays. Every round runs each way once, in
random order; every answer is compared with numpy's. Two threads each, one thread for BLAS. Pool and joblib know no
dependencies, so they wait for all tasks of a step before the next.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from whet.graph import In, InOut, OutExisting, Runtime, task
from whet.graph.functions import Reads, Writes

Way = Callable[[], Any]
ALONE, POOL, JOBLIB, DASK = "numpy alone", "ThreadPoolExecutor(2)", "joblib, 2 threads", "dask.delayed, 2 threads"
GRAPH, REPLAY, COMPILED = "whet.graph", "whet.graph, recorded", "whet.graph, numba bodies"
BLOCKS = "numpy alone, in blocks"

SINGLE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
SIZE, BLOCK, STEPS = 512, 64, 20
TILES, TILE = 12, 48
ROWS, WIDTH = 100_000, 16
DASK_SHARE = 10  # it takes a minute for all rows, so it gets a tenth of them and the time counts ten times


def in_joblib(function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> list[Any]:
    import joblib

    made = joblib.Parallel(n_jobs=2, prefer="threads", require="sharedmem")(
        joblib.delayed(function)(*arguments) for arguments in calls
    )
    return list(made)


def in_pool(pool: ThreadPoolExecutor, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> None:
    for future in [pool.submit(function, *arguments) for arguments in calls]:
        future.result()


def in_dask(tasks: list[Any]) -> None:
    import dask

    dask.compute(*tasks, scheduler="threads", num_workers=2)


# ---- a stencil


def smooth(field: np.ndarray, block: np.ndarray) -> None:
    block[:] = 0.25 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:])


def stencil(runtime: Runtime, pool: ThreadPoolExecutor) -> dict[str, Way]:
    start = np.zeros((SIZE + 2, SIZE + 2))
    start[100:200, 100:300] = 100.0
    fields = [start.copy(), np.zeros_like(start)]
    places = [(row, column) for row in range(0, SIZE, BLOCK) for column in range(0, SIZE, BLOCK)]

    def calls(step: int) -> list[tuple[np.ndarray, np.ndarray]]:
        here, there = fields[step % 2], fields[1 - step % 2]
        return [
            (here[r : r + BLOCK + 2, c : c + BLOCK + 2], there[r + 1 : r + BLOCK + 1, c + 1 : c + BLOCK + 1])
            for r, c in places
        ]

    def begin() -> None:
        fields[0][:], fields[1][:] = start, 0.0

    def end() -> np.ndarray:
        return fields[STEPS % 2]

    def alone() -> np.ndarray:
        begin()
        for step in range(STEPS):
            smooth(fields[step % 2], fields[1 - step % 2][1:-1, 1:-1])
        return end()

    def in_blocks() -> np.ndarray:
        begin()
        for step in range(STEPS):
            for field, block in calls(step):
                smooth(field, block)
        return end()

    def pooled() -> np.ndarray:
        begin()
        for step in range(STEPS):
            in_pool(pool, smooth, calls(step))
        return end()

    def joblibbed() -> np.ndarray:
        begin()
        for step in range(STEPS):
            in_joblib(smooth, calls(step))
        return end()

    def dasked() -> np.ndarray:
        import dask

        begin()
        run = dask.delayed(lambda field, block, *_: smooth(field, block), pure=False)
        last: dict[tuple[int, int], Any] = {}
        for step in range(STEPS):
            near = {
                (r, c): [
                    last[(r + i * BLOCK, c + j * BLOCK)]
                    for i, j in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
                    if (r + i * BLOCK, c + j * BLOCK) in last
                ]
                for r, c in places
            }
            last = {place: run(*call, *near[place]) for place, call in zip(places, calls(step), strict=True)}
        in_dask(list(last.values()))
        return end()

    def graphed() -> np.ndarray:
        begin()
        for step in range(STEPS):
            for field, block in calls(step):
                runtime.submit(smooth, In(field), OutExisting(block))
        runtime.wait()
        return end()

    begin()
    with runtime.record() as recorded:
        for field, block in calls(0):
            runtime.submit(smooth, In(field), OutExisting(block))

    def replayed() -> np.ndarray:
        begin()
        for step in range(STEPS):
            recorded.replay(rebind=[(fields[0], fields[1]), (fields[1], fields[0])] if step % 2 else [])
        return end()

    ways: dict[str, Way] = {ALONE: alone, BLOCKS: in_blocks, POOL: pooled, JOBLIB: joblibbed, DASK: dasked}
    return {**ways, GRAPH: graphed, REPLAY: replayed}


# ---- a tiled Cholesky factor


def factor(diagonal: np.ndarray) -> None:
    diagonal[:] = np.linalg.cholesky(diagonal)


def solve(diagonal: np.ndarray, below: np.ndarray) -> None:
    below[:] = np.linalg.solve(diagonal, below.T).T


def subtract(left: np.ndarray, right: np.ndarray, target: np.ndarray) -> None:
    target -= left @ right.T


def cholesky(runtime: Runtime, pool: ThreadPoolExecutor) -> dict[str, Way]:
    half = np.random.default_rng(1).random((TILES * TILE, TILES * TILE))
    start = half @ half.T + TILES * TILE * np.eye(TILES * TILE)
    matrix = start.copy()

    def tile(row: int, column: int) -> np.ndarray:
        return matrix[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]

    def phases() -> Iterable[list[tuple[Callable[..., None], tuple[tuple[int, int], ...]]]]:
        """Tasks of a phase may run side by side; the last tile of each is the one that changes."""
        for k in range(TILES):
            yield [(factor, ((k, k),))]
            yield [(solve, ((k, k), (i, k))) for i in range(k + 1, TILES)]
            yield [(subtract, ((i, k), (j, k), (i, j))) for i in range(k + 1, TILES) for j in range(k + 1, i + 1)]

    def lower() -> np.ndarray:
        return np.tril(matrix)

    def alone() -> np.ndarray:
        return np.linalg.cholesky(start)

    def in_blocks() -> np.ndarray:
        matrix[:] = start
        for phase in phases():
            for body, tiles in phase:
                body(*[tile(*t) for t in tiles])
        return lower()

    def pooled() -> np.ndarray:
        matrix[:] = start
        for phase in phases():
            in_pool(pool, lambda body, *views: body(*views), [(b, *[tile(*t) for t in tiles]) for b, tiles in phase])
        return lower()

    def joblibbed() -> np.ndarray:
        matrix[:] = start
        for phase in phases():
            in_joblib(lambda body, *views: body(*views), [(b, *[tile(*t) for t in tiles]) for b, tiles in phase])
        return lower()

    def dasked() -> np.ndarray:
        import dask

        matrix[:] = start
        run = dask.delayed(lambda body, views, *_: body(*views), pure=False, traverse=False)
        writers: dict[tuple[int, int], Any] = {}
        for phase in phases():
            for body, tiles in phase:
                before = [writers[t] for t in tiles if t in writers]
                writers[tiles[-1]] = run(body, [tile(*t) for t in tiles], *before)
        in_dask(list(writers.values()))
        return lower()

    def submit_all() -> None:
        for phase in phases():
            for body, tiles in phase:
                views = [tile(*t) for t in tiles]
                runtime.submit(body, *[In(view) for view in views[:-1]], InOut(views[-1]))

    def graphed() -> np.ndarray:
        matrix[:] = start
        submit_all()
        runtime.wait()
        return lower()

    matrix[:] = start
    with runtime.record() as recorded:
        submit_all()

    def replayed() -> np.ndarray:
        matrix[:] = start
        recorded.replay()
        return lower()

    ways: dict[str, Way] = {ALONE: alone, BLOCKS: in_blocks, POOL: pooled, JOBLIB: joblibbed, DASK: dasked}
    return {**ways, GRAPH: graphed, REPLAY: replayed}


# ---- a map over small arrays


def scale(row: np.ndarray, out: np.ndarray) -> None:
    np.divide(row, row.sum(), out=out)


def small_arrays(runtime: Runtime, pool: ThreadPoolExecutor) -> dict[str, Way]:
    rows = np.random.default_rng(2).random((ROWS, WIDTH)) + 1.0
    out = np.zeros_like(rows)

    def alone() -> np.ndarray:
        return np.divide(rows, rows.sum(axis=1, keepdims=True), out=out)

    def in_loop() -> np.ndarray:
        for row, target in zip(rows, out, strict=True):
            scale(row, target)
        return out

    def pooled() -> np.ndarray:
        for _ in pool.map(scale, rows, out):
            pass
        return out

    def joblibbed() -> np.ndarray:
        in_joblib(scale, zip(rows, out, strict=True))
        return out

    def dasked() -> np.ndarray:
        import dask

        run = dask.delayed(scale, pure=False, traverse=False)
        some = ROWS // DASK_SHARE
        in_dask([run(row, target) for row, target in zip(rows[:some], out[:some], strict=True)])
        return out[:some]

    def graphed() -> np.ndarray:
        runtime.map(scale, In(rows), OutExisting(out)).wait()
        return out

    ways: dict[str, Way] = {ALONE: alone, "numpy in a loop": in_loop, POOL: pooled, JOBLIB: joblibbed, DASK: dasked}
    ways[GRAPH] = graphed
    if importlib.util.find_spec("numba") is not None:

        @task(numba=True)
        def compiled(row: Reads, target: Writes) -> None:
            target[:] = row / row.sum()

        def by_numba() -> np.ndarray:
            runtime.map(compiled, rows, out).wait()
            return out

        by_numba()  # compiles
        ways[COMPILED] = by_numba
    return ways


PROBLEMS = {
    f"stencil, {SIZE}² in blocks of {BLOCK}², {STEPS} steps": stencil,
    f"Cholesky, {TILES}² tiles of {TILE}²": cholesky,
    f"map over {ROWS:,} arrays of {WIDTH}": small_arrays,
}


def measured(ways: dict[str, Way], rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds and processor seconds, medians. Every answer is that of the first way."""
    wall: dict[str, list[float]] = {name: [] for name in ways}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    expected = next(iter(ways.values()))().copy()
    order = random.Random(1)
    for _ in range(rounds):
        for name in order.sample(list(ways), len(ways)):
            began, spent = time.perf_counter(), time.process_time()
            answer = ways[name]()
            share = len(expected) / len(answer)
            wall[name].append((time.perf_counter() - began) * share)
            processor[name].append((time.process_time() - spent) * share)
            np.testing.assert_allclose(answer, expected[: len(answer)], rtol=1e-9, atol=1e-12)
    return {name: (statistics.median(wall[name]), statistics.median(processor[name])) for name in ways}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", action="append", default=[], help="dask or joblib")
    asked = parser.parse_args()
    for title, make in PROBLEMS.items():
        with Runtime(workers=2) as runtime, ThreadPoolExecutor(2) as pool:
            ways = make(runtime, pool)
            for library, name in (("dask", DASK), ("joblib", JOBLIB)):
                if library in asked.without or importlib.util.find_spec(library) is None:
                    ways.pop(name)
                    print(f"{library} left out")
            print(f"{title}: ms, median of {asked.rounds} (of the processor)")
            for name, (wall, processor) in measured(ways, asked.rounds).items():
                print(f"  {name:26} {wall * 1e3:9.1f} ({processor * 1e3:.1f})")


if __name__ == "__main__":
    if any(
        os.environ.get(name) != "1" for name in SINGLE
    ):  # read when numpy is loaded, so once more from the beginning
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **dict.fromkeys(SINGLE, "1")})
    main()
