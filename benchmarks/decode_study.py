"""From regions to a change and back: capture, verdict, predicted gain, the change, what came. For W_O and for FC1.

The base has one worker at W_O and everybody at all of FC1. W_O is changed in two ways: cut over K (`wo_split`), and cut
by rows that workers claim (`rows`). A capture is the launch of median length of its rounds. A prediction is held
against the base it was made from; where the machine has changed its pace since, the gain beside the base of the same
interleaved rounds is the one to believe. Then come interleaved launches without timing, and at last `whet ab` on the
same variants: fresh inputs in every repeat, each judged by the oracle.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from whet.decode import SHAPES, Layer, Schedule
from whet.decode.cases import Trial, random_cache, random_weights
from whet.decode.oracle import accuracy, reference
from whet.regions import account, judge, load, predict, reduce
from whet.regions.capture import Capture
from whet.regions.prediction import check_prediction

BASE = Schedule(wo_split=1, fc1="recomputed", rows="fixed")


def changes(workers: int) -> dict[str, tuple[str, Schedule]]:
    """Name -> the region that is to become `workers` times as fast, and the schedule that is to do it."""
    return {
        "wo_split": ("wo", replace(BASE, wo_split=workers)),
        "rows": ("wo", replace(BASE, rows="claimed")),
        "fc1": ("fc1", replace(BASE, fc1="shared")),
    }


def captures(
    trial: Trial, layer: Layer, schedules: dict[str, Schedule], folder: Path, rounds: int
) -> dict[str, Capture]:
    """Each schedule in turn, `rounds` times; of each the launch of median length."""
    taken: dict[str, list[Capture]] = {name: [] for name in schedules}
    for _ in range(rounds):
        for name, schedule in schedules.items():
            trial.run(layer, schedule, timed=True)
            path = folder / f"{name}-{time.monotonic_ns()}.npy"
            layer.save_regions(path, str(schedule))
            taken[name].append(load(path))
    return {name: sorted(found, key=span_ns)[len(found) // 2] for name, found in taken.items()}


def span_ns(capture: Capture) -> float:
    return account(capture).span


def launch_ms(trial: Trial, layer: Layer, schedule: Schedule, *, timed: bool) -> float:
    start = time.perf_counter_ns()
    trial.run(layer, schedule, timed=timed)
    return (time.perf_counter_ns() - start) / 1e6


def show_regions(capture: Capture) -> None:
    counted = account(capture)
    print(f"  span {counted.span / 1e6:.2f} ms, coverage {counted.coverage:.3f}")
    for row in reduce(capture, counted=counted).rows:
        if row.active_workers:
            print(f"  {row.region:<13} {row.active_workers} workers  median {(row.median_ticks or 0) / 1e6:8.3f} ms")


def gated(given: argparse.Namespace, schedules: dict[str, Schedule]) -> None:
    """The verdicts of `whet ab`, from a store of its own."""
    variants = [
        f"fused:wo_split={one.wo_split},fc1={one.fc1},rows={one.rows},workers={given.workers}"
        for one in schedules.values()
    ]
    sizes = [f"hidden={SHAPES[given.shape].hidden}", f"length={given.length}", "page=64", "batch=1"]
    words = ["ab", "decode", *variants, "--profile", f"{given.weights}-{given.kv}", "--quick"]
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "runs.sqlite")
        sizes = [word for size in sizes for word in ("--size", size)]
        subprocess.run([Path(sys.executable).with_name("whet"), *words, *sizes, "--store", store], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="27b")
    parser.add_argument("--weights", default="int8")
    parser.add_argument("--kv", default="bf16")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    shape, rng = SHAPES[given.shape], np.random.default_rng(1)
    matrices, norms = random_weights(shape, given.weights, rng)
    cache = random_cache(shape, [given.length], 64, given.kv, rng)
    x = rng.standard_normal((1, shape.hidden), np.float32)
    trial = Trial(shape, matrices, norms, x, cache, None, None, None, "study")
    layer = trial.layer(workers=given.workers)
    print(f"{given.shape} {given.weights}/{given.kv} length {given.length}, {given.workers} workers, {layer.isa}")
    want = reference(shape, matrices, norms, x, cache)
    made = changes(given.workers)
    schedules = {"base": BASE, **{name: schedule for name, (_, schedule) in made.items()}}
    for name, schedule in schedules.items():
        found = accuracy(trial.run(layer, schedule).out, want)
        print(f"gate {name}: max {found.max_ulp:.1f} ULP, 99.9th percentile {found.p999_ulp:.1f}")
        if not found.finite or found.max_ulp > 256:
            raise SystemExit(f"{name} is wrong; nothing is timed")
    with tempfile.TemporaryDirectory() as folder:
        before = captures(trial, layer, {"base": BASE}, Path(folder), given.rounds)["base"]
        show_regions(before)
        verdict = judge(before)
        share = "" if verdict.share is None else f", {100 * verdict.share:.1f} % of the critical path"
        print(f"verdict on k_reducible: {verdict.bracket}{share}; dominant: {verdict.dominant}")
        for reason in verdict.reasons:
            print(f"  not held: {reason}")
        stated = {
            name: predict(before, [f"region={region} factor={given.workers}"]) for name, (region, _) in made.items()
        }
        time.sleep(1.1)  # a capture must be later than the prediction, and its stamp has whole seconds
        after = captures(trial, layer, schedules, Path(folder), given.rounds)
    for name, prediction in stated.items():
        came = check_prediction(prediction, before, after[name])
        beside = 1 - span_ns(after[name]) / span_ns(after["base"])
        print(
            f"{name}: predicted {100 * prediction.predicted_gain:.1f} % (ceiling {100 * prediction.ceiling:.1f} %),"
            f" came {100 * came.measured_gain:.1f} %: {came.outcome};"
            f" {100 * beside:.1f} % beside the base of the same rounds"
        )
    ways = {name: (schedule, False) for name, schedule in schedules.items()}
    ways["base, timed"] = (schedules["base"], True)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        for name, (schedule, timed) in ways.items():
            taken[name].append(launch_ms(trial, layer, schedule, timed=timed))
    for name, times in taken.items():
        low, middle, high = np.percentile(np.array(times) / taken["base"], [25, 50, 75])
        print(
            f"{name}: shortest {min(times):.2f} ms, {min(times) / min(taken['base']):.3f} of base;"
            f" within rounds {middle:.3f} of base ({low:.3f} to {high:.3f})"
        )
    layer.close()
    gated(given, schedules)


if __name__ == "__main__":
    main()
