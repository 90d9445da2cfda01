"""Which tasks were examined and found good: a small file beside the run store, by the hash of the task's source."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

from whet.evidence.registry import Loaded
from whet.functions import FunctionEngine

FILE_NAME = "examined.json"


def remember(folder: Path, loaded: Loaded, *, good: bool) -> None:
    """Keeps the outcome. A folder that cannot be written costs a hint later, and nothing else."""
    known = _read(folder)
    known[_key(loaded)] = good
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=folder)
        with os.fdopen(handle, "w") as stream:
            json.dump(known, stream, indent=2, sort_keys=True)
        Path(partial).replace(folder / FILE_NAME)


def was_examined(folder: Path, loaded: Loaded) -> bool:
    """Whether this very source was found good. The engines of whet itself are examined by its tests."""
    if type(loaded.engine).__module__.startswith("whet.") and not isinstance(loaded.engine, FunctionEngine):
        return True
    return _read(folder).get(_key(loaded), False)


def _key(loaded: Loaded) -> str:
    return f"{type(loaded.engine).__qualname__} {loaded.sha256}"


def _read(folder: Path) -> dict[str, bool]:
    try:
        found = json.loads((folder / FILE_NAME).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return {str(key): value is True for key, value in found.items()} if isinstance(found, dict) else {}
