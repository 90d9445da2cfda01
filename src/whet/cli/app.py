"""The root command."""

from __future__ import annotations


def run() -> None:
    """Entry point of the `whet` script."""
    raise SystemExit("no command yet")
