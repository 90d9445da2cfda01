"""How long a trial may take, how sure it has to be and what it judges: the options, and the one record they become."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from whet.evidence.trial import Budget

STATISTICS = ("median", "mean", "p90", "p99")
REGIMES = ("warm", "cold")


@dataclass(frozen=True)
class BudgetChoice:
    """What the options say. None leaves it to the budget of that name."""

    name: str = "default"
    effect: float = 0.02
    rounds: int | None = None
    seconds: float | None = None
    blocks: int | None = None
    confidence: float | None = None
    judge: str = "median"
    regime: str = "warm"

    def budget(self) -> Budget:
        """The named budget, with what was asked for in its place."""
        from whet.evidence import trial

        named = trial.BUDGETS[self.name]
        sizes = ("rounds", "seconds", "blocks", "confidence")
        asked = {size: getattr(self, size) for size in sizes if getattr(self, size) is not None}
        if not asked:
            return named
        custom: Callable[..., Budget] | None = getattr(trial, "custom", None)
        if custom is None:
            raise _not_here(asked)
        return custom(named, **asked)

    def design(self, experiment: type[Any]) -> dict[str, str]:
        """`judge` and `regime` as `experiment` takes them; asking for what it cannot do is an error."""
        known = {field.name for field in fields(experiment)}
        wanted = {"judge": self.judge, "regime": self.regime}
        usual = {"judge": STATISTICS[0], "regime": REGIMES[0]}
        if refused := [name for name in wanted if name not in known and wanted[name] != usual[name]]:
            raise _not_here(refused)
        return {name: value for name, value in wanted.items() if name in known}


def _not_here(names: Any) -> Unsupported:
    spelled = ", ".join(f"--{name}" for name in names)
    return Unsupported(f"this build has no {spelled}", cure="leave it out, or use --quick or --rigorous")


_OFFERED = (
    click.option("--quick", is_flag=True, help="A first answer in well under a minute."),
    click.option("--rigorous", is_flag=True, help="Narrow intervals; takes minutes."),
    click.option("--rounds", type=click.IntRange(1), metavar="N", help="Rounds in a block."),
    click.option(
        "--seconds",
        type=click.FloatRange(min=0, min_open=True),
        callback=options.finite,
        metavar="S",
        help="Stop after this long.",
    ),
    click.option("--blocks", type=click.IntRange(2), metavar="N", help="So many blocks of fresh processes."),
    click.option(
        "--confidence",
        type=click.FloatRange(0.5, 1, max_open=True),
        callback=options.finite,
        metavar="SHARE",
        help="Of the intervals; 0.99 unless given.",
    ),
    click.option(
        "--judge",
        type=click.Choice(STATISTICS),
        default="median",
        show_default=True,
        help="The statistic that the verdict is about.",
    ),
    click.option(
        "--regime",
        type=click.Choice(REGIMES),
        default="warm",
        show_default=True,
        help="warm: a first call is not timed; cold: caches are emptied before every call.",
    ),
    options.effect,
)


def budget_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options above under a command's own; it gets them as `budget`, a BudgetChoice."""

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        names = ("quick", "rigorous", *(field.name for field in fields(BudgetChoice) if field.name != "name"))
        chosen = {name: given.pop(name) for name in names}
        return command(budget=choose_budget(**chosen), **given)

    for option in reversed(_OFFERED):
        collected = option(collected)
    return collected


def choose_budget(*, quick: bool, rigorous: bool, **given: Any) -> BudgetChoice:
    if quick and rigorous:
        raise BadInput("--quick and --rigorous exclude each other", cure="give one of them")
    if quick or rigorous:
        return BudgetChoice(name="quick" if quick else "rigorous", **given)
    from whet.cli.settings import load_settings

    return BudgetChoice(name=load_settings().budget, **given)
