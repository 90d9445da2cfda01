"""`ab` and `sweep` on the machines of a cluster: the options, what is told meanwhile and what is shown in the end."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli.budget import BudgetChoice
from whet.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from whet.cluster.everywhere import Gathered, Outcome
    from whet.cluster.machines import Machine
    from whet.evidence.registry import Loaded
    from whet.protocol import Case


@dataclass(frozen=True)
class Away:
    """What the options say about where else a trial runs."""

    address: str
    kinds: tuple[str, ...] = ()
    send: tuple[Path, ...] = ()


_OFFERED = (
    click.option(
        "--on",
        metavar="ADDRESS",
        help="Run on each kind of machine of the Ray cluster at HOST:PORT, and bring the runs home.",
    ),
    click.option(
        "--kind",
        "kinds",
        multiple=True,
        metavar="NAME",
        help="With --on: only this kind of machine, by its name or a part of it; repeatable.",
    ),
    click.option(
        "--send",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="With --on: another file or folder that the engine reads; what it imports travels by itself. Repeatable.",
    ),
)


def on_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options above under a command's own; it gets them as `away`, None without --on."""

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        address, kinds, send = (given.pop(name) for name in ("on", "kinds", "send"))
        if address is None and (kinds or send):
            raise BadInput("--kind and --send are about the machines of a cluster", cure="give --on ADDRESS as well")
        return command(away=Away(address, kinds, send) if address is not None else None, **given)

    for option in reversed(_OFFERED):
        collected = option(collected)
    return collected


def run_away(
    away: Away,
    loaded: Loaded,
    variants: Sequence[str],
    cases: Sequence[Case],
    *,
    budget: BudgetChoice,
    planned: dict[str, Any],
    store_path: Path | None,
    baseline: str | None = None,
) -> Gathered:
    """The trials as the command line asks for them, told on stderr as they go."""
    from whet.cli.plan_options import typed_command
    from whet.cli.settings import open_store
    from whet.cluster.everywhere import Asked, compare_everywhere
    from whet.evidence import seeds

    if planned["build"]:
        raise BadInput("--build is for revisions, which are compared on this machine alone", cure="leave --on out")
    seed = seeds.fresh() if planned["seed"] is None else planned["seed"]
    asked = Asked(
        loaded,
        variants,
        cases,
        budget.budget(),
        baseline=baseline,
        effect=budget.effect,
        judge=budget.judge,
        regime=budget.regime,
        device=planned["device"],
        clock=planned["clock"],
        seed=seed,
        call_limit_s=planned["call_limit_s"],
        command=typed_command(seed),
        send=away.send,
    )
    # Ray prints what happens to its nodes wherever print() goes, and this command's output may be JSON.
    with open_store(store_path) as store, redirect_stdout(sys.stderr):
        return compare_everywhere(
            asked,
            address=away.address,
            store=store,
            kinds=away.kinds,
            on_machines=_tell_machines,
            on_progress=_Steps().tell,
            on_outcome=_tell_outcome,
        )


class _Steps:
    """A line where a machine begins something else, and where a tenth of its time is over."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, int]] = {}

    def tell(self, kind: str, machine: str, share: float, note: str) -> None:
        step = (note.partition(":")[0].partition(" ")[0], int(share * 10))
        if self._told.get(machine) != step:
            self._told[machine] = step
            _say(f"{kind}: {machine}: {note}" + (f" ({share:.0%})" if share else ""))


def _tell_machines(found: Mapping[str, Sequence[Machine]]) -> None:
    for kind, machines in found.items():
        for machine in machines:
            _say(f"{kind}: {machine.host}" + (f": {machine.trouble}" if machine.trouble else ""))


def _tell_outcome(outcome: Outcome) -> None:
    _say(f"{outcome.kind}: {outcome.machine}: {outcome.case}: {_in_words(outcome)}")
    for name, why in outcome.left_out.items():
        _say(f"{outcome.kind}: left out: {name}: {why}")


def _say(line: str) -> None:
    click.echo(line, err=True)


def _in_words(outcome: Outcome) -> str:
    from whet.evidence.headline import headline

    return str(outcome.error) if outcome.run is None else headline(outcome.run).text


def show_gathered(gathered: Gathered) -> None:
    """One verdict per kind and candidate, under what each run said by itself; what was lost by name."""
    from rich.table import Table

    from whet import units
    from whet.cli.console import console

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("kind", "machine", "case", "variant", "ratio", "interval", "verdict", "run"):
        table.add_column(heading, justify="right" if heading in ("ratio", "interval") else "left", overflow="fold")
    for one in gathered.outcomes:
        where = (one.kind, one.machine, str(one.case))
        if one.run is None:
            table.add_row(*where, "", "", "", f"no run: {type(one.error).__name__}", "")
            continue
        for verdict in one.run.verdicts:
            ratio = interval = ""
            if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
                ratio, interval = units.ratio(verdict.ratio), units.interval(verdict.low, verdict.high)
            table.add_row(*where, verdict.candidate, ratio, interval, verdict.outcome.value, one.run.id)
        if not one.run.verdicts:
            table.add_row(*where, ", ".join(one.run.variants), "", "", "alone", one.run.id)
    console().print(table)
    for one in gathered.outcomes:
        if one.error is not None:
            console().print(f"no run: {one.kind}: {one.case}: {one.error.cause}", style="red", soft_wrap=True)
            console().print(f"  cure: {one.error.cure}", soft_wrap=True)


def as_records(address: str, gathered: Gathered) -> dict[str, Any]:
    """What --json prints."""
    return {
        "on": address,
        "interrupted": gathered.interrupted,
        "outcomes": [
            {
                "kind": one.kind,
                "machine": one.machine,
                "case": one.case,
                "run": one.run,
                "error": one.error
                and {"type": type(one.error).__name__, "cause": one.error.cause, "cure": one.error.cure},
                "left_out": one.left_out,
            }
            for one in gathered.outcomes
        ],
    }


def exit_code_of(gathered: Gathered, of_runs: ExitCode) -> ExitCode:
    """130 where somebody stopped it, then 3 where a gate was red, then 4 where a run is missing, then as the runs."""
    if gathered.interrupted or of_runs is ExitCode.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if of_runs is ExitCode.REFUSED:
        return of_runs
    missing = any(one.run is None for one in gathered.outcomes) or not gathered.outcomes
    return ExitCode.ENVIRONMENT if missing else of_runs
