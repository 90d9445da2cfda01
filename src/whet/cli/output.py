"""Files that a command writes for the user: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from whet.errors import WhetError

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
