"""The two changes of docs/decode-study.md on the WebGPU program: passes, predicted gain, the change, what came.

One row per repeat, medians over repeats. A prediction is held against a base captured before it; the gain beside the
base of the same interleaved rounds is the one to believe where the two differ. On a software
adapter the passes run on the CPU's own cores: the study shows how a table of passes is used, not what a GPU would gain.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from whet.decode import SHAPES, Layer, Schedule
from whet.decode.cases import Trial, random_cache, random_weights
from whet.decode.engine import REGION_TAGS
from whet.decode.oracle import accuracy, reference
from whet.gpu import open_device
from whet.regions import account, judge, predict, reduce
from whet.regions.capture import Capture, save
from whet.regions.prediction import check_prediction
from whet.regions.sources import from_stages

BASE = Schedule(wo_split=1, fc1="recomputed")
CHANGES = {"fc1": Schedule(wo_split=1, fc1="shared"), "wo": Schedule(wo_split=2, fc1="recomputed")}
FACTOR = 2


def captures(trial: Trial, layer: Layer, schedules: dict[str, Schedule], rounds: int) -> dict[str, Capture]:
    """Each schedule in turn, `rounds` times after a warm-up."""
    assert layer.gpu is not None
    stages: dict[str, list[list[tuple[str, int | None]]]] = {name: [] for name in schedules}
    totals: dict[str, list[int]] = {name: [] for name in schedules}
    for number in range(rounds + 1):
        for name, schedule in schedules.items():
            trial.run(layer, schedule, timed=True)
            if number and layer.gpu.span_ns is not None:
                stages[name].append(layer.gpu.passes_ns)
                totals[name].append(layer.gpu.span_ns)
    return {
        name: from_stages(
            stages[name],
            totals_ns=totals[name],
            tags=REGION_TAGS,
            tick_source="timestamp_query",
            name="decode passes",
            launch={"schedule": str(schedule)},
        )
        for name, schedule in schedules.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="llama-8b")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--adapter", help="part of an adapter's key; the best one unless given")
    parser.add_argument("--keep", type=Path, help="write the base's capture here, for `whet regions show`")
    given = parser.parse_args()
    shape, rng = SHAPES[given.shape], np.random.default_rng(1)
    matrices, norms = random_weights(shape, "int8", rng)
    cache = random_cache(shape, [given.length], 64, "bf16", rng)
    x = rng.standard_normal((1, shape.hidden), np.float32)
    trial = Trial(shape, matrices, norms, x, cache, None, None, None, "study")
    want = reference(shape, matrices, norms, x, cache)
    with open_device(given.adapter) as device:
        layer = trial.layer(device=device)
        print(f"{given.shape} int8/bf16 length {given.length} on {device.info.name}")
        for name, schedule in {"base": BASE, **CHANGES}.items():
            found = accuracy(trial.run(layer, schedule).out, want)
            print(f"gate {name}: max {found.max_ulp:.1f} ULP")
            if not found.finite or found.max_ulp > 256:
                raise SystemExit(f"{name} is wrong; nothing is timed")
        before = captures(trial, layer, {"base": BASE}, given.rounds)["base"]
        if given.keep:
            save(before, given.keep)
        show(before)
        stated = {name: predict(before, [f"region={name} factor={FACTOR}"]) for name in CHANGES}
        time.sleep(1.1)  # a capture must be later than the prediction, and its stamp has whole seconds
        after = captures(trial, layer, {"base": BASE, **CHANGES}, given.rounds)
        layer.close()
    for name, prediction in stated.items():
        came = check_prediction(prediction, before, after[name])
        passes = median_ms(after["base"], name) / median_ms(after[name], name)
        beside = 1 - (after[name].about.total_ns or 0) / (after["base"].about.total_ns or 1)
        print(
            f"{name}: predicted {100 * prediction.predicted_gain:.1f} % (ceiling {100 * prediction.ceiling:.1f} %),"
            f" came {100 * came.measured_gain:.1f} %: {came.outcome};"
            f" {100 * beside:.1f} % beside the base of the same rounds; the pass became {passes:.2f} times as fast"
        )


def show(capture: Capture) -> None:
    counted = account(capture)
    verdict = judge(capture)
    print(f"coverage {counted.coverage:.3f}")
    for row in reduce(capture, counted=counted).rows:
        print(f"  {row.region:<8} median {(row.median_ticks or 0) / 1e6:9.3f} ms over {row.active_workers} repeats")
    share = "" if verdict.share is None else f", {100 * verdict.share:.1f} %"
    print(f"verdict on k_reducible: {verdict.bracket}{share}; dominant: {verdict.dominant}")
    for reason in verdict.reasons:
        print(f"  not held: {reason}")


def median_ms(capture: Capture, region: str) -> float:
    found = [row.median_ticks for row in reduce(capture, counted=account(capture)).rows if row.region == region]
    return (found[0] or 0) / 1e6


if __name__ == "__main__":
    main()
