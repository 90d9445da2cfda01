"""The store's file: how it is opened, which version it has, who it belongs to."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from types import TracebackType

from whet.errors import StoreError
from whet.evidence.store_faults import ANOTHER_PLACE, FAULTS, explained

STORE_VERSION = 2
APPLICATION_ID = 0x77686574  # "whet"
HEADER = b"SQLite format 3\0"
SCHEMA = """
CREATE TABLE run (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    created TEXT NOT NULL,
    engine TEXT NOT NULL,
    device TEXT NOT NULL,
    repeats INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    record TEXT NOT NULL
);
CREATE TABLE sample (
    run INTEGER NOT NULL REFERENCES run(sequence),
    number INTEGER NOT NULL,
    variant TEXT NOT NULL,
    round INTEGER NOT NULL,
    order_in_round INTEGER NOT NULL,
    seed TEXT NOT NULL,
    calls INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL,
    cpu_ns INTEGER NOT NULL,
    device_ns INTEGER,
    checked_by TEXT NOT NULL,
    digest TEXT NOT NULL,
    block INTEGER NOT NULL DEFAULT 0,
    outside_ns INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE decision (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES run(sequence),
    decided TEXT NOT NULL,
    ship TEXT NOT NULL,
    because TEXT NOT NULL
);
"""
# What each later version added. Columns have defaults, so that a whet of the version before can go on writing.
MIGRATIONS = {
    2: (
        "ALTER TABLE sample ADD COLUMN block INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE sample ADD COLUMN outside_ns INTEGER NOT NULL DEFAULT 0",
    ),
}


class Transaction:
    """BEGIN IMMEDIATE to COMMIT, or nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
        finally:
            # A commit that met a full disk leaves the transaction open, as does an error inside it.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        cause = f"run store folder {folder} cannot be made: {error.strerror}"
        raise StoreError(cause, cure=f"make it writable, {ANOTHER_PLACE}") from error


def connect(place: Path, wait_s: float) -> sqlite3.Connection:
    """Opens the file to read and write, with its tables made, or brought up to date if an older whet made them.

    Changing a new file to WAL answers "busy" at once, whatever the time-out, so that is tried again until `wait_s`.
    """
    _check_header(place)
    deadline = time.monotonic() + wait_s
    with explained(place):
        while True:
            connection = _connect(place.absolute().as_uri(), wait_s)
            try:
                _check_version(connection, place)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                _make_tables(connection, place)
                _migrate(connection)
                return connection
            except sqlite3.OperationalError as error:
                connection.close()
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(0.005)
            except BaseException:
                connection.close()
                raise


def connect_to_read(place: Path, wait_s: float) -> sqlite3.Connection:
    """Opens the file without ever writing, so an older one stays as it is.

    A file that is not there, or has nothing in it yet, reads as empty.
    """
    if not place.exists():
        return _nothing()
    _check_header(place)
    uri = place.absolute().as_uri()
    with explained(place):
        connection = _connect(f"{uri}?mode=ro", wait_s)
        try:
            _check_version(connection, place)
        except sqlite3.OperationalError:
            # WAL needs a shared-memory file beside the store. Where none can be made and no log is waiting, the file
            # itself is complete.
            connection.close()
            log = Path(f"{place}-wal")
            if os.access(place.parent, os.W_OK) or (log.exists() and log.stat().st_size):
                raise
            connection = _connect(f"{uri}?immutable=1", wait_s)
            _check_version(connection, place)
        if not _has_tables(connection):
            connection.close()
            return _nothing()
    return connection


def _nothing() -> sqlite3.Connection:
    empty = sqlite3.connect(":memory:")
    empty.executescript(SCHEMA)
    return empty


def _connect(uri: str, wait_s: float) -> sqlite3.Connection:
    return sqlite3.connect(uri, timeout=wait_s, isolation_level=None, uri=True)


def _check_header(place: Path) -> None:
    """SQLite takes a file of a few bytes for an empty database and would write over it."""
    try:
        with place.open("rb") as stream:
            start = stream.read(len(HEADER))
    except OSError:
        return
    if start and start != HEADER and not Path(f"{place}-journal").exists():
        cause, cure = FAULTS[sqlite3.SQLITE_NOTADB]
        raise StoreError(f"run store {place}: {cause}", cure=cure)


def _check_version(connection: sqlite3.Connection, place: Path) -> None:
    # In one transaction: another process may be making the tables between two reads.
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        empty = version == 0 and application == 0 and not _has_tables(connection)
    finally:
        if own and connection.in_transaction:
            connection.execute("ROLLBACK")
    if empty:
        return
    if application != APPLICATION_ID:
        cause = f"run store {place}: the file is a database of another program"
        raise StoreError(cause, cure=f"move the file away, {ANOTHER_PLACE}")
    if version > STORE_VERSION:
        cause = f"run store {place} was written by a newer whet (store version {version}, known: {STORE_VERSION})"
        raise StoreError(cause, cure=f"upgrade whet, {ANOTHER_PLACE}")


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None


def _make_tables(connection: sqlite3.Connection, place: Path) -> None:
    if _has_tables(connection):
        return
    with Transaction(connection):
        # Two processes may both have seen an empty file; the second one finds the tables here.
        _check_version(connection, place)
        if not _has_tables(connection):
            for statement in filter(str.strip, SCHEMA.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {STORE_VERSION}")


def _migrate(connection: sqlite3.Connection) -> None:
    if _version(connection) == STORE_VERSION:
        return
    with Transaction(connection):
        # Another process may have done it since.
        found = _version(connection)
        if found + 1 not in (*MIGRATIONS, STORE_VERSION + 1):
            raise StoreError(f"no whet wrote a store of version {found}", cure="restore it from a copy")
        for version in range(found + 1, STORE_VERSION + 1):
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {STORE_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def has_blocks(connection: sqlite3.Connection) -> bool:
    """False for a store of version 1 that was opened to read and so was not brought up to date."""
    return any(column[1] == "block" for column in connection.execute("PRAGMA table_info(sample)"))
