"""Programs from end to end: setup, gate, trial, verdict, and one `Run` like that of any engine."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from whet.errors import BadInput
from whet.evidence import environment, seeds, statistics, verdict, warnings
from whet.evidence.budgets import Budget
from whet.evidence.examination import gate
from whet.evidence.experiment import Progress
from whet.evidence.programs.program import Program, Setting
from whet.evidence.programs.starting import Starter
from whet.evidence.programs.turns import PARALLEL_FACTOR, ProgramTurns
from whet.evidence.readings import Reading, Red
from whet.evidence.record import EMPTY, Design, Failure, Floor, Resources, Run, Verdict
from whet.evidence.statistics import Judge, call_times
from whet.evidence.trial import FEWER_THAN_TWO, Result, Trial
from whet.protocol import Array, Case, Tolerance

ENGINE = "programs"
# Each program answers so often before anything is timed: the second answer shows whether it agrees with itself.
GATE_TURNS = 2


def compare_programs(
    programs: Sequence[Program],
    setting: Setting,
    *,
    budget: Budget,
    baseline: str = "",
    effect: float = statistics.EFFECT,
    judge: Judge = "median",
    seed: int | None = None,
    command: str = "",
    on_progress: Progress = lambda share, note: None,
) -> Run:
    """One trial of two programs or more, or of one alone. Nothing that it started is left when it returns or raises."""
    names = [program.name for program in programs]
    if baseline and baseline not in names:
        raise BadInput(f"baseline {baseline!r} is not among the commands", cure=f"commands: {', '.join(names)}")
    began, created = time.monotonic(), datetime.now(UTC)
    drawn = seeds.fresh() if seed is None else seed
    surroundings = environment.capture(Path.cwd())
    with Starter() as starter:
        turns = ProgramTurns(starter, programs, setting)
        turns.step("--setup", setting.setup)
        try:
            reds = _gate(turns, names, setting, on_progress)
            alive = [name for name in names if name not in reds]
            result = Result({}, {}, baseline=next(iter(alive), ""), stopped=FEWER_THAN_TWO)
            if len(alive) >= min(2, len(names)):
                result = Trial(
                    source=turns,
                    variants=alive,
                    baseline=baseline if baseline in alive else alive[0],
                    budget=budget,
                    seed=drawn,
                    effect=effect,
                    judge=judge,
                    on_round=lambda rounds, spent: on_progress(min(1.0, spent / budget.seconds), f"round {rounds}"),
                    warm_blocks=False,
                ).run()
            result.reds |= reds
        finally:
            for program in programs:
                turns.step("--cleanup", program.cleanup)
    case = _case(setting)
    failures = {
        name: Failure(
            reason=red.reason,
            detail=red.detail,
            case=case,
            seed=drawn,
            fixed_seed=0,
            command=command,
            expected=red.expected,
            got=red.got,
        )
        for name, red in result.reds.items()
    }
    return Run(
        id=f"{created:%Y%m%dT%H%M%S}-{seeds.derive(drawn, time.time_ns()):016x}"[:24],
        created=created.isoformat(timespec="seconds"),
        engine=ENGINE,
        engine_ref=ENGINE,
        engine_sha256=hashlib.sha256("\0".join(program.command for program in programs).encode()).hexdigest(),
        command=command,
        case=case,
        device="cpu",
        seed=drawn,
        fixed_seed=0,
        budget=budget.name,
        baseline=result.baseline or names[0],
        variants=names,
        gates=[gate(name, turns.turns.get(name, 0), 0, failures.get(name)) for name in names],
        samples=sorted((s for some in result.samples.values() for s in some), key=lambda s: (s.round, s.order)),
        verdicts=_verdicts(result, names, failures, effect),
        warnings=[
            *warnings.noisy(_times(result, names)),
            *warnings.background_load([s for name in names for s in result.samples.get(name, [])], surroundings),
            *warnings.throttling(_times(result, names)),
            *warnings.power_source(surroundings),
        ],
        environment=surroundings,
        stopped=result.stopped,
        elapsed_s=round(time.monotonic() - began, 3),
        design=Design(
            regime="process",
            confidence=budget.confidence,
            candidates=max(1, len(names) - 1),
            blocks=result.blocks,
        ),
        control=result.control,
        tails={name: statistics.tails(values) for name, values in _times(result, names).items()},
        floor=_floor(result),
        tolerance=Tolerance(),
        task_examined=True,
        summaries={program.name: program.command for program in programs if program.name != program.command},
        resources=_resources(turns, [name for name in names if result.samples.get(name)]),
    )


def _gate(turns: ProgramTurns, names: Sequence[str], setting: Setting, on_progress: Progress) -> dict[str, Red]:
    """Untimed answers of every program on all cores; they warm up what there is to warm up."""
    reds: dict[str, Red] = {}
    for number in range(max(GATE_TURNS, setting.warmup)):
        for name in [name for name in names if name not in reds]:
            on_progress(0.0, f"gate: {name}")
            found = turns.turn(name, keep=False)
            if isinstance(found, Red):
                if name == names[0] and number == 0 and not setting.expect:
                    raise BadInput(
                        f"the reference {name!r} is no good: {found.reason}: {found.detail}",
                        cure="mend it, name another command first, or give the right output with --expect FILE",
                    )
                reds[name] = found
            elif isinstance(found, Reading) and found.cpu_ns > PARALLEL_FACTOR * found.wall_ns:
                turns.parallel = True
    return reds


def _case(setting: Setting) -> Case:
    """Parameters that are whole numbers are sizes, so that a report shows how the programs grow with them."""
    sizes, others = {}, []
    for name, value in setting.parameters.items():
        with contextlib.suppress(ValueError):
            sizes[name] = int(value)
            continue
        others.append(f"{name}={shlex.quote(value)}")
    return Case(sizes=sizes, profile=",".join(others) or "as typed")


def _times(result: Result, names: Sequence[str]) -> dict[str, Array]:
    return {name: call_times(result.samples[name]) for name in names if result.samples.get(name)}


def _floor(result: Result) -> Floor | None:
    empty = result.samples.get(EMPTY)
    if not empty:
        return None
    return Floor(
        empty_ns=statistics.median([sample.wall_ns for sample in empty]),
        read_ns=0.0,
        bandwidth_bytes_per_s=0.0,
        turn_overhead_ns=0.0,
    )


def _resources(turns: ProgramTurns, names: Sequence[str]) -> dict[str, Resources]:
    return {
        name: Resources(
            user_ns=statistics.median([one.user_ns for one in turns.ended[name]]),
            system_ns=statistics.median([one.system_ns for one in turns.ended[name]]),
            peak_bytes=max(one.peak_bytes for one in turns.ended[name]),
            least_bytes=turns.least_bytes,
        )
        for name in names
    }


def _verdicts(result: Result, names: Sequence[str], failures: dict[str, Failure], effect: float) -> list[Verdict]:
    said = []
    for name in names:
        if name in failures:
            why = f"{failures[name].reason}: {failures[name].detail}"
            said.append(verdict.refused(name, result.baseline or names[0], why, effect=effect, clock="wall"))
        elif name != result.baseline:
            said.append(verdict.of_trial(result, name, effect=effect, clock="wall"))
    return said
