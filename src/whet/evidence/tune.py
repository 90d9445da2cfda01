"""What a short gated trial of an engine's candidates says about this machine. `whet tune` runs it."""

from __future__ import annotations

import math

from whet.evidence.record import Outcome, Run
from whet.evidence.statistics import median
from whet.gpu.tuned import Tuned

# Below this many green repeats a median says nothing.
LEAST_REPEATS = 3


def conclude(run: Run, default: str, on_adapter: set[str]) -> Tuned:
    """The measured choice. A candidate takes the default's place only if the verdict calls it FASTER.

    Whatever is degenerate (a red default, too few repeats, times that are no times, an open verdict) leaves the safe
    default where it is. A default that the gate refused is no answer: then the fastest green variant that does not run
    on the adapter takes its place, so that a measurement can only ever take the GPU away.
    """
    times = _times(run)
    adapter = run.environment.get("adapter") or {}
    faster = {
        verdict.candidate: verdict.ratio
        for verdict in run.verdicts
        if verdict.outcome is Outcome.FASTER
        and verdict.baseline == default
        and verdict.candidate in times
        and verdict.ratio is not None
        and math.isfinite(verdict.ratio)
        and 0 < verdict.ratio < 1
    }
    elsewhere = {name: spent for name, spent in times.items() if name not in on_adapter}
    best = on_gpu = default
    if default in times:
        best = min(faster, key=faster.__getitem__, default=default)
        on_gpu = min(faster.keys() & on_adapter, key=faster.__getitem__, default=default)
        because = f"{best} is the fastest that the verdict calls faster than {default}" if best != default else ""
        because = because or f"no candidate is faster than {default} beyond doubt"
    elif elsewhere and default in on_adapter:
        best = min(elsewhere, key=elsewhere.__getitem__)
        because = f"{default} gave no time that counts, so {best} takes its place"
    else:
        because = f"the measurement is degenerate: {default} gave no time that counts, and it stays the default"
    return Tuned(
        engine=run.engine,
        adapter=str(adapter.get("key", "")),
        driver=str(adapter.get("driver", "")),
        software=bool(adapter.get("software", False)),
        best=best,
        best_on_adapter=on_gpu if default in on_adapter else "",
        because=because,
        created=run.created,
        run=run.id,
        times_ns=times,
    )


def _times(run: Run) -> dict[str, float]:
    """Median nanoseconds per call of green variants with enough repeats."""
    green = {gate.variant for gate in run.gates if gate.green}
    found: dict[str, list[float]] = {}
    for sample in run.samples:
        if sample.variant in green and sample.calls > 0:
            found.setdefault(sample.variant, []).append(sample.wall_ns / sample.calls)
    medians = {name: median(some) for name, some in found.items() if len(some) >= LEAST_REPEATS}
    return {name: spent for name, spent in medians.items() if spent > 0}
