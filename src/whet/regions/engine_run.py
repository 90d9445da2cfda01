"""Regions of an engine: its own stage times over several calls, as a capture. Behind the gate, in a bench."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from whet.errors import BadInput, Unsupported
from whet.evidence.green_turns import green_turns
from whet.evidence.registry import Loaded
from whet.evidence.rig import Plan
from whet.protocol import Case, Engine, Sheet, Variant
from whet.regions.capture import Capture, LaunchValue, load, replace_about
from whet.regions.sources import from_stages


def capture_engine(
    loaded: Loaded,
    variant: Variant,
    case: Case,
    *,
    repeats: int = 7,
    seed: int = 1,
    device: str = "cpu",
    on_progress: Callable[[float, str], None] = lambda share, note: None,
) -> Capture:
    """What `Engine.timing` says about each call after a warm-up; every call is checked.

    Where the engine gives a sheet, the capture is that of the call in the middle by its time, worker by worker. Else it
    has one row per call, in which stages stand one after the other. A knob `timing` is switched on unless it is given.
    A variant that is wrong in any call has no times: OracleMismatch.
    """
    if repeats < 1:
        raise BadInput(f"{repeats} repeats", cure="give at least 1")
    variant = _timed(loaded.engine, variant)
    plan = Plan(loaded.engine, loaded.ref, (variant,), device, seed)
    readings = green_turns(plan, case, repeats, timing=True, on_progress=on_progress)[str(variant)]
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
    middle = sorted(readings, key=lambda reading: reading.wall_ns)[len(readings) // 2]
    if middle.sheet is not None:
        return _sheet(middle.sheet, launch)
    return from_stages(
        [dict(reading.regions_ns) for reading in readings],
        totals_ns=[reading.device_ns or reading.wall_ns for reading in readings],
        waits=waits,
        tags=tags,
        tick_source="timestamp_query" if readings[-1].device_ns else "monotonic",
        name=f"{loaded.engine.name} {variant}",
        launch=launch,
    )


def _timed(engine: Engine, variant: Variant) -> Variant:
    """The variant with its regions recorded, where that is a knob of it."""
    spec = next(spec for spec in engine.variants() if spec.name == variant.name)
    if "timing" in variant.knobs or not any(knob.name == "timing" for knob in spec.knobs):
        return variant
    return msgspec.structs.replace(variant, knobs={**variant.knobs, "timing": True})


def _sheet(sheet: Sheet, launch: Mapping[str, LaunchValue]) -> Capture:
    """The kernel's own sheet, with what it was a launch of."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sheet.npy"
        path.write_bytes(sheet.cells)
        path.with_name("sheet.npy.json").write_bytes(sheet.about)
        found = load(path)
    return replace(found, about=replace_about(found.about, launch={**found.about.launch, **launch}))
