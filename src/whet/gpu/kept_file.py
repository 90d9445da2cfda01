"""Small JSON files in the user's cache folder: written whole or not at all, left out with a warning if unreadable."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import TypeVar

import msgspec
import platformdirs

from whet.errors import WhetError

T = TypeVar("T")


def tuned_file() -> Path:
    """In the user's cache folder; WHET_TUNED names another file."""
    return Path(os.environ.get("WHET_TUNED") or Path(platformdirs.user_cache_dir("whet")) / "tuned.json")


def trusted_file() -> Path:
    """Beside the tuned one."""
    return tuned_file().with_name("trusted.json")


def entries(path: Path, kind: type[T], advice: str) -> list[T]:
    """What the file holds; none where there is no file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[kind])  # type: ignore[valid-type]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        warnings.warn(f"{path} is left out: {error}; {advice}", RuntimeWarning, stacklevel=4)
        return []


def replace_entries(path: Path, kept: list[T]) -> None:
    """Writes the file anew by way of another one beside it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(msgspec.json.format(msgspec.json.encode(kept), indent=2))
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise WhetError(f"{path} cannot be written: {error.strerror}", cure="set WHET_TUNED to another file") from error
