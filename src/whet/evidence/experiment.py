"""One run from end to end: gate on small cases and on the case itself, calibrate, trial, verdict, record."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from whet import units
from whet.errors import DeviceGone
from whet.evidence import environment, seeds, statistics, verdict, warnings
from whet.evidence.accounting import Accounts
from whet.evidence.adapter import adapter_of
from whet.evidence.cases import smaller
from whet.evidence.clock import Batch, batch
from whet.evidence.examination import Refusal, examine, explain, failure, gate
from whet.evidence.floors import floor_of
from whet.evidence.readings import Reading, Red
from whet.evidence.record import EMPTY, Block, Design, Done, Failure, Outcome, Run, Sample, Verdict, Warning
from whet.evidence.remote_rig import rig_for
from whet.evidence.rig import WARM_UP_LIMIT_NS, Plan, Rig, memory_room
from whet.evidence.serving import ask
from whet.evidence.statistics import EFFECT, Judge, call_times
from whet.evidence.trial import FEWER_THAN_TWO, Budget, Result, Trial
from whet.protocol import Case

SLOTS_LIMIT_BYTES = 512 << 20
# A turn with so much more processor time than wall time, and more than a turn costs, keeps several cores busy.
PARALLEL_FACTOR = 1.25
PARALLEL_LEAST_NS = 400_000
PROBE_ROUNDS = 3
SLOW_ORACLE_NS = 500_000_000
Progress = Callable[[float, str], None]


class TrialSource:
    """The rig as a trial sees it: blocks on rotating cores, rounds with one number of calls, books kept."""

    def __init__(self, rig: Rig, calls: int, accounts: Accounts, *, parallel: bool) -> None:
        self._rig, self._calls, self._accounts = rig, calls, accounts
        self._parallel = parallel
        # Not from the printed seed: who knows or guesses that one must not know the inputs of a timed turn.
        self._salt = secrets.randbits(62)
        self.cores: list[int] = []

    @property
    def oracle_ns(self) -> int:
        return self._rig.oracle_ns

    def block(self, number: int, arms: Sequence[str]) -> dict[str, Red]:
        usable = self._rig.host.usable_cores()
        self.cores = usable if self._parallel else [usable[number % len(usable)]]
        if number and self._rig.near:
            self._rig.renew()
        reds = self._rig.start(arms, cores=self.cores, baseline=arms[0], sealed=True)
        self._accounts.cores[number] = len(self.cores)
        for name in arms:
            self._accounts.threads[name] = self._rig.stands[name].threads
        return reds

    def round(self, label: Sequence[str | int], order: Sequence[str], *, full: bool = True) -> dict[str, Reading | Red]:
        found = self._rig.round((*label, self._salt), order, calls=self._calls, full=full)
        for name, reading in found.items():
            if isinstance(reading, Reading):
                self._accounts.note(name, label, reading)
        return found

    def now_s(self) -> float:
        return time.monotonic()


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
    judge: Judge = "median"
    task_examined: bool = False
    on_progress: Progress = lambda share, note: None

    def run(self) -> Run:
        began = time.monotonic()
        created = datetime.now(UTC)
        adapter = self._adapter()
        extra = {"adapter": adapter} if adapter else {}
        if self.plan.trees:
            extra["revisions"] = {name: tree.commit for name, tree in self.plan.trees.items()}
        surroundings = environment.capture(self._engine_folder(), extra)
        memory = self._memory()
        with rig_for(self.plan) as rig:
            rig.officials.before_oracle = lambda: self._told_oracle(rig)
            readings, refusals = self._gate(rig)
            accounts = Accounts(
                effect=self.effect,
                judge=self.judge,
                clock=self.plan.clock,
                baseline=self.baseline,
                near=rig.near,
                tick_ns=0 if rig.near else rig.tick_ns,
            )
            result, chosen = self._trial(rig, readings, accounts)
            floor = floor_of(result.samples.get(EMPTY, []), rig.input_bytes) if rig.near else None
            regions = {} if result.interrupted or result.gone else self._regions(rig)
            refusals |= {
                name: Refusal(name, red, self.case, rig.stands[name].calls) for name, red in result.reds.items()
            }
            checks = {name: (stand.full_checks, stand.agreements) for name, stand in rig.stands.items()}
            isolation, errors, losses = rig.isolated(), dict(rig.errors), rig.officials.losses
            tick_ns, about, own = rig.tick_ns, rig.notes(), rig.warnings()
            oracle_s = round(rig.officials.oracle_spent_ns / 1e9, 3)
        surroundings |= {"elsewhere": about} if about else {}
        surroundings |= environment.hashed([*self.plan.engine.sources(), *sorted(rig.libraries)])
        run_id = f"{created:%Y%m%dT%H%M%S}-{seeds.derive(self.plan.seed, time.time_ns()):016x}"[:24]
        failures = {
            name: self._explain(refusal, run_id, search=not (result.interrupted or result.gone))
            for name, refusal in refusals.items()
        }
        names = [str(variant) for variant in self.plan.variants]
        samples = {name: some for name, some in result.samples.items() if some}
        times = {name: call_times(samples[name], self.plan.clock) for name in names if name in samples}
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
            gates=[gate(name, *checks[name], failures.get(name)) for name in names],
            samples=sorted((s for some in samples.values() for s in some), key=lambda s: (s.round, s.order)),
            verdicts=self._verdicts(result, failures, chosen, accounts),
            warnings=[*self._warnings(result, chosen, surroundings, tick_ns), *warnings.officials_lost(losses), *own],
            environment=surroundings,
            stopped=result.stopped,
            elapsed_s=round(time.monotonic() - began, 3),
            regions=regions,
            memory=memory,
            design=self._design(result.blocks, chosen),
            control=result.control,
            tails={name: statistics.tails(values) for name, values in times.items()},
            floor=floor,
            isolation=isolation,
            tolerance=self.plan.engine.tolerance,
            summaries=self._summaries(),
            errors={name: errors[name] for name in names if name in errors and name not in failures},
            task_examined=self.task_examined,
            work=self._work(),
            oracle_s=oracle_s,
        )

    def _adapter(self) -> dict[str, Any]:
        if self.plan.elsewhere is not None:
            return self.plan.elsewhere.facts()
        return adapter_of(self.plan.engine, self.plan.variants, self.plan.device)

    def _gate(self, rig: Rig) -> tuple[dict[str, list[Reading]], dict[str, Refusal]]:
        """Untimed: small cases while their share of time lasts, then the case itself."""
        refusals: dict[str, Refusal] = {}
        deadline = time.monotonic() + self.budget.gate_seconds
        readings: dict[str, list[Reading]] = {}
        for case in [*smaller(self.plan.engine, self.case), self.case]:
            if case != self.case and time.monotonic() > deadline:
                continue
            if not rig.alive:
                break
            self.on_progress(0.0, f"gate: {case}")
            readings, red = examine(rig, case)
            refusals |= red
        return readings, refusals

    def _trial(self, rig: Rig, readings: dict[str, list[Reading]], accounts: Accounts) -> tuple[Result, Batch]:
        alive = rig.alive
        if len(alive) < min(2, len(self.plan.variants)):
            return Result({}, {}, baseline=next(iter(alive), ""), stopped=FEWER_THAN_TWO), Batch(1)
        once = {name: float(min(reading.wall_ns for reading in readings[name])) for name in alive}
        rig.long_calls = max(once.values()) > WARM_UP_LIMIT_NS
        chosen = Batch(1)
        if self.plan.clock == "wall" and self.plan.regime == "warm":
            room = memory_room(rig.slot_bytes, SLOTS_LIMIT_BYTES)
            chosen = batch(once, rig.tick_ns, rig.layout.prepare_ns, room)
        rig.open(self.case, chosen.calls * max([1, *self.plan.more_calls.values()]))
        parallel, reds = self._probe(rig, chosen.calls)
        result = Trial(
            source=TrialSource(rig, chosen.calls, accounts, parallel=parallel),
            variants=rig.alive,
            baseline=self.baseline if self.baseline in rig.alive else rig.alive[0],
            budget=self.budget,
            seed=self.plan.seed,
            effect=self.effect,
            clock=self.plan.clock,
            judge=self.judge,
            on_round=lambda rounds, seconds: self._told_round(rig, rounds, seconds),
            honest=accounts.complaints,
            doubt=accounts.doubt,
        ).run()
        result.reds |= reds
        return result, chosen

    def _probe(self, rig: Rig, calls: int) -> tuple[bool, dict[str, Red]]:
        """Whether any variant keeps several cores busy. One that does gets all of them, and so do its rivals."""
        if not rig.near or len(rig.host.usable_cores()) == 1:
            return False, {}
        reds = rig.start(rig.alive)
        for name in reds:
            rig.retire(name)
        parallel = False
        for number in range(PROBE_ROUNDS):
            for name, found in rig.round(("probe", number), rig.alive, calls=calls).items():
                if isinstance(found, Red):
                    reds[name] = found
                elif number and found.cpu_ns > PARALLEL_FACTOR * found.wall_ns + PARALLEL_LEAST_NS:
                    parallel = True
        return parallel, reds

    def _regions(self, rig: Rig) -> dict[str, dict[str, float]]:
        """What the engine's own clock says about the parts of a call, from a few turns that nobody times."""
        standing = [name for name in rig.alive if rig.stands[name].worker is not None]
        for number in range(PROBE_ROUNDS if standing else 0):
            standing = [name for name in standing if rig.stands[name].worker is not None]
            try:
                rig.round(("regions", number), standing, timing=True)
            except DeviceGone:
                # What was measured is not lost over what nobody times.
                break
        found = {name: rig.stands[name].regions_ns for name in rig.alive}
        return {
            name: {region: statistics.median(spent) for region, spent in regions.items()}
            for name, regions in found.items()
            if regions
        }

    def _told_round(self, rig: Rig, rounds: int, seconds: float) -> None:
        rig.share = min(1.0, seconds / self.budget.seconds)
        self.on_progress(rig.share, f"round {rounds}")

    def _told_oracle(self, rig: Rig) -> None:
        """One that has taken its time before is named while it takes it again; in a trial that is every few rounds."""
        spent_s = rig.officials.oracle_spent_ns / 1e9
        if not rig.share or rig.oracle_ns > SLOW_ORACLE_NS:
            so_far = f", {units.duration(1e9 * spent_s)} so far" if spent_s >= 1 else ""
            self.on_progress(rig.share, f"waiting for the oracle{so_far}")

    def _explain(self, refusal: Refusal, run_id: str, *, search: bool) -> Failure:
        if not search:
            return failure(self.plan, refusal, self.command, None)
        folder = self.evidence_folder / run_id
        note = f"{refusal.variant} is refused; searching the smallest case"
        return explain(self.plan, refusal, folder, self.command, lambda case: self.on_progress(1.0, f"{note}: {case}"))

    def _design(self, blocks: list[Block], chosen: Batch) -> Design:
        return Design(
            regime=self.plan.regime,
            calls=chosen.calls,
            confidence=self.budget.confidence,
            candidates=max(1, len(self.plan.variants) - 1),
            blocks=blocks,
        )

    def _verdicts(
        self, result: Result, failures: dict[str, Failure], chosen: Batch, accounts: Accounts
    ) -> list[Verdict]:
        verdicts = []
        baseline, clock = result.baseline or self.baseline, self.plan.clock
        for name in map(str, self.plan.variants):
            if name in failures:
                why = f"{failures[name].reason}: {failures[name].detail}"
                verdicts.append(verdict.refused(name, baseline, why, effect=self.effect, clock=clock))
            elif name != baseline:
                said = verdict.of_trial(
                    result, name, effect=self.effect, clock=clock, notes=self._notes(name, baseline, chosen)
                )
                said = self._balanced(self._beside(said, result), result, accounts)
                if baseline != self.baseline:
                    said.reasons.append(f"{self.baseline} was refused, so {baseline} takes its place as the baseline")
                verdicts.append(said)
        return verdicts

    def _notes(self, name: str, baseline: str, chosen: Batch) -> list[str]:
        coarse = [one for one in (name, baseline) if one in chosen.coarse]
        return [f"the clock is too coarse for {one}: a whole turn is below 100 of its ticks" for one in coarse]

    def _beside(self, said: Verdict, result: Result) -> Verdict:
        """The same rounds by a clock that is not the variant's: a verdict that it does not bear out is none."""
        if said.outcome not in (Outcome.FASTER, Outcome.SLOWER) or self.plan.elsewhere is not None:
            return said
        outside = self._outside(said.candidate, result)
        wall = "wall clock" if self.plan.clock == "device" else "clock outside of its process"
        seen = f"by the {wall} it is {outside.ratio:.3f} ({outside.low:.3f} to {outside.high:.3f})" if outside else ""
        if self.plan.clock == "device":
            said.reasons.append(f"the device clock is the variant's own word; {seen or 'the wall clock tells nothing'}")
        borne_out = outside is not None and (outside.high < 1 if said.outcome is Outcome.FASTER else outside.low > 1)
        if borne_out:
            return said
        told = f"the difference does not show from outside: {seen}" if seen else "nothing was seen from outside"
        return msgspec.structs.replace(said, outcome=Outcome.UNDECIDED, reasons=[*said.reasons, told])

    def _balanced(self, said: Verdict, result: Result, accounts: Accounts) -> Verdict:
        """A saving that may be made up for off the clock is none that can be told."""
        arms = {Outcome.FASTER: (said.candidate, said.baseline), Outcome.SLOWER: (said.baseline, said.candidate)}
        if said.outcome not in arms:
            return said
        doubt = accounts.doubt(*arms[said.outcome], result.samples)
        if doubt is None:
            return said
        advice = "" if self.plan.regime == "cold" else ", and --regime cold times every call"
        told = f"{doubt}; a longer trial or an idle machine tells more{advice}"
        return msgspec.structs.replace(said, outcome=Outcome.UNDECIDED, reasons=[*said.reasons, told])

    def _outside(self, name: str, result: Result) -> statistics.Interval | None:
        """The ratio of whole turns, less what a turn costs that does nothing."""
        cost_ns = statistics.median([s.outside_ns - s.wall_ns for s in result.samples.get(EMPTY, [])] or [0])
        arms = []
        for arm in (name, result.baseline):
            samples = [_from_outside(sample, cost_ns) for sample in result.samples[arm]]
            arms.append(statistics.times(samples))
        return statistics.interval(*arms, judge=self.judge, confidence=self.budget.confidence)

    def _warnings(self, result: Result, chosen: Batch, surroundings: dict[str, Any], tick_ns: int) -> list[Warning]:
        clock = self.plan.clock
        names = [str(variant) for variant in self.plan.variants]
        times = {name: call_times(result.samples[name], clock) for name in names if result.samples.get(name)}
        early = {name: call_times(result.warm_up[name], clock) for name in names if result.warm_up.get(name)}
        once = {name: float(values.min()) for name, values in times.items()}
        everything: list[Sample] = [s for name in times for s in result.samples[name]]
        return [
            *warnings.weak_task(self.plan.engine.cautions()),
            *warnings.noisy(times),
            *warnings.too_short(once, chosen.calls, tick_ns),
            *warnings.first_repeats_slow(early, times),
            *warnings.background_load(everything, surroundings),
            *warnings.throttling(times),
            *warnings.power_source(surroundings),
            *warnings.software_adapter(surroundings),
            *warnings.quantised_clock(times, [name for name in chosen.coarse if name in times], tick_ns),
        ]

    def _summaries(self) -> dict[str, str]:
        """What the engine says about its variants, for those who read the run without the engine."""
        offered = {spec.name: spec.summary for spec in self.plan.engine.variants()}
        return {str(v): offered[v.name] for v in self.plan.variants if not v.file and offered.get(v.name)}

    def _memory(self) -> dict[str, Any]:
        own = [variant for variant in self.plan.variants if not variant.file and not variant.revision]
        rows = {str(variant): ask(self.plan.engine, "memory_map", self.case, variant) for variant in own}
        return {
            name: [{"name": row.name, "size_bytes": row.size_bytes, "lifetime": row.lifetime} for row in some]
            for name, some in rows.items()
            if some
        }

    def _work(self) -> Done | None:
        stated = ask(self.plan.engine, "work", self.case)
        if stated is None or not (stated.moved_bytes or stated.operations):
            return None
        return Done(moved_bytes=stated.moved_bytes, operations=stated.operations, operation=stated.operation)

    def _engine_folder(self) -> Path | None:
        path = Path(self.plan.ref.rpartition(":")[0] if ".py:" in self.plan.ref else self.plan.ref)
        return path.parent if path.suffix == ".py" else None


def _from_outside(sample: Sample, cost_ns: float) -> Sample:
    # A turn that cost less than usual must not look like one without work.
    return msgspec.structs.replace(sample, wall_ns=max(1, sample.wall_ns // 2, round(sample.outside_ns - cost_ns)))


def default_evidence_folder() -> Path:
    """Beside the run store."""
    from whet.evidence.store import default_path

    return default_path().parent / "evidence"
