"""A comparison in one call: `ab("task.py", "base", "candidate.py:fast")` gives the run that `whet ab` would show."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from whet.errors import BadInput
from whet.evidence import seeds, system
from whet.evidence.asked_variants import distinct, read_variant
from whet.evidence.budgets import BUDGETS, Budget
from whet.evidence.cases import choose
from whet.evidence.elsewhere import is_elsewhere
from whet.evidence.examined import was_examined
from whet.evidence.experiment import Experiment, Progress, default_evidence_folder
from whet.evidence.messages import Tree
from whet.evidence.record import Run
from whet.evidence.registry import Loaded, load, source_file
from whet.evidence.remote_rig import placed, show_verdicts
from whet.evidence.revision import make_tree, repository_of
from whet.evidence.revision_probe import require_variant
from whet.evidence.rig import Plan
from whet.evidence.statistics import EFFECT, Judge
from whet.evidence.store import Store
from whet.evidence.store_rescue import add_or_keep
from whet.protocol import Case, Clock, Variant

CALL_LIMIT_S = 60.0


def ab(
    task: str,
    *variants: str,
    sizes: Mapping[str, int] | None = None,
    profile: str | None = None,
    baseline: str | None = None,
    budget: str | Budget = "default",
    effect: float = EFFECT,
    judge: Judge = "median",
    regime: str = "warm",
    device: str | None = None,
    clock: Clock = "wall",
    seed: int | None = None,
    call_limit_s: float = CALL_LIMIT_S,
    store: Store | None = None,
    on_progress: Progress = lambda share, note: None,
) -> Run:
    """Gate, interleaved trial, verdict: what `whet ab` does, with the words it takes.

    `budget` is quick, default, rigorous or one of your own (`budgets.custom`). The run is kept where a store is given.
    """
    loaded = load(task)
    if isinstance(budget, str) and budget not in BUDGETS:
        raise BadInput(f"there is no budget {budget!r}", cure=f"budgets: {', '.join(BUDGETS)}")
    plan = make_plan(loaded, variants, device=device, seed=seed, clock=clock, call_limit_s=call_limit_s)
    base = baseline_of(loaded, plan, baseline)
    case = choose(loaded.engine, sizes or {}, profile)
    given = [f"--size={axis}={size}" for axis, size in (sizes or {}).items()]
    given += [f"--profile={profile}"] if profile else []
    given += [f"--device={device}"] if device else []
    return run_comparison(
        loaded,
        plan,
        case,
        baseline=base,
        budget=BUDGETS[budget] if isinstance(budget, str) else budget,
        effect=effect,
        judge=judge,
        regime=regime,
        command=shlex.join(["whet", "ab", task, *variants, *given, f"--seed={plan.seed}"]),
        store=store,
        on_progress=on_progress,
    )


def make_plan(
    loaded: Loaded,
    variants: Sequence[str],
    *,
    device: str | None,
    seed: int | None,
    clock: Clock,
    call_limit_s: float,
    build: str | None = None,
) -> Plan:
    """Reads variants and device against what the engine offers."""
    engine = loaded.engine
    chosen = [read_variant(engine, text) for text in variants]
    distinct(chosen)
    where = device if device is not None else engine.devices[0]
    away = is_elsewhere(where)
    if away and any(variant.file for variant in chosen):
        raise BadInput(
            f"a candidate is a Python function, and {where} runs programs",
            cure="give the engine portable() for it",
        )
    if not away and where.partition(":")[0] not in {known.partition(":")[0] for known in engine.devices}:
        raise BadInput(f"engine {engine.name} does not run on {where!r}", cure=f"devices: {', '.join(engine.devices)}")
    for variant in chosen:
        if device == "cpu" and not variant.file and engine.device_of(variant, device) != device:
            raise BadInput(f"variant {variant} does not run on the CPU", cure="leave --device out, or name its device")
    if clock == "device" and any(variant.file for variant in chosen):
        raise BadInput(
            "a device clock is the variant's own word, and a candidate is a stranger", cure="use --clock wall"
        )
    drawn = seeds.fresh() if seed is None else seed
    # Every process of this user can read a command line.
    system.host().hide_arguments(frozenset([str(drawn)]))
    trees = trees_of(loaded, chosen, build)
    return Plan(engine, loaded.ref, tuple(chosen), where, drawn, clock, call_limit_s, trees=trees, build=build)


def trees_of(loaded: Loaded, variants: Sequence[Variant], build: str | None) -> dict[str, Tree]:
    """The trees of all revisions that the variants name, by revision; each variant is there."""
    trees: dict[str, Tree] = {}
    for variant in variants:
        if variant.revision:
            root = repository_of(Path(variant.file or source_file(loaded)))
            if variant.revision not in trees:
                trees[variant.revision] = make_tree(root, variant.revision, build)
            require_variant(loaded.ref, variant, trees[variant.revision])
    return trees


def baseline_of(loaded: Loaded, plan: Plan, asked: str | None) -> str:
    """The name of what the others are compared with: the first variant unless asked for. One alone has no others."""
    found = str(read_variant(loaded.engine, asked) if asked else plan.variants[0])
    if found not in map(str, plan.variants):
        raise BadInput(f"baseline {found} is not among the variants", cure="name it as a variant too")
    return found


def run_comparison(
    loaded: Loaded,
    plan: Plan,
    case: Case,
    *,
    baseline: str,
    budget: Budget,
    effect: float,
    judge: Judge,
    regime: str,
    command: str,
    store: Store | None,
    on_progress: Progress,
) -> Run:
    """One experiment, on the device of the plan. When this returns, a run that has a store is on the disk."""
    folder = store.path.parent if store else default_evidence_folder().parent
    with placed(replace(plan, regime=regime)) as there:
        run = Experiment(
            plan=there,
            case=case,
            budget=budget,
            baseline=baseline,
            command=command,
            engine_sha256=loaded.sha256,
            evidence_folder=folder / "evidence",
            effect=effect,
            judge=judge,
            task_examined=was_examined(folder, loaded),
            on_progress=on_progress,
        ).run()
        if there.elsewhere is not None:
            show_verdicts(there.elsewhere, run)
    if store is not None:
        add_or_keep(store, run)
    return run
