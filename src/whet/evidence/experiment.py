"""One run from end to end: gate on small cases and on the case itself, calibrate, trial, verdict, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from whet.evidence import environment, seeds, warnings
from whet.evidence.adapter import adapter_of
from whet.evidence.cases import smaller
from whet.evidence.child import ask
from whet.evidence.claims import Reading
from whet.evidence.clock import Batches, batches, quantum_ns
from whet.evidence.examine import Refusal, examine, explain
from whet.evidence.gate import Plan, Rig, memory_room
from whet.evidence.record import Failure, Gate, Run, Sample, Verdict, Warning
from whet.evidence.trial import Budget, Result, Trial, call_times
from whet.evidence.verdict import EFFECT, judge, refused
from whet.protocol import Case

SLOTS_LIMIT_BYTES = 256 << 20
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Experiment:
    """A plan on one case, with everything the record needs. `on_progress` hears a share from 0 to 1 and a note."""

    plan: Plan
    case: Case
    budget: Budget
    baseline: str
    command: str
    engine_sha256: str
    evidence_folder: Path
    effect: float = EFFECT
    on_progress: Progress = lambda share, note: None

    def run(self) -> Run:
        began = time.monotonic()
        created = datetime.now(UTC)
        adapter = adapter_of(self.plan.engine, self.plan.variants, self.plan.device)
        surroundings = environment.capture(self._engine_folder(), {"adapter": adapter} if adapter else None)
        memory = self._memory()
        with Rig(self.plan) as rig:
            readings, refusals = self._gate(rig)
            result, batch = self._trial(rig, readings)
            gates = {name: (stand.full_checks, stand.digest_checks) for name, stand in rig.stands.items()}
            regions = _median_regions(rig)
            refusals |= {
                name: Refusal(name, red, self.case, rig.stands[name].calls) for name, red in result.reds.items()
            }
        run_id = f"{created:%Y%m%dT%H%M%S}-{seeds.derive(self.plan.seed, time.time_ns()):016x}"[:24]
        failures = {name: self._explain(refusal, run_id) for name, refusal in refusals.items()}
        names = [str(variant) for variant in self.plan.variants]
        return Run(
            id=run_id,
            created=created.isoformat(timespec="seconds"),
            engine=self.plan.engine.name,
            engine_ref=self.plan.ref,
            engine_sha256=self.engine_sha256,
            command=self.command,
            case=self.case,
            device=self.plan.device,
            seed=self.plan.seed,
            fixed_seed=seeds.derive(self.plan.seed, "fixed"),
            budget=self.budget.name,
            baseline=result.baseline or self.baseline,
            variants=names,
            gates=[_gate(name, gates[name], failures.get(name)) for name in names],
            samples=sorted((s for some in result.samples.values() for s in some), key=lambda s: (s.round, s.order)),
            verdicts=self._verdicts(result, failures, batch),
            warnings=self._warnings(result, batch, surroundings),
            environment=surroundings,
            stopped=result.stopped,
            elapsed_s=round(time.monotonic() - began, 3),
            regions=regions,
            memory=memory,
        )

    def _gate(self, rig: Rig) -> tuple[dict[str, list[Reading]], dict[str, Refusal]]:
        """Untimed: small cases while their share of time lasts, then the case itself."""
        refusals: dict[str, Refusal] = {}
        deadline = time.monotonic() + self.budget.gate_seconds
        readings: dict[str, list[Reading]] = {}
        for case in [*smaller(self.plan.engine, self.case), self.case]:
            if case != self.case and time.monotonic() > deadline:
                continue
            self.on_progress(0.0, f"gate: {case}")
            readings, red = examine(rig, case)
            refusals |= red
        return readings, refusals

    def _trial(self, rig: Rig, readings: dict[str, list[Reading]]) -> tuple[Result, Batches]:
        alive = rig.alive
        if len(alive) < min(2, len(self.plan.variants)):
            stopped = "fewer than two variants passed the gate"
            return Result({}, {}, baseline=next(iter(alive), ""), stopped=stopped), Batches({}, ())
        once = {name: float(min(reading.wall_ns for reading in readings[name])) for name in alive}
        if self.plan.clock == "device":
            batch = Batches(dict.fromkeys(alive, 1), ())
        else:
            room = memory_room(rig.slot_bytes, SLOTS_LIMIT_BYTES)
            batch = batches(once, quantum_ns(), rig.prepare_ns + rig.oracle_ns, room)
        reds = rig.open(self.case, max(batch.calls.values()))
        result = Trial(
            source=rig,
            variants=rig.alive,
            baseline=self.baseline,
            calls=batch.calls,
            budget=self.budget,
            seed=self.plan.seed,
            effect=self.effect,
            clock=self.plan.clock,
            on_round=self._told_round,
        ).run()
        result.reds |= reds
        return result, batch

    def _told_round(self, rounds: int, seconds: float) -> None:
        self.on_progress(min(1.0, seconds / self.budget.seconds), f"round {rounds}")

    def _explain(self, refusal: Refusal, run_id: str) -> Failure:
        folder = self.evidence_folder / run_id
        note = f"{refusal.variant} is refused; searching the smallest case"
        return explain(self.plan, refusal, folder, self.command, lambda case: self.on_progress(1.0, f"{note}: {case}"))

    def _verdicts(self, result: Result, failures: dict[str, Failure], batch: Batches) -> list[Verdict]:
        verdicts = []
        baseline = result.baseline or self.baseline
        for name in map(str, self.plan.variants):
            if name in failures:
                why = f"{failures[name].reason}: {failures[name].detail}"
                verdicts.append(refused(name, baseline, why, effect=self.effect, clock=self.plan.clock))
            elif name != baseline:
                notes = self._notes((name, baseline), batch)
                found = result.intervals.get(name)
                said = judge(name, baseline, found, effect=self.effect, clock=self.plan.clock, notes=notes)
                if baseline != self.baseline:
                    said.reasons.append(f"{self.baseline} was refused, so {baseline} takes its place as the baseline")
                verdicts.append(said)
        return verdicts

    def _notes(self, names: Sequence[str], batch: Batches) -> list[str]:
        coarse = [name for name in names if name in batch.coarse]
        return [f"the clock is too coarse for {name}: a whole batch is below 100 of its ticks" for name in coarse]

    def _warnings(self, result: Result, batch: Batches, surroundings: dict[str, Any]) -> list[Warning]:
        clock = self.plan.clock
        times = {name: call_times(some, clock) for name, some in result.samples.items() if some}
        early = {name: call_times(some, clock) for name, some in result.warm_up.items() if some}
        tick_ns = quantum_ns()
        once = {name: float(values.min()) for name, values in times.items()}
        everything: list[Sample] = [s for some in result.samples.values() for s in some]
        return [
            *warnings.noisy(times),
            *warnings.too_short(once, {name: batch.calls[name] for name in once}, tick_ns),
            *warnings.first_repeats_slow(early, times),
            *warnings.background_load(everything, surroundings),
            *warnings.throttling(times),
            *warnings.power_source(surroundings),
            *warnings.software_adapter(surroundings),
            *warnings.quantised_clock(times, [name for name in batch.coarse if name in times], tick_ns),
        ]

    def _memory(self) -> dict[str, Any]:
        rows = {str(v): ask(self.plan.engine, "memory_map", self.case, v) for v in self.plan.variants}
        return {
            name: [{"name": row.name, "size_bytes": row.size_bytes, "lifetime": row.lifetime} for row in some]
            for name, some in rows.items()
            if some
        }

    def _engine_folder(self) -> Path | None:
        path = Path(self.plan.ref.rpartition(":")[0] if ".py:" in self.plan.ref else self.plan.ref)
        return path.parent if path.suffix == ".py" else None


def _median_regions(rig: Rig) -> dict[str, dict[str, float]]:
    """Median nanoseconds per region of the variants that report any and are still green."""
    found = {name: rig.stands[name].regions_ns for name in rig.alive}
    return {
        name: {region: float(median(spent)) for region, spent in regions.items()}
        for name, regions in found.items()
        if regions
    }


def default_evidence_folder() -> Path:
    """Beside the run store."""
    from whet.evidence.store import default_path

    return default_path().parent / "evidence"


def _gate(name: str, checks: tuple[int, int], failure: Failure | None) -> Gate:
    full, digests = checks
    return Gate(variant=name, green=failure is None, full_checks=full, digest_checks=digests, failure=failure)
