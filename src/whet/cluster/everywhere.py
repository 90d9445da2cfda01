"""The same gated trials on every kind of machine of a cluster, and the runs in the store of this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whet import __version__
from whet.cluster.connection import connect
from whet.cluster.homecoming import bring_home
from whet.cluster.machines import Machine, by_kind, find_machines
from whet.cluster.travel import Luggage, pack
from whet.cluster.trial_messages import RunTrial
from whet.cluster.trials import OnProgress, Report, Round
from whet.errors import BadInput, WhetError
from whet.evidence import seeds
from whet.evidence.budgets import Budget
from whet.evidence.comparison import CALL_LIMIT_S, baseline_of, make_plan
from whet.evidence.elsewhere import is_elsewhere
from whet.evidence.examined import was_examined
from whet.evidence.record import Run
from whet.evidence.registry import Loaded
from whet.evidence.statistics import EFFECT, Judge
from whet.evidence.store import Store
from whet.evidence.store_rescue import add_or_keep
from whet.protocol import Case, Clock


@dataclass(frozen=True)
class Asked:
    """What a comparison is about, as `whet ab` takes it. No variants: all that can run on the machine at hand.

    `send`: files and folders that the engine reads; what it imports travels by itself.
    """

    loaded: Loaded
    variants: Sequence[str]
    cases: Sequence[Case]
    budget: Budget
    baseline: str | None = None
    effect: float = EFFECT
    judge: Judge = "median"
    regime: str = "warm"
    device: str | None = None
    clock: Clock = "wall"
    seed: int = field(default_factory=seeds.fresh)
    call_limit_s: float = CALL_LIMIT_S
    command: str = ""
    send: Sequence[Path] = ()


@dataclass(frozen=True)
class Outcome:
    """What one case came to on one kind of machine: a run, or the error that cost it.

    `left_out`: variants that have no device there, and why, where none was named.
    """

    kind: str
    machine: str
    case: Case
    run: Run | None = None
    error: WhetError | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gathered:
    """One outcome per kind and case, in that order, and whether Ctrl-C asked for an early end."""

    outcomes: list[Outcome]
    interrupted: bool = False

    @property
    def runs(self) -> list[Run]:
        return [one.run for one in self.outcomes if one.run is not None]


def compare_everywhere(
    asked: Asked,
    *,
    address: str,
    store: Store,
    kinds: Sequence[str] = (),
    on_machines: Callable[[Mapping[str, Sequence[Machine]]], None] = lambda found: None,
    on_progress: OnProgress = lambda kind, machine, share, note: None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> Gathered:
    """Runs every case on every kind, or on those named. A run is on the disk here as soon as it has come home.

    What is wrong with the question is raised before anything is asked of the cluster; what goes wrong on one machine
    is an outcome, and the others go on.
    """
    luggage = _luggage(asked)
    trials = [_trial(asked, luggage, case, store) for case in asked.cases]
    outcomes: list[Outcome] = []

    def arrived(report: Report) -> None:
        outcome = _home(report, asked, trials[report.number], root=luggage.root, address=address, store=store)
        outcomes.append(outcome)
        on_outcome(outcome)

    with connect(address) as connection:
        found = by_kind(find_machines(connection), kinds)
        on_machines(found)
        round_ = Round(connection, found, trials, on_progress=on_progress, on_report=arrived)
        round_.run()
    place = {(kind, str(case)): at for at, (kind, case) in enumerate((k, c) for k in found for c in asked.cases)}
    outcomes.sort(key=lambda one: place[one.kind, str(one.case)])
    return Gathered(outcomes, round_.interrupted)


def _luggage(asked: Asked) -> Luggage:
    if asked.device is not None and is_elsewhere(asked.device):
        raise BadInput(f"{asked.device} is reached from this machine alone", cure="give --device or --on, not both")
    luggage = pack(asked.loaded, asked.variants, asked.send)
    if asked.variants:
        plan = make_plan(
            asked.loaded,
            asked.variants,
            device=asked.device,
            seed=asked.seed,
            clock=asked.clock,
            call_limit_s=asked.call_limit_s,
        )
        baseline_of(asked.loaded, plan, asked.baseline)
    return luggage


def _trial(asked: Asked, luggage: Luggage, case: Case, store: Store) -> RunTrial:
    return RunTrial(
        engine=luggage.engine,
        engine_sha256=asked.loaded.sha256,
        variants=luggage.variants,
        baseline=luggage.names.get(asked.baseline, asked.baseline) if asked.baseline else None,
        case=case,
        budget=asked.budget,
        effect=asked.effect,
        judge=asked.judge,
        regime=asked.regime,
        device=asked.device,
        clock=asked.clock,
        seed=asked.seed,
        call_limit_s=asked.call_limit_s,
        command=asked.command,
        task_examined=was_examined(store.path.parent, asked.loaded),
        whet=__version__,
        files=luggage.files,
    )


def _home(report: Report, asked: Asked, trial: RunTrial, *, root: Path, address: str, store: Store) -> Outcome:
    case = asked.cases[report.number]
    if report.finished is None:
        return Outcome(report.kind, report.host, case, error=report.failure)
    try:
        run = bring_home(
            report.finished,
            trial,
            engine_ref=asked.loaded.ref,
            root=root,
            evidence_folder=store.path.parent / "evidence",
            cluster={"address": address, "kind": report.kind, "machine": report.host},
        )
        add_or_keep(store, run)
    except WhetError as error:
        return Outcome(report.kind, report.host, case, error=error)
    return Outcome(report.kind, report.host, case, run=run, left_out=report.finished.left_out)
