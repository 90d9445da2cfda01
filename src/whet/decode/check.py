"""`python -m whet.decode.check --cases 20000`: random steps against the float64 oracle and the exact one.

With `--device webgpu` they run on a GPU, whose unwritten memory is poison, and against float64 alone.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whet.decode.cases import random_trial
from whet.decode.exact import exact_step
from whet.decode.layer import Schedule
from whet.decode.oracle import accuracy, reference
from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.gpu import Device

# The sums have at most a few hundred terms; 7 ULP is typical.
MAX_ULP = 64.0
# Over a few elements the norm in the middle can divide by almost nothing (one element: x + W_O near -x), and then no
# float32 order is near float64. Smaller layers are held to the exact order alone.
LEAST_HIDDEN = 8


@dataclass
class Tally:
    """What was tried, the worst distance from float64, and every step that failed."""

    steps: int = 0
    against_float64: int = 0
    worst_ulp: float = 0.0
    worst_p999_ulp: float = 0.0
    failures: tuple[str, ...] = ()


def check_step(seed: int, tally: Tally, *, exactly: bool, device: Device | None = None) -> None:
    """One step, with a schedule and a worker count drawn from the seed; on the CPU unless there is a device."""
    trial = random_trial(seed)
    rng = np.random.default_rng([seed, 1])
    schedule = Schedule(
        wo_split=int(rng.integers(1, 8)),
        fc1=("shared", "recomputed")[int(rng.integers(2))],
        launch=("fused", "phased")[int(rng.integers(2))],
    )
    workers = int(rng.integers(1, 4))
    layer = trial.layer(workers=workers, device=device or "cpu")
    try:
        got = trial.run(layer, schedule).out
    finally:
        layer.close()
    tally.steps += 1
    wide = trial.shape.hidden >= LEAST_HIDDEN
    if wide:
        found = accuracy(got, reference(trial.shape, trial.matrices, trial.norms, **trial.inputs()))
        tally.against_float64 += 1
        tally.worst_ulp = max(tally.worst_ulp, found.max_ulp)
        tally.worst_p999_ulp = max(tally.worst_p999_ulp, found.p999_ulp)
        if not found.finite or not found.max_ulp <= MAX_ULP:
            tally.failures += (f"{found.max_ulp:.1f} ULP: {trial.about} {schedule} workers={workers}",)
    if device is None and (exactly or not wide):
        want = exact_step(trial.shape, trial.matrices, trial.norms, **trial.inputs(), wo_split=schedule.wo_split)
        if got.tobytes() != want.tobytes():
            tally.failures += (f"not bit-equal: {trial.about} {schedule} workers={workers}",)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m whet.decode.check", description=__doc__)
    parser.add_argument("--cases", type=int, default=500, help="how many steps")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--exact-every", type=int, default=10, help="how often the exact oracle is asked as well")
    parser.add_argument("--device", default="cpu", help="cpu, webgpu or webgpu:<adapter>")
    given = parser.parse_args(arguments)
    tally = Tally()
    with ExitStack() as opened:
        device = None if given.device == "cpu" else opened.enter_context(_device(given.device))
        for number in range(given.cases):
            exactly = number % max(1, given.exact_every) == 0
            check_step(given.seed + number, tally, exactly=exactly, device=device)
            if tally.failures:
                print(tally.failures[-1])
                return 3
    worst = f"worst {tally.worst_ulp:.1f} ULP, worst 99.9th percentile {tally.worst_p999_ulp:.1f}"
    print(f"{tally.steps} steps, {tally.against_float64} of them against float64, none wrong; {worst}")
    return 0


def _device(name: str) -> Device:
    from whet.gpu import open_device

    kind, _, adapter = name.partition(":")
    if kind != "webgpu":
        raise BadInput(f"there is no device {name!r}", cure="one of: cpu, webgpu, webgpu:<adapter>")
    return open_device(adapter or None, debug=True)


if __name__ == "__main__":
    sys.exit(main())
