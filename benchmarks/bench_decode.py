"""The decode layer against the memory it streams from: share of bandwidth, growth, timing tax, barriers.

Launches take turns; ratios are within one run. Neighbours only ever add, so the shortest tells what the machine can do.
Every step that is timed is compared with the reference first, on the very inputs that it is timed on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median, quantiles

import numpy as np
from whet._native import decode as native

from whet.decode import SHAPES, Layer, Schedule
from whet.decode.cases import Trial, random_cache
from whet.decode.oracle import accuracy, reference
from whet.decode.shapes import NORM_ATTENTION, NORM_MLP, Shape
from whet.decode.stored import WEIGHT_TYPES, store

Times = dict[str, list[int]]
STREAMS = (4, 8, 16)
MAX_ULP = 256


def interleaved_ns(works: dict[str, Callable[[], object]], rounds: int) -> Times:
    times: Times = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            start = time.perf_counter_ns()
            work()
            if number:  # the first round warms up
                times[name].append(time.perf_counter_ns() - start)
    return times


def shortest_ns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, int]:
    return {name: min(times) for name, times in interleaved_ns(works, rounds).items()}


def gated(trial: Trial, *ways: tuple[Layer, Schedule, bool]) -> None:
    """Nothing wrong is timed."""
    want = reference(trial.shape, trial.matrices, trial.norms, **trial.inputs())
    for layer, schedule, timed in ways:
        found = accuracy(trial.run(layer, schedule, timed=timed).out, want)
        if not found.finite or found.max_ulp > MAX_ULP:
            raise SystemExit(f"{trial.about}: {found.max_ulp:.0f} ULP; nothing is timed")


def readings(trial: Trial, workers: int) -> dict[str, Callable[[], object]]:
    """The yardstick: the very weights of a layer, read by loads and sums alone, in several numbers of streams."""
    arrays = [matrix.data for matrix in trial.matrices.values()]
    arrays += [matrix.scales for matrix in trial.matrices.values() if matrix.kind == "fp4"]
    reader = native.StreamReader(workers, native.best_isa())
    return {f"read by {n}": lambda n=n: reader.read(arrays, n) for n in STREAMS}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="llama-8b")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    shape, workers = SHAPES[given.shape], native.hardware_workers()
    schedule = Schedule(barrier="spin")
    print(f"{given.shape}, {workers} workers; shares of shortest and of medians over {given.rounds} interleaved rounds")
    for weight_type in WEIGHT_TYPES:
        bandwidth(made(shape, weight_type), schedule, workers, given.rounds)
    growth(shape, schedule, given.rounds)
    tax(made(shape, "int8"), schedule, 2 * given.rounds)
    costs(given.rounds)


def bandwidth(trial: Trial, schedule: Schedule, workers: int, rounds: int) -> None:
    layer = trial.layer()
    gated(trial, (layer, schedule, False))
    kind = next(iter(trial.matrices.values())).kind
    works: dict[str, Callable[[], object]] = {"step": lambda: trial.run(layer, schedule), **readings(trial, workers)}
    times = interleaved_ns(works, rounds)
    read = min((times[f"read by {n}"] for n in STREAMS), key=min)
    step = times["step"]
    size = layer.weight_bytes
    print(
        f"{kind:>5}: step {min(step) / 1e6:7.2f} ms, weights at {size / min(step):5.1f} of"
        f" {size / min(read):5.1f} GB/s: {100 * min(read) / min(step):3.0f} %,"
        f" {100 * median(read) / median(step):3.0f} %"
    )


def tax(trial: Trial, schedule: Schedule, rounds: int) -> None:
    """What recording regions costs a step of full size, beside what steps differ by anyway."""
    layer = trial.layer()
    gated(trial, (layer, schedule, False), (layer, schedule, True))
    times = interleaved_ns(
        {
            "off": lambda: trial.run(layer, schedule),
            "on": lambda: trial.run(layer, schedule, timed=True),
            "off again": lambda: trial.run(layer, schedule),
        },
        rounds,
    )
    for name in ("on", "off again"):
        ratios = [one / off for one, off in zip(times[name], times["off"], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        shortest = min(times[name]) / min(times["off"])
        print(f"timing {name:>9}: {median(ratios):.4f} of off ({low:.3f} to {high:.3f}), shortest {shortest:.4f}")


def growth(shape: Shape, schedule: Schedule, rounds: int) -> None:
    base = made(shape, "int8")
    layer = base.layer()
    steps = {f"length {n}": (1, n) for n in (128, 512, 2048, 8192)} | {f"batch {n}": (n, 128) for n in (1, 2, 4, 8)}
    works: dict[str, Callable[[], object]] = {}
    for name, (batch, length) in steps.items():
        rng = np.random.default_rng(2)
        cache = random_cache(shape, [length] * batch, 64, "bf16", rng)
        x = rng.standard_normal((batch, shape.hidden), np.float32)
        gated(replace(base, x=x, cache=cache), (layer, schedule, False))
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
    gated(trial, *ways.values())
    works = {name: lambda w=way: trial.run(w[0], w[1], timed=w[2]) for name, way in ways.items()}
    for name, taken in shortest_ns(works, 200 * rounds).items():
        print(f"tiny {name:>18}: {taken / 1e3:7.1f} us")


if __name__ == "__main__":
    main()
