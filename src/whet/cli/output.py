"""Files that a command writes for the user: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whet.errors import WhetError

if TYPE_CHECKING:
    from whet.evidence.record import Run

CURE = "choose another file; its folder must exist, be writable and have space"


def require_writable(path: Path | None) -> None:
    """Asked before long work whose result goes to `path`, so that it is not lost in the end."""
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise WhetError(f"{path} cannot be written: there is no folder {folder}", cure=CURE)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise WhetError(f"{path} cannot be written: permission denied", cure=CURE)


def write_report(path: Path | None, runs: Sequence[Run], *, quiet: bool) -> None:
    """The HTML report of runs, where one was asked for and there are any."""
    if path is None or not runs:
        return
    import click

    from whet.evidence.report import render_report

    write_text(path, render_report(runs))
    if not quiet:
        click.echo(f"report: {path}")


def write_text(path: Path, text: str) -> None:
    """Replaces `path` in one step, so that a full disk or an interrupt never leaves half a file."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            # mkstemp is private to its owner; a report should be as readable as any new file.
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WhetError(f"{path} cannot be written: {reason}", cure=CURE) from error
