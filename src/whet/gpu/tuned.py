"""What was measured as best on this machine, in a small file that `auto` reads. It knows no engine, only names.

An entry holds for one adapter with one driver under one version of whet; anything else is as good as not measured.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from pathlib import Path

import msgspec
import platformdirs

from whet import __version__
from whet.errors import WhetError

ADVICE = "run `whet tune` to measure again"


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """`best` over all devices, `best_on_adapter` among the variants that run on the adapter; times per call."""

    engine: str
    adapter: str
    driver: str
    software: bool
    best: str
    best_on_adapter: str
    because: str
    created: str
    run: str
    times_ns: dict[str, float]
    version: str = __version__


def tuned_file() -> Path:
    """In the user's cache folder; WHET_TUNED names another file."""
    return Path(os.environ.get("WHET_TUNED") or Path(platformdirs.user_cache_dir("whet")) / "tuned.json")


def recall(engine: str, adapter: str | None = None, driver: str | None = None) -> Tuned | None:
    """The newest entry for this engine, and for that adapter and driver if they are given."""
    matching = [
        one
        for one in _entries()
        if one.engine == engine
        and one.version == __version__
        and adapter in (None, one.adapter)
        and driver in (None, one.driver)
    ]
    return max(matching, key=lambda one: one.created, default=None)


def remember(tuned: Tuned) -> Path:
    """Replaces what was known about this engine on this adapter and driver. Whole or not at all."""
    path = tuned_file()
    about = (tuned.engine, tuned.adapter, tuned.driver)
    kept = [one for one in _entries() if (one.engine, one.adapter, one.driver) != about]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(msgspec.json.format(msgspec.json.encode([*kept, tuned]), indent=2))
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise WhetError(f"{path} cannot be written: {error.strerror}", cure="set WHET_TUNED to another file") from error
    return path


def _entries() -> list[Tuned]:
    path = tuned_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Tuned])
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        warnings.warn(f"{path} is left out: {error}; {ADVICE}", RuntimeWarning, stacklevel=3)
        return []
