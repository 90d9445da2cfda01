"""What SQLite complains about, as a `StoreError` that says what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whet.errors import StoreError

ANOTHER_PLACE = "or choose another place with --store or WHET_STORE"

# SQLite's primary result code (the low byte of the extended one): cause, cure.
FAULTS = {
    sqlite3.SQLITE_FULL: ("the disk is full", f"free some space, {ANOTHER_PLACE}"),
    sqlite3.SQLITE_READONLY: ("it is read-only", f"make the file and its folder writable, {ANOTHER_PLACE}"),
    sqlite3.SQLITE_PERM: ("access is denied", f"make the file and its folder writable, {ANOTHER_PLACE}"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", f"make the folder exist and be writable, {ANOTHER_PLACE}"),
    sqlite3.SQLITE_BUSY: ("another process has it locked", "wait for that process to end and try again"),
    sqlite3.SQLITE_LOCKED: ("another process has it locked", "wait for that process to end and try again"),
    sqlite3.SQLITE_NOTADB: ("the file is not a run store", f"move the file away, {ANOTHER_PLACE}"),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", f"restore it from a copy or move it away, {ANOTHER_PLACE}"),
    sqlite3.SQLITE_IOERR: ("reading or writing failed", f"check the disk and its free space, {ANOTHER_PLACE}"),
    sqlite3.SQLITE_TOOBIG: ("the run is too large for it", "use fewer repeats"),
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns what SQLite raises inside into a StoreError about `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _as_store_error(error, path) from error
    except UnicodeDecodeError as error:
        cause, cure = FAULTS[sqlite3.SQLITE_CORRUPT]
        raise StoreError(f"run store {path}: {cause}", cure=cure) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise StoreError(
            f"run store {path}: a value cannot be stored: {error}", cure="store plain text and 64-bit numbers"
        ) from error


def _as_store_error(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    unknown = (f"SQLite says: {error}", f"move the file away, {ANOTHER_PLACE}")
    cause, cure = FAULTS.get(code, unknown)
    return StoreError(f"run store {path}: {cause}", cure=cure)
