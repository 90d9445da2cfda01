"""What goes to the terminal: results on stdout, progress on stderr, colours only where a person looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 160

Advance = Callable[[int, str], None]


def console(stream: TextIO | None = None) -> Console:
    """A rich console on `stream` (stdout unless given). Markup is off: run ids and reasons are data, not styles."""
    from rich.console import Console

    target = stream or sys.stdout
    fixed_width = None if target.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    # In a notebook rich would show the text beside what is being written.
    return Console(file=target, markup=False, highlight=False, emoji=False, width=fixed_width, force_jupyter=False)


def print_json(value: Any) -> None:
    """`value` (records, dicts, lists) as indented JSON on stdout, with nothing else around it."""
    import msgspec

    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(encoded.decode() + "\n")


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Advance]:
    """Yields `advance(steps, note)`. A bar on stderr when that is a terminal, else nothing at all."""
    if not sys.stderr.isatty():
        yield lambda steps, note: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(description, total=total, note="")
        yield lambda steps, note: bar.update(task, advance=steps, note=note)
