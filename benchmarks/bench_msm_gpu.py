"""The MSM's GPU variants against each other on one adapter, behind the oracle: ratios, stages, efficiency, starts.

Wall time around a call (upload, passes, read, finish), variants interleaved, minimum of the rounds. Efficiency of
accumulate: six multiplications per addition and an inversion per `slots` additions, each at its measured cost, over the
time of the pass; the median of the rounds. A cost is that of one operation in a chain with every thread busy, timed by
the device's own clock right before and after the call, the lower of both. (Two or four independent chains per thread
were not faster per multiplication.) On a software adapter these figures say how well the work is spread over a CPU, and
nothing about a GPU's occupancy.

    python benchmarks/bench_msm_gpu.py [--sizes 10,12,14] [--rounds 5] [--variants walker,coop:g=1] [--starts]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from statistics import median

import numpy as np

from whet.gpu import Device, open_device
from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.variants import choose
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.multiply import chain
from whet.msm.webgpu.sums import FEATURES, WebGpuSums

VARIANTS = ("walker", "coop:g=1", "coop:g=8", "coop:g=64", "walker:glv=true", "walker:multiply=portable", "gpu_plain")
SLOWEST = {"gpu_plain": 14, "coop:g=8": 14}  # log2 of the largest size worth waiting for
THREADS = 2048
LENGTHS = {"multiply": 256, "invert": 16}  # some 10 ms each on two cores
SORT = ("count", "columns", "starts", "scatter")
START = """
import time; began = time.perf_counter()
from whet.msm import Engine, inputs
from whet._native import curve
points = curve.write_points(inputs.points_from_logs(inputs.logs("random", 1024, 1)))
with Engine(points, device="webgpu") as engine:
    engine(inputs.scalars("random", 1024, 2))
print(time.perf_counter() - began)
"""


def costs_ns(device: Device, wide: bool) -> tuple[float, float]:
    """Nanoseconds per multiplication and per inversion, with enough threads to fill the device."""
    found = []
    for operation, length in LENGTHS.items():
        one = chain(operation, length, wide=wide, threads=THREADS)
        spent = [device.submit([one], timestamps=True)[0][1] or 0 for _ in range(2)]
        found.append(min(spent) / (THREADS * length))
    return found[0], found[1]


def prepared(text: str, points: np.ndarray) -> WebGpuSums:
    variant = choose(text)
    return WebGpuSums(points, Choice.of(variant.name, variant.knobs), timed=True)


class Contender:
    """A variant on its points, and what its rounds took."""

    def __init__(self, text: str, points: np.ndarray) -> None:
        self.text = text
        self.engine = prepared(text, points)
        self.best_ns = float("inf")
        self.stages: Counter[str] = Counter()
        self.efficiencies: list[float] = []

    def round(self, scalars: np.ndarray, measuring: Device) -> None:
        engine = self.engine
        walks = engine.choice.accumulator == "walker"
        before = costs_ns(measuring, engine.wide) if walks else (0.0, 0.0)
        begun = time.perf_counter_ns()
        answer = engine.compute(scalars, 0)
        taken = time.perf_counter_ns() - begun
        stages: Counter[str] = Counter()
        for name, taken_ns in engine.passes_ns:
            stages[name] += taken_ns or 0
        if taken < self.best_ns:
            self.best_ns, self.stages = taken, stages
        if walks:
            after = costs_ns(measuring, engine.wide)
            multiply_ns, inverse_ns = min(before[0], after[0]), min(before[1], after[1])
            bound_ns = answer.work["accumulated"] * (6 * multiply_ns + inverse_ns / engine.choice.slots)
            self.efficiencies.append(bound_ns / stages["accumulate"])

    def line(self, against_ns: float) -> str:
        whole = sum(self.stages.values())
        parts = {
            "accumulate": self.stages["accumulate"],
            "combine": self.stages["combine"],
            "reduce": self.stages["reduce"],
            "sort": sum(self.stages[name] for name in SORT),
        }
        shares = "".join(f"  {name} {100 * spent / whole:3.0f} %" for name, spent in parts.items())
        efficient = f"  efficiency {100 * median(self.efficiencies):3.0f} %" if self.efficiencies else ""
        ratio = self.best_ns / against_ns
        return f"{self.text:26} {ratio:6.2f}x  {self.best_ns / 1e6:9.1f} ms{shares}{efficient}"


def compare(log_n: int, rounds: int, variants: list[str], measuring: Device) -> None:
    n = 1 << log_n
    logs, scalars = make.logs("random", n, 1), make.scalars("random", n, 2)
    expected = known_multiples(make.to_ints(logs), make.to_ints(scalars)).to_bytes()
    points = make.points_from_logs(logs)
    contenders = [Contender(text, points) for text in variants if log_n <= SLOWEST.get(text, 99)]
    for one in contenders:
        assert one.engine.compute(scalars, 0).limbs.tobytes() == expected, f"{one.text} is wrong at n = {n}"
    for _ in range(rounds):
        for one in contenders:
            one.round(scalars, measuring)
    for one in contenders:
        print(f"2^{log_n:<3} {one.line(contenders[0].best_ns)}", flush=True)
        one.engine.close()


def starts() -> None:
    """First answer in a fresh process: nothing compiled or measured before, and then again."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MESA_SHADER_CACHE_DIR": folder, "WHET_TUNED": f"{folder}/tuned.json"}
        for name in ("cold", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", START], env=environment, capture_output=True, text=True, check=True
            )
            print(f"first answer, {name} driver cache: {float(done.stdout):.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10,12,14", help="log2 of the numbers of points")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variants", help="such as walker,coop:g=1; ratios are against the first")
    parser.add_argument("--starts", action="store_true", help="also measure the first answer of a fresh process")
    given = parser.parse_args()
    variants = given.variants.split(",") if given.variants else list(VARIANTS)
    with open_device(features=FEATURES) as device:
        print(f"{device.info.name}, {device.info.driver}" + ("; a software adapter" if device.info.software else ""))
        device.buffer("chain", 32 * THREADS, data=np.random.default_rng(1).integers(1, 2**28, THREADS * 8, np.uint32))
        for wide in (False, True) if "shader-int64" in device.info.features else (False,):
            multiply, inverse = min(costs_ns(device, wide) for _ in range(4))
            name = "wide" if wide else "portable"
            print(f"{name} multiply {multiply:.1f} ns, inversion {inverse:.0f} ns = {inverse / multiply:.0f} of these")
        for log_n in (int(size) for size in given.sizes.split(",")):
            compare(log_n, given.rounds, variants, device)
    if given.starts:
        starts()


if __name__ == "__main__":
    main()
