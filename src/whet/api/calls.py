"""`whet.ab`, `whet.check` and `whet.sweep`: what the commands of the same names do, for functions and engines alike."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whet.api.result import CheckResult, Result, Sweep
from whet.cli.settings import open_store, store_place
from whet.errors import BadInput, StoreError
from whet.evidence import cases, comparison
from whet.evidence.budgets import BUDGETS, Budget
from whet.evidence.examination import TURNS, examine_all
from whet.evidence.registry import Loaded, load
from whet.evidence.rig import Plan
from whet.evidence.statistics import EFFECT, JUDGES, Judge
from whet.functions import bundle
from whet.functions.describing import Sizes, ToleranceLike, describe, named, read_sizes
from whet.protocol import Case, Clock

if TYPE_CHECKING:
    from whet.evidence.record import Run
    from whet.evidence.store import Store

FOLDER = "functions"
MOST_POINTS = 200


@dataclass(frozen=True)
class Asked:
    """An engine, and which of its variants take part."""

    loaded: Loaded
    variants: list[str]


def ab(
    *variants: Any,
    inputs: Callable[..., Any] | None = None,
    oracle: Callable[..., Any] | str | None = None,
    sizes: Sizes | None = None,
    tolerance: ToleranceLike = None,
    name: str = "",
    profile: str | None = None,
    baseline: str | None = None,
    budget: str | Budget = "default",
    effect: float = EFFECT,
    judge: Judge = "median",
    regime: str = "warm",
    device: str | None = None,
    clock: Clock = "wall",
    seed: int | None = None,
    call_limit_s: float = comparison.CALL_LIMIT_S,
    store: Store | bool = True,
) -> Result:
    """Which one should I ship, and how do I know? Gate, interleaved trial, verdict.

    `variants` are functions, or one dict of functions by name; the first is the baseline. A function takes the inputs
    by the names of its parameters, and returns its answer or writes it into `out`. `inputs(n, rng)` makes fresh inputs:
    a dict by name, one array or a tuple; it may ask for any size, `seed`, `rng` and `case`. `oracle` is the answer from
    somewhere else. `sizes` are the axes: {"n": 2**14}, or several each; the largest is timed, all of them are gated.
    `tolerance` is a share, such as 1e-9, or a Tolerance; by dtype unless given.

    Or, as for `whet ab`: the name or file of an engine, then the names of its variants (all unless named).

    Each variant runs in processes of its own. The run is kept in the store unless `store=False`.
    """
    asked = _asked(variants, inputs=inputs, oracle=oracle, sizes=sizes, tolerance=tolerance, name=name)
    kept = _sizes_of(sizes)
    _known(budget, judge, regime, effect)
    plan = comparison.make_plan(
        asked.loaded, asked.variants, device=device, seed=seed, clock=clock, call_limit_s=call_limit_s
    )
    case = cases.choose(asked.loaded.engine, kept, profile)
    base = str(plan.variants[0]) if baseline is None else comparison.baseline_of(asked.loaded, plan, baseline)
    with _opened(store) as opened:
        return Result(
            _compared(
                asked, plan, case, baseline=base, budget=budget, effect=effect, judge=judge, regime=regime, store=opened
            )
        )


def check(
    *variants: Any,
    inputs: Callable[..., Any] | None = None,
    oracle: Callable[..., Any] | str | None = None,
    sizes: Sizes | None = None,
    tolerance: ToleranceLike = None,
    name: str = "",
    profile: str | None = None,
    repeats: int = TURNS,
    device: str | None = None,
    seed: int | None = None,
    call_limit_s: float = comparison.CALL_LIMIT_S,
) -> CheckResult:
    """The gate alone, on every case that `sizes` makes. The result is true if all variants are green."""
    asked = _asked(variants, inputs=inputs, oracle=oracle, sizes=sizes, tolerance=tolerance, name=name)
    if repeats < 1:
        raise BadInput(f"{repeats} repeats check nothing", cure="give one or more")
    plan = comparison.make_plan(
        asked.loaded, asked.variants, device=device, seed=seed, clock="wall", call_limit_s=call_limit_s
    )
    chosen = _points(asked, sizes or {}, {}, profile) if sizes else list(asked.loaded.engine.cases())
    folder = store_place().parent / "evidence"
    command = shlex.join(["whet", "check", asked.loaded.ref, *asked.variants, f"--seed={plan.seed}"])
    with _shown(f"gate {asked.loaded.engine.name}") as show:
        gates = examine_all(plan, chosen, repeats, folder=folder, command=command, show=show)
    return CheckResult(gates, chosen, plan.seed)


def sweep(
    *variants: Any,
    axes: Sizes,
    inputs: Callable[..., Any] | None = None,
    oracle: Callable[..., Any] | str | None = None,
    sizes: Sizes | None = None,
    tolerance: ToleranceLike = None,
    name: str = "",
    profile: str | None = None,
    budget: str | Budget = "default",
    effect: float = EFFECT,
    judge: Judge = "median",
    regime: str = "warm",
    device: str | None = None,
    clock: Clock = "wall",
    seed: int | None = None,
    call_limit_s: float = comparison.CALL_LIMIT_S,
    store: Store | bool = True,
) -> Sweep:
    """The same over the values of one axis or several: `axes={"n": [2**8, 2**10, 2**12]}`. The rest is as for `ab`."""
    asked = _asked(
        variants, inputs=inputs, oracle=oracle, sizes={**(sizes or {}), **axes}, tolerance=tolerance, name=name
    )
    _known(budget, judge, regime, effect)
    plan = comparison.make_plan(
        asked.loaded, asked.variants, device=device, seed=seed, clock=clock, call_limit_s=call_limit_s
    )
    base, runs = str(plan.variants[0]), []
    judged = {"baseline": base, "budget": budget, "effect": effect, "judge": judge, "regime": regime}
    with _opened(store) as opened:
        for case in _points(asked, axes, sizes or {}, profile):
            runs.append(_compared(asked, plan, case, store=opened, **judged))
            if runs[-1].interrupted:
                break
    return Sweep(runs)


def _asked(
    variants: tuple[Any, ...],
    *,
    inputs: Any,
    oracle: Any,
    sizes: Sizes | None,
    tolerance: ToleranceLike,
    name: str,
) -> Asked:
    if not variants:
        raise BadInput(
            "there is nothing to compare", cure='give functions: whet.ab({"plain": plain, "fast": fast}, ...)'
        )
    if all(isinstance(one, str | Path) for one in variants):
        if inputs is not None or oracle is not None or tolerance is not None or name:
            raise BadInput("an engine has inputs, oracle, tolerance and name of its own", cure="leave them out")
        loaded = load(str(variants[0]))
        return Asked(loaded, [*map(str, variants[1:])] or [spec.name for spec in loaded.engine.variants()])
    given = named(variants[0] if len(variants) == 1 and isinstance(variants[0], Mapping) else variants)
    if isinstance(oracle, str):
        if oracle not in given:
            raise BadInput(f"oracle {oracle!r} is not among the variants", cure=f"variants: {', '.join(given)}")
        oracle = given[oracle]
    about = describe(given, inputs, oracle, name=name, sizes=sizes, tolerance=tolerance)
    assert inputs is not None and oracle is not None
    place = bundle.write(store_place().parent / FOLDER, about, given, inputs, oracle)
    return Asked(load(str(place)), list(given))


def _compared(asked: Asked, plan: Plan, case: Case, *, store: Store | None, budget: Any, **judged: Any) -> Run:
    given = [f"--size={axis}={size}" for axis, size in case.sizes.items()]
    with _shown(f"{asked.loaded.engine.name} {case}") as show:
        return comparison.run_comparison(
            asked.loaded,
            plan,
            case,
            budget=BUDGETS[budget] if isinstance(budget, str) else budget,
            command=shlex.join(["whet", "ab", asked.loaded.ref, *asked.variants, *given, f"--seed={plan.seed}"]),
            store=store,
            on_progress=show,
            **judged,
        )


def _known(budget: str | Budget, judge: str, regime: str, effect: float) -> None:
    if isinstance(budget, str) and budget not in BUDGETS:
        raise BadInput(f"there is no budget {budget!r}", cure=f"budgets: {', '.join(BUDGETS)}")
    if judge not in JUDGES:
        raise BadInput(f"there is no statistic {judge!r}", cure=f"judge by: {', '.join(JUDGES)}")
    if regime not in ("warm", "cold"):
        raise BadInput(f"there is no regime {regime!r}", cure="regimes: warm, cold")
    if not 0 < effect < 1:
        raise BadInput(f"effect {effect!r} is no share of the time", cure="write effect=0.02 for two per cent")


def _sizes_of(sizes: Sizes | None) -> dict[str, int]:
    """The largest of each axis is what is timed."""
    return {axis: values[-1] for axis, values in read_sizes(sizes or {}).items()}


def _points(asked: Asked, axes: Sizes, sizes: Sizes, profile: str | None) -> list[Case]:
    read = read_sizes(axes)
    if not read:
        raise BadInput("there is no axis to go through", cure='write axes={"n": [2**8, 2**10]}')
    if twice := set(read) & set(sizes):
        raise BadInput(f"{sorted(twice)[0]} is an axis and a size", cure="give it once")
    combined = list(itertools.islice(itertools.product(*read.values()), MOST_POINTS + 1))
    if len(combined) > MOST_POINTS:
        raise BadInput(f"more than {MOST_POINTS} points", cure="try fewer values at once")
    fixed = _sizes_of(sizes)
    return [
        cases.choose(asked.loaded.engine, {**fixed, **dict(zip(read, values, strict=True))}, profile)
        for values in combined
    ]


@contextlib.contextmanager
def _opened(store: Store | bool) -> Iterator[Store | None]:
    """The store that the command line would use. One that cannot be opened costs a remark, not the result."""
    if not isinstance(store, bool):
        yield store
        return
    if not store:
        yield None
        return
    try:
        opened = open_store(None)
    except StoreError as error:
        print(f"whet: the run will not be stored: {error}", file=sys.stderr)
        yield None
        return
    with opened:
        yield opened


@contextlib.contextmanager
def _shown(description: str) -> Iterator[Callable[[float, str], None]]:
    from whet.cli.plan_options import shown_progress

    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda share, note: None
        return
    with shown_progress(description) as show:
        yield show
