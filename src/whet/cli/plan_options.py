"""What `check`, `ab` and `sweep` have in common: the options that name an engine, its variants and a case."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from whet.cli import options
from whet.cli.budget import BudgetChoice
from whet.errors import WhetError

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
    click.option(
        "--build",
        metavar="COMMAND",
        help="With a variant of another revision: how that revision is built, in its own folder; kept by commit.",
    ),
)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options above, in this order, under a command's own."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def command_line(plan: Plan) -> str:
    """The typed command with the seed that was drawn for it, so that it draws the same again."""
    return typed_command(plan.seed)


def typed_command(seed: int) -> str:
    words = sys.argv[1:]
    if not any(word == "--seed" or word.startswith("--seed=") for word in words):
        words = [*words, "--seed", str(seed)]
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
    from whet.evidence.comparison import run_comparison

    return run_comparison(
        loaded,
        plan,
        case,
        baseline=baseline,
        budget=budget.budget(),
        effect=budget.effect,
        judge=budget.judge,
        regime=budget.regime,
        command=command_line(plan),
        store=store,
        on_progress=show,
    )


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
