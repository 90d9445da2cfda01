"""The MSM's GPU variants against each other on one adapter, behind the oracle: ratios, stages, efficiency, starts.

Wall time around a call (upload, passes, read, finish), variants interleaved, minimum of the rounds. Efficiency of
accumulate is what its multiplications and inversions would take at the measured cost of one each, over what it took.
On a software adapter these figures say how well the work is spread over a CPU, and nothing about a GPU's occupancy.

    python benchmarks/bench_msm_gpu.py [--sizes 10,12,14] [--rounds 3] [--starts]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from whet.gpu import Device, Kernel, Pass, open_device
from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.variants import choose
from whet.msm.webgpu.field_wgsl import field_source
from whet.msm.webgpu.inverse_wgsl import inverse_source
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.sums import FEATURES, WebGpuSums

VARIANTS = ("walker", "coop:g=1", "coop:g=8", "coop:g=64", "walker:glv=true", "walker:multiply=portable", "gpu_plain")
SLOWEST = {"gpu_plain": 14, "coop:g=8": 14}  # log2 of the largest size worth waiting for
THREADS, CHAIN = 8192, 256  # some 20 ms on two cores: far more than a submission costs
START = """
import time; began = time.perf_counter()
from whet.msm import Engine, inputs
from whet._native import curve
points = curve.write_points(inputs.points_from_logs(inputs.logs("random", 1024, 1)))
with Engine(points, device="webgpu") as engine:
    engine(inputs.scalars("random", 1024, 2))
print(time.perf_counter() - began)
"""


def cost_ns(device: Device, operation: str, wide: bool) -> float:
    """Nanoseconds of wall time per operation, with enough threads to fill the device."""
    chain = CHAIN if "mul" in operation else CHAIN // 8
    source = f"""{field_source(wide=wide)}{inverse_source() if "inv" in operation else ""}
@group(0) @binding(0) var<storage, read_write> values: array<Fe>;
@compute @workgroup_size(64) fn chain(@builtin(global_invocation_id) id: vec3<u32>) {{
    var a = values[id.x];
    let b = a;
    for (var i = 0u; i < {chain}u; i++) {{ a = {operation}; }}
    values[id.x] = fe_add(a, b);
}}"""
    values = np.random.default_rng(1).integers(1, 2**28, THREADS * 8, np.uint32)
    buffer = device.buffer("values", 4 * len(values), data=values)
    step = Pass("chain", Kernel(source, "chain"), ("values",), (THREADS // 64, 1, 1))
    best = float("inf")
    for _ in range(6):
        begun = time.perf_counter_ns()
        device.submit([step])
        best = min(best, (time.perf_counter_ns() - begun) / (THREADS * chain))
    device.release(buffer)
    return best


def prepared(text: str, points: np.ndarray) -> WebGpuSums:
    variant = choose(text)
    return WebGpuSums(points, Choice.of(variant.name, variant.knobs), timed=True)


def compare(log_n: int, rounds: int, costs: dict[bool, tuple[float, float]]) -> None:
    n = 1 << log_n
    logs, scalars = make.logs("random", n, 1), make.scalars("random", n, 2)
    expected = known_multiples(make.to_ints(logs), make.to_ints(scalars)).to_bytes()
    points = make.points_from_logs(logs)
    engines = {text: prepared(text, points) for text in VARIANTS if log_n <= SLOWEST.get(text, 99)}
    best = dict.fromkeys(engines, float("inf"))
    stages: dict[str, dict[str, int]] = {}
    work: dict[str, dict[str, int]] = {}
    for text, engine in engines.items():
        assert engine.compute(scalars, 0).limbs.tobytes() == expected, f"{text} is wrong at n = {n}"
    for _ in range(rounds):
        for text, engine in engines.items():
            begun = time.perf_counter_ns()
            answer = engine.compute(scalars, 0)
            taken = time.perf_counter_ns() - begun
            if taken < best[text]:
                best[text] = taken
                stages[text] = {}
                for name, taken_ns in engine.passes_ns:
                    stages[text][name] = stages[text].get(name, 0) + (taken_ns or 0)
                work[text] = dict(answer.work)
    for text, engine in engines.items():
        mine, device_ns = stages[text], sum(stages[text].values())
        print(
            f"2^{log_n:<3} {text:26} {best[text] / best['walker']:6.2f}x  {best[text] / 1e6:9.1f} ms"
            f"  accumulate {100 * mine['accumulate'] / device_ns:3.0f} %"
            f"  reduce {100 * mine['reduce'] / device_ns:3.0f} %"
            f"  sort {100 * sum(mine[s] for s in ('count', 'columns', 'starts', 'scatter')) / device_ns:3.0f} %"
            + _efficiency(engine, work[text], mine["accumulate"], costs),
            flush=True,
        )
        engine.close()


def _efficiency(engine: WebGpuSums, work: dict[str, int], taken_ns: int, costs: dict[bool, tuple[float, float]]) -> str:
    """Of the walker, whose multiplications are known: six per addition, and its share of an inversion."""
    if engine.choice.accumulator != "walker":
        return ""
    multiply_ns, inverse_ns = costs[engine.choice.multiply != "portable" and engine.wide]
    bound_ns = work["accumulated"] * (6 * multiply_ns + inverse_ns / engine.choice.slots)
    return f"  efficiency {100 * bound_ns / taken_ns:3.0f} %"


def starts() -> None:
    """First answer in a fresh process, with an empty and with a filled cache of the driver."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MESA_SHADER_CACHE_DIR": folder}
        for name in ("cold", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", START], env=environment, capture_output=True, text=True, check=True
            )
            print(f"first answer, {name} driver cache: {float(done.stdout):.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10,12,14", help="log2 of the numbers of points")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--starts", action="store_true", help="also measure the first answer of a fresh process")
    given = parser.parse_args()
    with open_device(features=FEATURES) as device:
        print(f"{device.info.name}, {device.info.driver}" + ("; a software adapter" if device.info.software else ""))
        costs = {}
        for wide in (False, True) if "shader-int64" in device.info.features else (False,):
            multiply, inverse = cost_ns(device, "fe_mul(a, b)", wide), cost_ns(device, "fe_inv(a)", wide)
            costs[wide] = multiply, inverse
            name = "wide" if wide else "portable"
            print(f"{name} multiply {multiply:.1f} ns, inversion {inverse:.0f} ns = {inverse / multiply:.0f} of these")
    for log_n in (int(size) for size in given.sizes.split(",")):
        compare(log_n, given.rounds, costs)
    if given.starts:
        starts()


if __name__ == "__main__":
    main()
