"""The gate alone: several turns of a case on fresh inputs, and the search for the smallest case that fails."""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from whet.errors import WhetError
from whet.evidence import seeds
from whet.evidence.cases import shrinking
from whet.evidence.readings import Reading, Red
from whet.evidence.record import Failure, Gate
from whet.evidence.remote_rig import placed, rig_for
from whet.evidence.rig import Plan, Rig
from whet.protocol import Case

TURNS = 3
MOST_TURNS = 500
SEARCH_SECONDS = 8.0
CONFIRM_SECONDS = 30.0
# Trying these again costs a whole time limit each, so they are reported where they were seen.
NOT_SEARCHED = ("hung",)
# These show in times alone, which only a trial takes: what fails again is the trial.
SEEN_IN_TRIALS = (
    "its clock and ours disagree",
    "worked outside its clock",
    "below the floor",
    "uneven calls",
    "host work",
    "no device clock",
    "shares memory",
)


@dataclass(frozen=True)
class Refusal:
    """A red variant with the circumstances under which it showed."""

    variant: str
    red: Red
    case: Case
    calls: int


def examine(
    rig: Rig, case: Case, turns: int = TURNS, deadline: float = math.inf
) -> tuple[dict[str, list[Reading]], dict[str, Refusal]]:
    """Every variant that is still alive takes `turns` turns on `case`; one process each, state kept in between."""
    readings: dict[str, list[Reading]] = {name: [] for name in rig.alive}
    rig.open(case)
    refusals: dict[str, Refusal] = {}
    for name, red in rig.move_on(rig.alive).items():
        refusals[name] = Refusal(name, red, case, 0)
        readings.pop(name)
        rig.retire(name)
    _blame_the_device(readings, refusals)
    for turn in range(turns):
        alive = rig.alive
        if not alive or time.monotonic() > deadline:
            break
        for name, found in rig.round(("check", str(case), turn), alive).items():
            if isinstance(found, Red):
                refusals[name] = Refusal(name, found, case, turn + 1)
                readings.pop(name, None)
            else:
                readings[name].append(found)
    return readings, refusals


def _blame_the_device(readings: dict[str, list[Reading]], refusals: dict[str, Refusal]) -> None:
    """One variant that cannot run here is refused; if none can, it is no variant's fault."""
    causes = [refusal.red.cause for refusal in refusals.values()]
    if causes and not readings and all(causes):
        assert causes[0] is not None
        raise causes[0]


def examine_all(
    plan: Plan,
    chosen: Sequence[Case],
    turns: int,
    *,
    folder: Path,
    command: str,
    show: Callable[[float, str], None],
) -> list[Gate]:
    """Every variant on every case; a variant that turns red is left out of the rest."""
    with placed(plan) as there:
        return _examined(there, chosen, turns, folder=folder, command=command, show=show)


def _examined(
    plan: Plan,
    chosen: Sequence[Case],
    turns: int,
    *,
    folder: Path,
    command: str,
    show: Callable[[float, str], None],
) -> list[Gate]:
    refusals: dict[str, Refusal] = {}
    with rig_for(plan) as rig:
        for number, case in enumerate(chosen):
            if rig.alive:
                show(number / len(chosen), str(case))
                refusals |= examine(rig, case, turns)[1]
        counts = {str(v): (rig.stands[str(v)].full_checks, rig.stands[str(v)].agreements) for v in plan.variants}
    gates = []
    for name, (full, agreements) in counts.items():
        why = None
        if name in refusals and len(chosen) == 1:
            why = failure(_alone(plan, name), refusals[name], command, None)
        elif name in refusals:
            why = explain(plan, refusals[name], folder, command, lambda case: show(1.0, str(case)))
        gates.append(gate(name, full, agreements, why))
    return gates


def gate(name: str, full: int, agreements: int, why: Failure | None) -> Gate:
    return Gate(variant=name, green=why is None, full_checks=full, digest_checks=full + agreements, failure=why)


def explain(plan: Plan, refusal: Refusal, folder: Path, fallback: str, on_try: Callable[[Case], None]) -> Failure:
    """Looks for the smallest case that fails and for a command that fails again, and saves the bytes of it."""
    plan = _alone(plan, refusal.variant)
    if refusal.red.reason in SEEN_IN_TRIALS or refusal.red.cause is not None:
        return failure(plan, refusal, fallback, None)
    if refusal.red.reason in NOT_SEARCHED:
        return failure(plan, refusal, check_command(plan, refusal.case, max(TURNS, refusal.calls)), None)
    with contextlib.suppress(WhetError), rig_for(plan) as rig:
        smallest = _search(rig, refusal, on_try)
        stubborn = (refusal.case, min(refusal.calls, MOST_TURNS) + 5)
        for case, turns in [*([(smallest, TURNS)] if smallest else []), stubborn]:
            on_try(case)
            again, saved = _confirm(rig, case, turns, folder)
            if again is not None:
                return failure(plan, again, check_command(plan, case, turns), saved)
    return failure(plan, refusal, fallback, None)


def _alone(plan: Plan, name: str) -> Plan:
    return replace(plan, variants=tuple(v for v in plan.variants if str(v) == name))


def _search(rig: Rig, refusal: Refusal, on_try: Callable[[Case], None]) -> Case | None:
    """The smallest case that fails in a process that saw only smaller ones before."""
    deadline = time.monotonic() + SEARCH_SECONDS
    for case in shrinking(rig.plan.engine, refusal.case):
        if time.monotonic() > deadline and case != refusal.case:
            continue
        on_try(case)
        # Halving leaves the sizes an engine offers; one that it cannot make is no answer.
        with contextlib.suppress(WhetError):
            if examine(rig, case)[1]:
                return case
    return None


def _confirm(rig: Rig, case: Case, turns: int, folder: Path) -> tuple[Refusal | None, str | None]:
    """The same again in a fresh process, as the printed command will do it."""
    rig.stop()
    rig.refused.clear()
    refusals: dict[str, Refusal] = {}
    # A device that fails now as a whole has not failed as it did then.
    with contextlib.suppress(WhetError):
        _, refusals = examine(rig, case, turns, time.monotonic() + CONFIRM_SECONDS)
    if not refusals:
        return None, None
    refusal = next(iter(refusals.values()))
    path = folder / f"{refusal.variant.replace('/', '-').partition(':')[0]}.npz"
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


def check_command(plan: Plan, case: Case, turns: int) -> str:
    """The command line that repeats this examination to the byte."""
    variant = plan.variants[0]
    of = f"@{variant.revision}" if variant.revision else ""
    words = ["whet", "check", plan.ref, f"{variant.file}:{variant.name}{of}" if variant.file else str(variant)]
    for axis, size in case.sizes.items():
        words += ["--size", f"{axis}={size}"]
    words += ["--profile", case.profile, "--seed", str(plan.seed), "--repeats", str(turns)]
    if plan.device != "cpu":
        words += ["--device", plan.device]
    if plan.clock != "wall":
        words += ["--clock", plan.clock]
    if variant.revision and plan.build:
        words += ["--build", plan.build]
    if plan.call_limit_s != Plan.call_limit_s:
        words += ["--call-limit", f"{plan.call_limit_s:g}"]
    return shlex.join(words)
