"""A finished run that its store could not take: kept as an exported file, so that minutes of work are not lost."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import msgspec
from platformdirs import user_state_path

from whet.errors import StoreError
from whet.evidence.record import Export, Run
from whet.evidence.store import Store, plain


def add_or_keep(store: Store, run: Run) -> None:
    """Stores the run. If the store refuses it, the StoreError names the file that holds it instead."""
    try:
        store.add(run)
    except StoreError as error:
        try:
            path = keep_elsewhere(run)
        except StoreError as second:
            raise StoreError(f"{error.cause}; {second.cause}", cure=error.cure) from error
        cure = f"{error.cure}; the run itself is kept: whet report {path}"
        raise StoreError(error.cause, cure=cure, evidence=str(path)) from error


def keep_elsewhere(run: Run) -> Path:
    """Writes the run as `whet report --format json` would, into the user's state folder or the temporary folder."""
    name = f"run-{''.join(c if c.isalnum() or c in '-_' else '_' for c in run.id)}.json"
    reasons = []
    for folder in (user_state_path("whet", appauthor=False), Path(tempfile.gettempdir())):
        try:
            content = msgspec.json.format(msgspec.json.encode(Export(runs=[run]), enc_hook=plain), indent=2)
            folder.mkdir(parents=True, exist_ok=True)
            return _write_whole(folder / name, content)
        except (OSError, UnicodeError) as error:
            reasons.append(f"{folder}: {getattr(error, 'strerror', None) or error}")
    cause = f"run {run.id} could not be kept anywhere ({'; '.join(reasons)})"
    raise StoreError(cause, cure="free some space and measure again")


def _write_whole(path: Path, content: bytes) -> Path:
    """Under its name only once it is on the disk; a full disk leaves no half of it."""
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(partial).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(partial).unlink()
        raise
    return path
