"""Turns of variants whose every answer is right, for commands that show times without comparing: one red, no times."""

from __future__ import annotations

from collections.abc import Callable

from whet.errors import OracleMismatch, Unsupported
from whet.evidence.cases import choose
from whet.evidence.examination import check_command
from whet.evidence.readings import Reading, Red
from whet.evidence.registry import Loaded
from whet.evidence.remote_rig import rig_for
from whet.evidence.rig import Plan
from whet.protocol import BudgetFrontier, Case, parse_variant

FRONTIER_REPEATS = 3
FRONTIER_SEED = 1


def green_turns(
    plan: Plan,
    case: Case,
    repeats: int,
    *,
    timing: bool = False,
    on_progress: Callable[[float, str], None] = lambda share, note: None,
) -> dict[str, list[Reading]]:
    """By variant, `repeats` turns after one that warms up, interleaved and each on fresh inputs.

    `on_progress` hears a share from 0 to 1 and what comes next. A variant that is wrong in any of them has no times,
    nor have the others: OracleMismatch.
    """
    names = [str(variant) for variant in plan.variants]
    readings: dict[str, list[Reading]] = {name: [] for name in names}
    with rig_for(plan) as rig:
        on_progress(0.0, "making the inputs")
        rig.open(case)
        on_progress(0.0, "starting")
        for name, red in rig.start(names).items():
            raise red.cause or _refused(plan, name, case, red, repeats)
        for number in range(repeats + 1):
            on_progress(number / (repeats + 1), f"call {number} of {repeats}" if number else "warming up")
            for name, found in rig.round(("check", str(case), number), names, timing=timing).items():
                if isinstance(found, Red):
                    raise _refused(plan, name, case, found, repeats)
                readings[name].append(found)
    return {name: turns[1:] for name, turns in readings.items()}


def frontier_times(loaded: Loaded, frontier: BudgetFrontier) -> list[int | None]:
    """The best time of a call at each step that names a variant, which runs as any other does; None at the others."""
    engine = loaded.engine
    variants = {step.variant: parse_variant(engine, step.variant) for step in frontier.steps if step.variant}
    if not variants:
        raise Unsupported(f"engine {engine.name} does not time its budgets", cure="leave --measure out")
    plan = Plan(engine, loaded.ref, tuple(variants.values()), engine.devices[0], FRONTIER_SEED)
    turns = green_turns(plan, choose(engine, {"n": frontier.n}, None), FRONTIER_REPEATS)
    best = {text: min(turn.wall_ns for turn in turns[str(variant)]) for text, variant in variants.items()}
    return [best.get(step.variant) for step in frontier.steps]


def _refused(plan: Plan, name: str, case: Case, red: Red, repeats: int) -> OracleMismatch:
    return OracleMismatch(
        f"{name} is refused at {case}: {red.reason}: {red.detail}; what is wrong has no times",
        cure=f"mend it; it fails again with: {check_command(plan, case, repeats + 1)}",
    )
