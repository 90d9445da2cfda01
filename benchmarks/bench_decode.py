"""The decode layer against the memory it streams from: share of bandwidth by type, peers, barrier, timing tax, growth.

Times are the shortest of several interleaved launches: neighbours only ever add. Ratios are within one run.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable

import numpy as np
from whet._native import decode as native

from whet.decode import SHAPES, Layer, Schedule
from whet.decode.cases import Trial, random_cache
from whet.decode.oracle import decoded
from whet.decode.shapes import NORM_ATTENTION, NORM_MLP, Shape
from whet.decode.stored import WEIGHT_TYPES, store


def shortest_ns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, int]:
    best = dict.fromkeys(works, 1 << 62)
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter_ns()
            work()
            best[name] = min(best[name], time.perf_counter_ns() - start)
    return best


def streaming(workers: int) -> Callable[[], None]:
    """Reads 256 MB per worker with the dot product of numpy's BLAS: one load per 16 floats and little else."""
    blocks = [np.ones(64 << 20, np.float32) for _ in range(workers)]

    def read() -> None:
        threads = [threading.Thread(target=np.dot, args=(block, block)) for block in blocks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return read


def made(shape: Shape, weight_type: str, *, batch: int = 1, length: int = 128, kv_type: str = "bf16") -> Trial:
    rng = np.random.default_rng(1)
    values = rng.standard_normal(1 << 20, np.float32)
    matrices = {
        name: store(weight_type, np.resize(values, size) / np.float32(np.sqrt(size[1])))
        for name, size in shape.matrices().items()
    }
    norms = {name: np.ones(shape.hidden, np.float32) for name in (NORM_ATTENTION, NORM_MLP)}
    cache = random_cache(shape, [length] * batch, 64, kv_type, rng)
    x = rng.standard_normal((batch, shape.hidden), np.float32)
    return Trial(shape, matrices, norms, x, cache, None, None, None, weight_type)


def numpy_products(trial: Trial) -> Callable[[], None]:
    """The seven products alone, in numpy float32 with its BLAS: less than the layer does."""
    dense = [decoded(m).values[:, : m.cols] for m in trial.matrices.values()]
    vectors = [np.ones(matrix.shape[1], np.float32) for matrix in dense]

    def run() -> None:
        for matrix, vector in zip(dense, vectors, strict=True):
            matrix @ vector

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="llama-8b")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    shape, workers = SHAPES[given.shape], native.hardware_workers()
    schedule = Schedule(wo_split=workers)
    print(f"{given.shape}, {workers} workers")
    read = streaming(workers)
    for weight_type in WEIGHT_TYPES:
        trial = made(shape, weight_type)
        layer = trial.layer()
        works: dict[str, Callable[[], object]] = {"read": read, "step": lambda t=trial, n=layer: t.run(n, schedule)}
        if weight_type == "f32":
            works["numpy"] = numpy_products(trial)
        best = shortest_ns(works, given.rounds)
        bandwidth = workers * (256 << 20) / best["read"]
        rate = layer.weight_bytes / best["step"]
        peer = f"; numpy's products alone take {best['numpy'] / best['step']:.2f} of it" if "numpy" in best else ""
        print(
            f"{weight_type:>5}: step {best['step'] / 1e6:8.2f} ms, weights at {rate:5.1f} GB/s,"
            f" {100 * rate / bandwidth:5.1f} % of {bandwidth:.1f}{peer}"
        )
    growth(shape, schedule, given.rounds)
    costs(given.rounds)


def growth(shape: Shape, schedule: Schedule, rounds: int) -> None:
    base = made(shape, "int8")
    layer = base.layer()
    steps = {f"length {n}": (1, n) for n in (128, 512, 2048, 8192)} | {f"batch {n}": (n, 128) for n in (1, 2, 4, 8)}
    works: dict[str, Callable[[], object]] = {}
    for name, (batch, length) in steps.items():
        rng = np.random.default_rng(2)
        cache = random_cache(shape, [length] * batch, 64, "bf16", rng)
        x = rng.standard_normal((batch, shape.hidden), np.float32)
        works[name] = lambda x=x, cache=cache: layer.step(x, cache, schedule=schedule)
    best = shortest_ns(works, rounds)
    for name, taken in best.items():
        print(f"int8 {name:>12}: {taken / 1e6:8.2f} ms, {taken / best['length 128']:.2f} of length 128")


def costs(rounds: int) -> None:
    """Barriers and timing, on a layer so small that little else is left."""
    trial = made(SHAPES["tiny"], "f32", length=16, kv_type="f32")
    one, all_ = trial.layer(workers=1), trial.layer()
    ways: dict[str, tuple[Layer, Schedule, bool]] = {
        "one worker": (one, Schedule(), False),
        "one worker, timed": (one, Schedule(), True),
        "fused, block": (all_, Schedule(), False),
        "fused, spin": (all_, Schedule(barrier="spin"), False),
        "phased": (all_, Schedule(launch="phased"), False),
    }
    works = {name: lambda w=way: trial.run(w[0], w[1], timed=w[2]) for name, way in ways.items()}
    for name, taken in shortest_ns(works, 200 * rounds).items():
        print(f"tiny {name:>18}: {taken / 1e3:7.1f} us")


if __name__ == "__main__":
    main()
