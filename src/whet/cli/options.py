"""Options that several commands share, spelled and explained once."""

from __future__ import annotations

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
