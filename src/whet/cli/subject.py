"""What `check`, `ab` and `sweep` have in common: the options that name an engine, its variants and a case."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from whet.cli import options
from whet.cli.budget import BudgetChoice
from whet.cli.candidate import distinct, read_variant
from whet.errors import BadInput, WhetError

if TYPE_CHECKING:
    from whet.evidence.record import Run
    from whet.evidence.registry import Loaded
    from whet.evidence.rig import Plan
    from whet.evidence.store import Store
    from whet.protocol import Case


class EngineName(click.ParamType[str]):
    """A registered engine or a Python file. Completes both."""

    name = "engine"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from whet.evidence.registry import names

        known = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return [*known, CompletionItem(incomplete, type="file")]


class VariantName(click.ParamType[str]):
    """A variant, perhaps with knobs. Completes the names that the engine before it offers."""

    name = "variant"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from whet.evidence.registry import load

        try:
            specs = load(ctx.params.get("engine") or "").engine.variants()
        except WhetError:
            return []
        return [CompletionItem(spec.name, help=spec.summary) for spec in specs if spec.name.startswith(incomplete)]


_OPTIONS = (
    click.option("--n", metavar="SIZE", help="Short for --size n=SIZE; 2^10 and 1e5 are allowed."),
    click.option("--size", "sizes", multiple=True, metavar="AXIS=SIZE", help="Size of one axis; repeat per axis."),
    click.option("--profile", metavar="NAME", help="Input profile; the engine's first unless given."),
    click.option("--device", metavar="NAME", help="Where it runs; the engine's first device unless given."),
    click.option(
        "--seed", type=click.IntRange(0, 2**62), help="Drives every random choice; drawn and printed unless given."
    ),
    click.option(
        "--clock", type=click.Choice(["wall", "device"]), default="wall", show_default=True, help="Which clock counts."
    ),
    click.option(
        "--call-limit",
        "call_limit_s",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        callback=options.finite,
        help="A call that takes longer is refused as hung.",
    ),
)


def subject_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options above, in this order, under a command's own."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def make_plan(
    loaded: Loaded,
    variants: Sequence[str],
    *,
    device: str | None,
    seed: int | None,
    clock: str,
    call_limit_s: float,
) -> Plan:
    """Reads variants and device against what the engine offers."""
    from whet.evidence import seeds, system
    from whet.evidence.rig import Plan
    from whet.protocol import Clock

    engine = loaded.engine
    chosen = [read_variant(engine, text) for text in variants]
    distinct(chosen)
    where = device if device is not None else engine.devices[0]
    if where.partition(":")[0] not in {known.partition(":")[0] for known in engine.devices}:
        raise BadInput(f"engine {engine.name} does not run on {where!r}", cure=f"devices: {', '.join(engine.devices)}")
    for variant in chosen:
        if device == "cpu" and not variant.file and engine.device_of(variant, device) != device:
            raise BadInput(f"variant {variant} does not run on the CPU", cure="leave --device out, or name its device")
    which: Clock = "device" if clock == "device" else "wall"
    if which == "device" and any(variant.file for variant in chosen):
        raise BadInput(
            "a device clock is the variant's own word, and a candidate is a stranger", cure="use --clock wall"
        )
    drawn = seeds.fresh() if seed is None else seed
    # Every process of this user can read a command line.
    system.host().hide_arguments(frozenset([str(drawn)]))
    return Plan(engine, loaded.ref, tuple(chosen), where, drawn, which, call_limit_s)


def command_line(plan: Plan) -> str:
    """The typed command with the seed that was drawn for it, so that it draws the same again."""
    words = sys.argv[1:]
    if not any(word == "--seed" or word.startswith("--seed=") for word in words):
        words = [*words, "--seed", str(plan.seed)]
    return shlex.join(["whet", *words])


def run_and_store(
    store: Store,
    loaded: Loaded,
    plan: Plan,
    case: Case,
    *,
    budget: BudgetChoice,
    baseline: str,
    show: Callable[[float, str], None],
) -> Run:
    """One experiment as the command line asks for it. When this returns, the run is on the disk."""
    from whet.evidence.examined import was_examined
    from whet.evidence.experiment import Experiment
    from whet.evidence.store_rescue import add_or_keep

    run = Experiment(
        plan=replace(plan, regime=budget.regime),
        case=case,
        budget=budget.budget(),
        baseline=baseline,
        command=command_line(plan),
        engine_sha256=loaded.sha256,
        evidence_folder=store.path.parent / "evidence",
        effect=budget.effect,
        judge=budget.judge,
        task_examined=was_examined(store.path.parent, loaded),
        on_progress=show,
    ).run()
    add_or_keep(store, run)
    return run


@contextmanager
def shown_progress(description: str) -> Iterator[Callable[[float, str], None]]:
    """A bar that takes shares from 0 to 1; nothing where no person looks."""
    from whet.cli.console import progress

    with progress(description, total=100) as advance:
        done = 0

        def show(share: float, note: str) -> None:
            nonlocal done
            step = max(0, round(share * 100) - done)
            done += step
            advance(step, note)

        yield show
