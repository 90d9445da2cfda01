"""Regions of an engine: its own stage times over several calls, as a capture. Behind the gate, in a bench."""

from __future__ import annotations

from collections.abc import Sequence

from whet.errors import BadInput, Unsupported
from whet.evidence.green_turns import green_turns
from whet.evidence.registry import Loaded
from whet.evidence.rig import Plan
from whet.protocol import Case, Variant
from whet.regions.capture import Capture, LaunchValue
from whet.regions.sources import from_stages


def capture_engine(
    loaded: Loaded, variant: Variant, case: Case, *, repeats: int = 7, seed: int = 1, device: str = "cpu"
) -> Capture:
    """What `Engine.timing` says about each call, one row per call after a warm-up; every call is checked.

    A variant that is wrong in any of them has no times: OracleMismatch.
    """
    if repeats < 1:
        raise BadInput(f"{repeats} repeats", cure="give at least 1")
    plan = Plan(loaded.engine, loaded.ref, (variant,), device, seed)
    readings = green_turns(plan, case, repeats, timing=True)[str(variant)]
    for reading in readings:
        if not reading.regions_ns:
            raise Unsupported(
                f"engine {loaded.engine.name}, variant {variant} reports no regions",
                cure="fill Timing.regions_ns in Engine.timing, or capture a script that uses regions.record; "
                "for engine graph: whet graph trace WORKLOAD --regions FILE.npz",
            )
    tags: dict[str, Sequence[str]] = {}
    waits: set[str] = set()
    for reading in readings:
        tags |= {region: given for region, given in reading.tags.items() if region in reading.regions_ns}
        waits |= set(reading.waits) & reading.regions_ns.keys()
    launch: dict[str, LaunchValue] = {
        "engine": loaded.engine.name,
        "variant": str(variant),
        "case": str(case),
        "device": device,
        "seed": seed,
    }
    return from_stages(
        [dict(reading.regions_ns) for reading in readings],
        totals_ns=[reading.device_ns or reading.wall_ns for reading in readings],
        waits=waits,
        tags=tags,
        tick_source="timestamp_query" if readings[-1].device_ns else "monotonic",
        name=f"{loaded.engine.name} {variant}",
        launch=launch,
    )
