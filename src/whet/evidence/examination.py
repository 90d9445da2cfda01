"""The gate alone: several repeats of a case on fresh inputs, and the search for the smallest case that fails."""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from whet.errors import WhetError
from whet.evidence import seeds
from whet.evidence.cases import shrinking
from whet.evidence.claims import Reading, Red
from whet.evidence.gate import Plan, Rig
from whet.evidence.record import Failure
from whet.protocol import Case

REPEATS = 3
MOST_REPEATS = 500
SEARCH_SECONDS = 8.0
CONFIRM_SECONDS = 30.0
# Trying these again costs a whole time limit each, so they are reported where they were seen.
NOT_SEARCHED = ("hung",)


@dataclass(frozen=True)
class Refusal:
    """A red variant with the circumstances under which it showed."""

    variant: str
    red: Red
    case: Case
    calls: int


def examine(
    rig: Rig, case: Case, repeats: int = REPEATS, deadline: float = math.inf
) -> tuple[dict[str, list[Reading]], dict[str, Refusal]]:
    """Runs every variant that is still alive `repeats` times on `case`; one process each, state kept in between."""
    readings: dict[str, list[Reading]] = {name: [] for name in rig.alive}
    refusals = {name: Refusal(name, red, case, 0) for name, red in rig.open(case).items()}
    for repeat in range(repeats):
        alive = rig.alive
        if not alive or time.monotonic() > deadline:
            break
        label = ("check", str(case), repeat)
        for name, found in rig.round(label, alive, dict.fromkeys(alive, 1)).items():
            if isinstance(found, Red):
                refusals[name] = Refusal(name, found, case, repeat + 1)
                readings.pop(name, None)
            else:
                readings[name].append(found)
    return readings, refusals


def explain(plan: Plan, refusal: Refusal, folder: Path, fallback: str, on_try: Callable[[Case], None]) -> Failure:
    """Looks for the smallest case that fails and for a command that fails again, and saves the bytes of it."""
    plan = replace(plan, variants=tuple(v for v in plan.variants if str(v) == refusal.variant))
    if refusal.red.reason in NOT_SEARCHED:
        return failure(plan, refusal, command(plan, refusal.case, max(REPEATS, refusal.calls)), None)
    smallest = _search(plan, refusal, on_try)
    stubborn = (refusal.case, min(refusal.calls, MOST_REPEATS) + 5)
    for case, repeats in [*([(smallest, REPEATS)] if smallest else []), stubborn]:
        on_try(case)
        again, saved = _confirm(plan, case, repeats, folder)
        if again is not None:
            return failure(plan, again, command(plan, case, repeats), saved)
    return failure(plan, refusal, fallback, None)


def _search(plan: Plan, refusal: Refusal, on_try: Callable[[Case], None]) -> Case | None:
    """The smallest case that fails in a process that saw only smaller ones before."""
    deadline = time.monotonic() + SEARCH_SECONDS
    with Rig(plan) as rig:
        for case in shrinking(plan.engine, refusal.case):
            if time.monotonic() > deadline and case != refusal.case:
                continue
            on_try(case)
            # Halving leaves the sizes an engine offers; one that it cannot make is no answer.
            with contextlib.suppress(WhetError):
                if examine(rig, case)[1]:
                    return case
    return None


def _confirm(plan: Plan, case: Case, repeats: int, folder: Path) -> tuple[Refusal | None, str | None]:
    """The same again in a fresh process, as the printed command will do it."""
    with Rig(plan) as rig:
        _, refusals = examine(rig, case, repeats, time.monotonic() + CONFIRM_SECONDS)
        if not refusals:
            return None, None
        refusal = next(iter(refusals.values()))
        path = folder / f"{refusal.variant.partition(':')[0]}.npz"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            rig.save_evidence(refusal.variant, refusal.red.slot, str(path))
        except (OSError, WhetError):
            return refusal, None
        return refusal, str(path)


def failure(plan: Plan, refusal: Refusal, fails_again: str, saved: str | None) -> Failure:
    return Failure(
        reason=refusal.red.reason,
        detail=refusal.red.detail,
        case=refusal.case,
        seed=plan.seed,
        fixed_seed=seeds.derive(plan.seed, "fixed"),
        command=fails_again,
        expected=refusal.red.expected,
        got=refusal.red.got,
        inputs_path=saved,
    )


def command(plan: Plan, case: Case, repeats: int) -> str:
    """The command line that repeats this examination to the byte."""
    words = ["whet", "check", plan.ref, str(plan.variants[0])]
    for axis, size in case.sizes.items():
        words += ["--size", f"{axis}={size}"]
    words += ["--profile", case.profile, "--seed", str(plan.seed), "--repeats", str(repeats)]
    if plan.device != "cpu":
        words += ["--device", plan.device]
    if plan.clock != "wall":
        words += ["--clock", plan.clock]
    if plan.call_limit_s != Plan.call_limit_s:
        words += ["--call-limit", f"{plan.call_limit_s:g}"]
    return shlex.join(words)
