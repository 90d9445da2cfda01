"""Regions of an engine: its own stage times over several calls, as a capture."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from whet.errors import BadInput, Unsupported
from whet.protocol import Array, Case, Engine, Variant
from whet.regions.capture import Capture, LaunchValue
from whet.regions.sources import from_stages


def capture_engine(
    engine: Engine, variant: Variant, case: Case, *, repeats: int = 7, seed: int = 1, device: str = "cpu"
) -> Capture:
    """Runs the variant and keeps what `Engine.timing` says about each call; one row per call after a warm-up."""
    if repeats < 1:
        raise BadInput(f"{repeats} repeats", cure="give at least 1")
    fixed = engine.fixed(case, seed)
    state = engine.setup(variant, case, fixed, device)
    stages: list[dict[str, int]] = []
    tags: dict[str, Sequence[str]] = {}
    waits: set[str] = set()
    totals: list[int] = []
    clock = "monotonic"
    try:
        for index in range(repeats + 1):
            inputs: dict[str, Array] = {**fixed, **engine.prepare(case, seed + index)}
            outputs = {name: np.zeros(out.shape, out.dtype) for name, out in engine.outputs(case).items()}
            start = time.perf_counter_ns()
            engine.run(variant, state, inputs, outputs)
            wall_ns = time.perf_counter_ns() - start
            timing = engine.timing(state)
            if timing is None or not timing.regions_ns:
                raise Unsupported(
                    f"engine {engine.name}, variant {variant} reports no regions",
                    cure="fill Timing.regions_ns in Engine.timing, or capture a script that uses regions.record; "
                    "for engine graph: whet graph trace WORKLOAD --regions FILE.npz",
                )
            if index:
                stages.append(dict(timing.regions_ns))
                tags |= {region: given for region, given in timing.tags.items() if region in timing.regions_ns}
                waits |= timing.waits & timing.regions_ns.keys()
                totals.append(timing.device_ns or wall_ns)
                clock = "timestamp_query" if timing.device_ns else "monotonic"
    finally:
        engine.close(state)
    launch: dict[str, LaunchValue] = {
        "engine": engine.name,
        "variant": str(variant),
        "case": str(case),
        "device": device,
        "seed": seed,
    }
    return from_stages(
        stages,
        totals_ns=totals,
        waits=waits,
        tags=tags,
        tick_source=clock,
        name=f"{engine.name} {variant}",
        launch=launch,
    )
