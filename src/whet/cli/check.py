"""`whet check`: the gate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.plan_options import EngineName, VariantName, command_line, plan_options, shown_progress
from whet.errors import BadInput, ExitCode, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from whet.evidence.record import Gate
    from whet.evidence.rig import Plan
    from whet.protocol import Case, Engine


@click.command("check", short_help="the gate alone")
@click.argument("engine", type=EngineName())
@click.argument("variants", nargs=-1, type=VariantName(), metavar="[VARIANT]...")
@plan_options
@click.option(
    "--cases",
    "most_cases",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="At most this many cases: the engine's own, then those it makes to break a variant.",
)
@click.option("--hard-case", type=click.IntRange(0), help="Only this one of the cases made to break a variant.")
@click.option(
    "--from",
    "first_hard",
    type=click.IntRange(0),
    help="Go on at this number of the cases made to break a variant; --cases stays what it was.",
)
@click.option(
    "--repeats", type=click.IntRange(1), default=3, show_default=True, help="Repeats per case, each on fresh inputs."
)
@click.option("--task", is_flag=True, help="Check the task instead: does any answer that costs nothing pass?")
@click.option("--buckets", is_flag=True, help="Look inside GPU variants of msm: which bucket is first wrong, and why.")
@options.as_json
def command(task: bool, buckets: bool, **given: Any) -> ExitCode:
    """Checks variants against the oracle and times nothing.

    Without a size or profile it goes through the engine's own cases, without a variant through all of them. With --task
    it checks the oracle and the inputs themselves, with answers such as zeros, an input or the answer to another seed.
    With --buckets it compares every bucket and window of one sum with a model in Python and with gpu_plain, and names
    the first wrong one, its batch, the stage to blame and the tasks that wrote it.

    Exit codes: 0 all green, 3 any red; with --task 3 if such an answer passes.
    """
    if task and buckets:
        raise BadInput("--task and --buckets are two checks", cure="give one of them")
    if buckets:
        from whet.cli.check_buckets import check_buckets

        return check_buckets(**given)
    if task:
        from whet.cli.check_task import check_task

        return check_task(**given)
    return check(**given)


def check(
    *,
    engine: str,
    variants: tuple[str, ...],
    n: str | None,
    sizes: tuple[str, ...],
    profile: str | None,
    most_cases: int,
    hard_case: int | None,
    first_hard: int | None = None,
    repeats: int,
    as_json: bool,
    **planned: Any,
) -> ExitCode:
    from whet.cli.console import print_json
    from whet.evidence import cases
    from whet.evidence.comparison import make_plan
    from whet.evidence.elsewhere import is_elsewhere
    from whet.evidence.examination import examine_all
    from whet.evidence.experiment import default_evidence_folder
    from whet.evidence.hard_cases import examine_hard
    from whet.evidence.registry import load

    loaded = load(engine)
    plan = make_plan(loaded, variants or runnable(loaded.engine, planned["device"]), **planned)
    asked = cases.parse_sizes(sizes, n)
    if asked or profile:
        chosen, numbers = [cases.choose(loaded.engine, asked, profile)], range(0)
    elif hard_case is not None:
        chosen, numbers = [], range(hard_case, hard_case + 1)
    else:
        chosen = list(loaded.engine.cases())[:most_cases]
        numbers = range(first_hard or 0, most_cases - len(chosen))
        if first_hard is not None:
            if not numbers:
                raise BadInput(f"--from {first_hard} is beyond the {most_cases} cases", cure="raise --cases")
            chosen = []
    with shown_progress(f"gate {loaded.engine.name}") as show:
        folder = default_evidence_folder()
        gates = []
        if chosen:
            gates = examine_all(plan, chosen, repeats, folder=folder, command=command_line(plan), show=show)
    if is_elsewhere(plan.device):
        numbers = range(0)  # they need an engine's own run() on a device of this machine
    with shown_progress(f"hard cases of {loaded.engine.name}") as show:
        gates, kinds = examine_hard(plan, gates, numbers, show)
    if as_json:
        print_json({"engine": plan.engine.name, "seed": plan.seed, "cases": chosen, "hard": kinds, "gates": gates})
    else:
        _show(plan, chosen, kinds, gates)
    return ExitCode.OK if all(gate.green for gate in gates) else ExitCode.REFUSED


def runnable(engine: Engine, device: str | None) -> list[str]:
    """Every variant whose device is there; the others are named with the reason. None at all is an error."""
    from whet.evidence.adapter import reachable
    from whet.evidence.elsewhere import is_elsewhere

    if device is not None and is_elsewhere(device):
        return _for_gpus(engine, device)
    names, missing = reachable(engine, device)
    if missing:
        first = next(iter(missing.values()))
        if not names:
            raise first
        click.echo(f"left out: {', '.join(missing)}: {first.cause}\n  cure: {first.cure}", err=True)
    return names


def _for_gpus(engine: Engine, device: str) -> list[str]:
    """A device elsewhere runs programs for GPUs, and nothing else."""
    from whet.protocol import Variant

    here = engine.devices[0]
    names = [one.name for one in engine.variants() if engine.device_of(Variant(one.name), here).startswith("webgpu")]
    if not names:
        raise Unsupported(f"engine {engine.name} has no variant for {device}", cure="take one with variants for GPUs")
    return names


def _show(plan: Plan, chosen: Sequence[Case], kinds: Mapping[str, int], gates: Sequence[Gate]) -> None:
    from whet.cli.console import console
    from whet.cli.run_view import show_failures
    from whet.evidence.remarks import checked

    out = console()
    count = len(chosen) + sum(kinds.values())
    what = str(chosen[0]) if len(chosen) == 1 == count else f"{count:,} case{'' if count == 1 else 's'}"
    out.print(f"{plan.engine.name}  {what}  device={plan.device}  seed={plan.seed}")
    if kinds:
        out.print(f"made to break a variant: {', '.join(f'{kind} {count:,}' for kind, count in kinds.items())}")
    for gate in gates:
        if gate.green:
            out.print(f"green: {gate.variant}: {checked(gate)} checked by the oracle")
    show_failures(gates)
