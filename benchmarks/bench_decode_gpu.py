"""The decode layer on WebGPU beside the CPU layer: ratios, share of each pass, growth with length and batch.

On a machine without a GPU the adapter is a software one: it runs the shaders on the same cores as the CPU layer, eight
lanes at a time, so the ratios say what the passes cost there and nothing about a GPU. Shapes of shares and growth do
carry over as far as a pass does the same work. Times are the shortest of interleaved launches.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from whet.decode import SHAPES, Layer, Schedule
from whet.decode.cases import Trial, random_cache
from whet.decode.oracle import accuracy, reference
from whet.decode.shapes import NORM_ATTENTION, NORM_MLP, Shape
from whet.decode.stored import WEIGHT_TYPES, store
from whet.gpu import open_device
from whet.gpu.device import Device

# A sixteenth of the 8B-like layer's weights: what a software adapter finishes in a minute.
QUARTER = Shape(hidden=1024, intermediate=3584, q_heads=8, kv_heads=2, head_dim=128, eps=1e-5)
MAX_ULP = 256  # sums of thousands of terms


def made(shape: Shape, weight_type: str, kv_type: str = "bf16", *, batch: int = 1, length: int = 128) -> Trial:
    rng = np.random.default_rng(1)
    matrices = {
        name: store(weight_type, rng.standard_normal(size, np.float32) / np.float32(np.sqrt(size[1])))
        for name, size in shape.matrices().items()
    }
    norms = {name: np.ones(shape.hidden, np.float32) for name in (NORM_ATTENTION, NORM_MLP)}
    cache = random_cache(shape, [length] * batch, 64, kv_type, rng)
    x = rng.standard_normal((batch, shape.hidden), np.float32)
    return Trial(shape, matrices, norms, x, cache, None, None, None, f"{weight_type}-{kv_type}")


def gated(trial: Trial, layer: Layer, schedule: Schedule | None = None) -> None:
    """Nothing wrong is timed."""
    found = accuracy(
        trial.run(layer, schedule).out, reference(trial.shape, trial.matrices, trial.norms, **trial.inputs())
    )
    if not found.finite or found.max_ulp > MAX_ULP:
        raise SystemExit(f"{trial.about}: {found.max_ulp:.0f} ULP; nothing is timed")


class Shortest:
    """The shortest wall time of each work, interleaved, and for each pass on the device its shortest as well."""

    def __init__(self) -> None:
        self.wall_ns: dict[str, int] = {}
        self.passes_ns: dict[str, dict[str, int]] = {}

    def take(self, works: dict[str, tuple[Callable[[], object], Layer]], rounds: int) -> None:
        for _ in range(rounds):
            for name, (work, layer) in works.items():
                start = time.perf_counter_ns()
                work()
                taken = time.perf_counter_ns() - start
                self.wall_ns[name] = min(self.wall_ns.get(name, taken), taken)
                best = self.passes_ns.setdefault(name, {})
                for stage, spent in layer.gpu.passes_ns if layer.gpu is not None else ():
                    if spent is not None:
                        best[stage] = min(best.get(stage, spent), spent)


def on_both(device: Device, trial: Trial) -> dict[str, Layer]:
    layers = {"gpu": trial.layer(device=device), "cpu": trial.layer()}
    assert layers["gpu"].gpu is not None
    layers["gpu"].gpu.hold(trial.cache)
    for layer in layers.values():
        gated(trial, layer)
    return layers


def types(device: Device, shape: Shape, rounds: int) -> None:
    print("\nweights      GPU step   GPU / CPU   outside the passes   share of each pass")
    for weight_type in WEIGHT_TYPES:
        trial = made(shape, weight_type)
        layers = on_both(device, trial)
        works = {name: (lambda t=trial, n=layer: t.run(n, timed=True), layer) for name, layer in layers.items()}
        best = Shortest()
        best.take(works, rounds)
        layers["gpu"].close()
        passes = best.passes_ns["gpu"]
        inside = sum(passes.values())
        shares = "  ".join(f"{stage} {100 * spent / inside:.1f} %" for stage, spent in passes.items())
        ratio, outside = best.wall_ns["gpu"] / best.wall_ns["cpu"], 1 - inside / best.wall_ns["gpu"]
        print(
            f"{trial.about:<10} {best.wall_ns['gpu'] / 1e6:8.2f} ms {ratio:9.1f}   {100 * outside:16.1f} %   {shares}",
            flush=True,
        )


def growth(device: Device, shape: Shape, rounds: int) -> None:
    base = made(shape, "int8")
    layer = base.layer(device=device)
    steps = {f"length {n}": (1, n) for n in (128, 512, 2048, 8192)} | {f"batch {n}": (n, 128) for n in (2, 4, 8)}
    works: dict[str, tuple[Callable[[], object], Layer]] = {}
    for name, (batch, length) in steps.items():
        rng = np.random.default_rng(2)
        cache = random_cache(shape, [length] * batch, 64, "bf16", rng)
        x = rng.standard_normal((batch, shape.hidden), np.float32)
        works[name] = (lambda x=x, cache=cache: layer.step(x, cache, timed=True), layer)
    best = Shortest()
    best.take(works, rounds)
    layer.close()
    print("\nint8-bf16, all passes against 128 tokens at batch 1, and attention alone")
    first = best.passes_ns["length 128"]
    for name, passes in best.passes_ns.items():
        whole, attend = sum(passes.values()) / sum(first.values()), passes["attend"] / first["attend"]
        print(f"{name:>12} {whole:8.2f} {attend:8.2f}")


def splits(device: Device, shape: Shape, rounds: int) -> None:
    trial = made(shape, "int8", length=512)
    layer = trial.layer(device=device)
    schedules = [Schedule(wo_split=n) for n in (1, 2, 4, 8)] + [Schedule(fc1="recomputed")]
    for schedule in schedules:
        gated(trial, layer, schedule)
    best = Shortest()
    best.take({str(s): (lambda s=s: trial.run(layer, s, timed=True), layer) for s in schedules}, rounds)
    layer.close()
    print("\nint8-bf16, 512 tokens: passes against the plain schedule")
    plain = best.passes_ns[str(schedules[0])]
    for schedule in schedules:
        passes = best.passes_ns[str(schedule)]
        whole = sum(passes.values()) / sum(plain.values())
        ratios = "  ".join(f"{stage} {passes[stage] / plain[stage]:.2f}" for stage in ("wo", "gather", "fc1", "fc2"))
        print(f"wo_split={schedule.wo_split} fc1={schedule.fc1:<10}  whole {whole:.2f}  {ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=["quarter", *sorted(SHAPES)], default="quarter")
    parser.add_argument("--adapter", help="part of an adapter's key; the best one unless given")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    shape = QUARTER if given.shape == "quarter" else SHAPES[given.shape]
    with open_device(given.adapter) as device:
        if device.timestamp_period_ns is None:
            raise SystemExit(f"{device.info.key} has no timestamps")
        kind = "software adapter: says nothing about a GPU" if device.info.software else "GPU"
        print(f"{given.shape}, {device.info.name}, {device.info.driver} ({kind})")
        types(device, shape, given.rounds)
        growth(device, shape, given.rounds)
        splits(device, shape, given.rounds)


if __name__ == "__main__":
    main()
