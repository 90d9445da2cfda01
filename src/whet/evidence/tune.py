"""What a short gated trial of an engine's candidates says about this machine. `whet tune` runs it."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from csv import DictWriter

import msgspec

from whet.evidence.cases import volume
from whet.evidence.record import Outcome, Run
from whet.evidence.statistics import median
from whet.gpu.tuned import Tuned, size_class

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
        size_class=size_class(volume(run.case)),
    )


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate of a trial, as `whet tune` shows and exports it. No time and no ratio where it was refused."""

    engine: str
    adapter: str
    driver: str
    case: str
    size_class: int
    variant: str
    time_ns: float | None
    ratio: float | None
    outcome: str
    chosen: str


def table(run: Run, tuned: Tuned) -> list[Tried]:
    """Every candidate of the run in its order, and what became of it."""
    verdicts = {verdict.candidate: verdict for verdict in run.verdicts}
    green = {gate.variant for gate in run.gates if gate.green}
    rows = []
    for variant in run.variants:
        verdict = verdicts.get(variant)
        outcome = "baseline" if variant == run.baseline else verdict.outcome.value if verdict else ""
        chosen = ("best", tuned.best), ("best on the adapter", tuned.best_on_adapter)
        rows.append(
            Tried(
                engine=run.engine,
                adapter=tuned.adapter,
                driver=tuned.driver,
                case=str(run.case),
                size_class=tuned.size_class,
                variant=variant,
                time_ns=tuned.times_ns.get(variant),
                ratio=verdict.ratio if verdict and variant in green else None,
                outcome=outcome if variant in green else "REFUSED",
                chosen=" and ".join(word for word, name in chosen if name == variant),
            )
        )
    return rows


def exported(rows: Sequence[Tried], *, csv: bool) -> str:
    """The rows as CSV with a heading, or as JSON."""
    if not csv:
        return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n"
    text = io.StringIO()
    writer = DictWriter(text, Tried.__struct_fields__, lineterminator="\n")
    writer.writeheader()
    writer.writerows(msgspec.structs.asdict(row) for row in rows)
    return text.getvalue()


def _times(run: Run) -> dict[str, float]:
    """Median nanoseconds per call of green variants with enough repeats."""
    green = {gate.variant for gate in run.gates if gate.green}
    found: dict[str, list[float]] = {}
    for sample in run.samples:
        if sample.variant in green and sample.calls > 0:
            found.setdefault(sample.variant, []).append(sample.wall_ns / sample.calls)
    medians = {name: median(some) for name, some in found.items() if len(some) >= LEAST_REPEATS}
    return {name: spent for name, spent in medians.items() if spent > 0}
