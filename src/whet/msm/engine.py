"""whet.msm as the gate and the trial see it: cases, variants, oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from whet._native import curve
from whet.errors import BadInput, Unsupported
from whet.msm import inputs as make
from whet.msm.adversarial import adversarial_case
from whet.msm.affine import stage_times
from whet.msm.oracle import known_multiples
from whet.msm.paths import gate_spec, prepare_path
from whet.msm.validate import read_points
from whet.msm.variants import TABLE, AffineSums, Prepared, choose
from whet.msm.webgpu.candidates import candidates
from whet.msm.webgpu.knobs import SPECS as GPU_SPECS
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.pieces import map_of
from whet.msm.webgpu.request import Request
from whet.protocol import (
    Array,
    Arrays,
    BudgetFrontier,
    Case,
    Engine,
    HardCase,
    Inspection,
    Kernels,
    MemoryRow,
    Output,
    PortableProgram,
    Timing,
    Variant,
    VariantSpec,
    Work,
)

MAX_N = 2**22
POINT_BYTES, SCALAR_BYTES = 64, 32


class MsmEngine(Engine):
    """S = sum s_i P_i. Points stay for a whole trial, scalars are new in every repeat."""

    name = "msm"
    devices = ("cpu", "webgpu")

    def cases(self) -> Sequence[Case]:
        sizes = (0, 1, 2, 3, 7, 31, 32, 33, 255, 256, 257, 1024)
        small = [Case(sizes={"n": n}) for n in sizes]
        return small + [Case(sizes={"n": 97}, profile=profile) for profile in make.PROFILES[1:]]

    def profiles(self) -> Sequence[str]:
        return make.PROFILES

    def variants(self) -> Sequence[VariantSpec]:
        return [gate_spec(implementation.spec) for implementation in TABLE.values() if implementation.usable()]

    def candidates(self, case: Case) -> Sequence[str]:
        default, *rest = candidates(_size(case))
        return [default, "affine", *rest]

    def device_of(self, variant: Variant, device: str) -> str:
        """A variant of the GPU takes the best adapter where the device is `cpu`, so that both can be compared."""
        return "webgpu" if variant.name in GPU_SPECS and device == "cpu" else device

    def outputs(self, case: Case) -> Mapping[str, Output]:
        return {"point": Output((8,), np.uint64)}

    def fixed(self, case: Case, seed: int) -> dict[str, Array]:
        points = make.points_from_logs(make.logs(case.profile, _size(case), seed))
        return {"points": curve.write_points(points)}

    def prepare(self, case: Case, seed: int) -> dict[str, Array]:
        return {"scalars": make.scalars(case.profile, _size(case), seed)}

    def setup(self, variant: Variant, case: Case, fixed: Arrays, device: str) -> Prepared:
        points = read_points(fixed["points"])
        if variant.name not in GPU_SPECS:
            if device != "cpu":
                raise Unsupported(f"{variant.name} does not run on {device}", cure=f"use one of {', '.join(GPU_SPECS)}")
            return prepare_path(variant, points)
        from whet.msm.webgpu.sums import WebGpuSums

        adapter = device.partition(":")[2] or None
        # Not verified by itself: here the oracle judges every answer.
        sums = WebGpuSums(points, Choice.of(variant.name, variant.knobs), adapter=adapter, timed=True, verify=False)
        # Kernels are compiled when they first run.
        sums.compute(make.scalars("random", _size(case), 0), 0)
        return sums

    def portable(self, variant: Variant, case: Case, fixed: Arrays) -> PortableProgram:
        if variant.name not in GPU_SPECS:
            return super().portable(variant, case, fixed)
        from whet.msm.webgpu.portable import portable_of

        return portable_of(read_points(fixed["points"]), Choice.of(variant.name, variant.knobs))

    def run(self, variant: Variant, state: Prepared, inputs: Arrays, outputs: Arrays) -> None:
        outputs["point"][:] = state.compute(inputs["scalars"], 0).limbs

    def timing(self, state: Prepared) -> Timing | None:
        if isinstance(state, AffineSums):
            return Timing(regions_ns=stage_times(state.last_work))
        span_ns = getattr(state, "span_ns", None)
        if span_ns is None:
            return None
        regions: dict[str, int] = {}
        for name, taken_ns in getattr(state, "passes_ns", ()):
            regions[name] = regions.get(name, 0) + taken_ns
        return Timing(span_ns, regions)

    def work(self, case: Case) -> Work:
        """Coordinates and scalars are read once, and a sum comes out."""
        n = _size(case)
        return Work(moved_bytes=n * (POINT_BYTES + SCALAR_BYTES) + POINT_BYTES, operations=n, operation="points")

    def memory_map(self, case: Case, variant: Variant) -> Sequence[MemoryRow]:
        """Of the GPU's memory; the CPU's variants promise none here."""
        n = _size(case)
        if variant.name not in GPU_SPECS or n == 0:
            return ()
        return map_of(Request(n, Choice.of(variant.name, variant.knobs), n))

    def budget_frontier(self, variant: str | None, n: int, budget_bytes: int | None) -> BudgetFrontier:
        if variant is not None and variant.partition(":")[0] == "affine":
            from whet.msm.cpu_cuts import cpu_frontier

            return cpu_frontier(choose(variant), n, budget_bytes, MAX_N)
        from whet.msm.webgpu.batches import gpu_frontier

        return gpu_frontier(variant, n, budget_bytes)

    def kernels(self, variant: str | None) -> Kernels:
        from whet.msm.webgpu.batches import gpu_kernels

        return gpu_kernels(variant)

    def oracle(self, case: Case, fixed_seed: int, seed: int, inputs: Arrays) -> dict[str, Array]:
        logs = make.to_ints(make.logs(case.profile, _size(case), fixed_seed))
        answer = known_multiples(logs, make.to_ints(inputs["scalars"]))
        return {"point": np.frombuffer(answer.to_bytes(), np.uint64)}

    def inspect(self, variant: Variant, case: Case, seed: int, device: str) -> Inspection | None:
        """Bucket by bucket, on points of known logarithm."""
        n = _size(case)
        if variant.name not in GPU_SPECS or n == 0:
            return None
        from whet.gpu import open_device
        from whet.msm.webgpu.bucket_probe import probe
        from whet.msm.webgpu.sums import FEATURES, uses_wide

        choice = Choice.of(variant.name, variant.knobs)
        with open_device(device.partition(":")[2] or None, features=FEATURES) as opened:
            logs, scalars = make.logs(case.profile, n, seed), make.scalars(case.profile, n, seed)
            wide = uses_wide(opened, choice)
            found = probe(opened, choice, make.to_ints(logs), make.to_ints(scalars), wide=wide)
        windows = f"{found.buckets:,} buckets in {found.batches} batch{'' if found.batches == 1 else 'es'}"
        return Inspection(f"{windows} against the model", found.lines())

    def hard_cases(self, seed: int, numbers: range) -> Iterator[HardCase]:
        for number in numbers:
            made = adversarial_case(seed, number)
            expected = {"point": np.frombuffer(made.expected.to_bytes(), np.uint64)}
            fixed, inputs = {"points": made.points}, {"points": made.points, "scalars": made.scalars}
            yield HardCase(made.kind, number, Case(sizes={"n": len(made.points)}), fixed, inputs, expected)

    def close(self, state: Prepared) -> None:
        state.close()


def _size(case: Case) -> int:
    n = case.sizes.get("n", 0)
    if set(case.sizes) != {"n"} or not 0 <= n <= MAX_N:
        raise BadInput(f"msm has no case with {case}", cure=f"give one size n from 0 to {MAX_N}")
    return n
