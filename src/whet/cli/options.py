"""Options that several commands share, spelled and explained once."""

from __future__ import annotations

import math
from pathlib import Path

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout and nothing else.")
store_path = click.option(
    "--store",
    "store_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The run store; otherwise WHET_STORE, then `store` in whet.toml, then the user data folder.",
)


class Share(click.ParamType[float]):
    """A share of the time: 3%, or 0.03. Nothing is 0."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        if not text:
            return 0.0
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"{text!r} is no share; write 3% or 0.03, and the option behind the variants", param, ctx)
        if not 0 < share < 1:
            self.fail(f"{text!r} does not lie between 0 and 1; write 3% or 0.03", param, ctx)
        return share


def finite(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """NaN passes every range check of click, and no range excludes infinity by itself."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number to work with", ctx, parameter)
    return value


def _default_effect() -> float:
    from whet.cli.settings import load_settings

    return load_settings().effect


effect = click.option(
    "--effect",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=_default_effect,
    show_default="0.02, or `effect` in whet.toml",
    callback=finite,
    help="The smallest difference that matters, as a share of the time.",
)
