"""The command line. One file per command; heavy imports stay inside functions, so that help answers at once."""

from __future__ import annotations


def main() -> None:
    from whet.cli.app import run

    run()
