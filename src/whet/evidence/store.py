"""Where runs are kept: one SQLite file, one row per run, one row per repeat.

WAL with synchronous=FULL: `add` returns after the transaction is on the disk, so an acknowledged run outlives a kill
or a power cut, and an interrupted one leaves nothing. A checksum over what was stored shows a torn or edited run.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from platformdirs import user_data_path

from whet.errors import BadInput, StoreError
from whet.evidence.headline import headline
from whet.evidence.record import SCHEMA_VERSION, Decision, Outcome, Run, Sample
from whet.evidence.store_faults import explained
from whet.evidence.store_file import Transaction, connect, connect_to_read, has_blocks, make_folder

FIRST_COLUMNS = "variant, round, order_in_round, seed, calls, wall_ns, cpu_ns, device_ns, checked_by, digest"
SAMPLE_COLUMNS = f"{FIRST_COLUMNS}, block, outside_ns"
# What a store of version 1 answers to the same question.
FIRST_COLUMNS_ONLY = f"{FIRST_COLUMNS}, 0, 0"
SampleRow = tuple[str, int, int, str, int, int, int, int | None, str, str, int, int]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `whet runs`: a run without its samples."""

    id: str
    created: str
    engine: str
    case: str
    device: str
    budget: str
    baseline: str
    headline: str
    outcome: Outcome
    outcomes: dict[str, Outcome]
    repeats: int
    warnings: int
    shipped: str | None = None


def default_path() -> Path:
    """WHET_STORE, or a file in the user's data folder."""
    if named := os.environ.get("WHET_STORE"):
        return Path(named)
    return user_data_path("whet", appauthor=False) / "runs.sqlite"


class Store:
    """An open store. Use as a context manager, in one thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    @classmethod
    def open(cls, path: Path | str | None = None, *, read_only: bool = False, wait_s: float = 10.0) -> Self:
        """Opens the store at `path`, or at its default place, and makes it if it is not there.

        `read_only` never writes: a store in a folder without write permission can be read, one that does not exist
        is empty. `wait_s` is how long to wait for another writer.
        """
        given = path is not None or bool(os.environ.get("WHET_STORE"))
        place = Path(path) if path is not None else default_path()
        if "\0" in str(place) or place.is_dir():
            raise StoreError(f"run store {str(place)!r}: not a file name", cure="name a file, not a folder")
        if read_only:
            return cls(place, connect_to_read(place, wait_s))
        if not given:
            make_folder(place.parent)
        elif not place.parent.is_dir():
            cure = f"make it with: mkdir -p {place.parent}"
            raise StoreError(f"run store {place}: the folder does not exist", cure=cure)
        return cls(place, connect(place, wait_s))

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def add(self, run: Run) -> str:
        """Stores `run` whole. When this returns, it is on the disk; when it raises, nothing of it is."""
        with explained(self.path):
            record = msgspec.json.encode(msgspec.structs.replace(run, samples=[]), enc_hook=plain).decode()
        rows = [_row(sample) for sample in run.samples]
        checksum = _checksum(record, rows)
        with explained(self.path), Transaction(self._db):
            stored = self._db.execute("SELECT sha256 FROM run WHERE id = ?", (run.id,)).fetchone()
            if stored is not None and stored[0] == checksum:
                return run.id
            if stored is not None:
                raise StoreError(f"run {run.id} is stored already, with other content", cure="give the run its own id")
            values = (run.id, run.created, run.engine, run.device, len(rows), checksum, record)
            cursor = self._db.execute(
                "INSERT INTO run (id, created, engine, device, repeats, sha256, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            self._db.executemany(
                f"INSERT INTO sample (run, number, {SAMPLE_COLUMNS}) VALUES (?, ?{', ?' * 12})",
                [(cursor.lastrowid, number, *row) for number, row in enumerate(rows)],
            )
        return run.id

    def get(self, which: str) -> Run:
        """The run named by its id, a unique beginning of it, `last` or `last-N`."""
        with explained(self.path):
            sequence, run_id = self._find(which)
            stored = self._db.execute("SELECT record, sha256 FROM run WHERE sequence = ?", (sequence,)).fetchall()
            columns = SAMPLE_COLUMNS if has_blocks(self._db) else FIRST_COLUMNS_ONLY
            rows = self._db.execute(
                f"SELECT {columns} FROM sample WHERE run = ? ORDER BY number", (sequence,)
            ).fetchall()
        record, checksum = stored[0] if stored else (None, None)
        if not isinstance(record, str) or _checksum(record, rows) != checksum:
            cause = f"run {run_id} in {self.path} is not what was stored: its checksum differs"
            raise StoreError(cause, cure="restore the store from a copy, or measure again")
        return msgspec.structs.replace(self._decode(record, run_id), samples=[_sample(row) for row in rows])

    def list(
        self,
        *,
        engine: str | None = None,
        device: str | None = None,
        variant: str | None = None,
        outcome: Outcome | None = None,
        limit: int | None = None,
    ) -> Sequence[RunSummary]:
        """Summaries, newest first. `variant` matches the name or the full spelling."""
        with explained(self.path):
            rows = self._db.execute(
                "SELECT id, record, repeats,"
                " (SELECT ship FROM decision WHERE run = run.sequence ORDER BY number DESC LIMIT 1) FROM run"
                " WHERE (?1 IS NULL OR engine = ?1) AND (?2 IS NULL OR device = ?2) ORDER BY sequence DESC",
                (engine, device),
            )
            found = []
            for run_id, record, repeats, shipped in rows:
                run = self._decode(record, run_id)
                names = {name for spelling in run.variants for name in (spelling, spelling.partition(":")[0])}
                if variant is not None and variant not in names:
                    continue
                summary = _summarise(run, repeats, shipped)
                if outcome is not None and outcome not in summary.outcomes.values():
                    continue
                found.append(summary)
                if limit is not None and len(found) >= limit:
                    break
        return found

    def decide(self, which: str, *, ship: str, because: str) -> Decision:
        """Keeps a person's choice beside the run. Earlier ones stay; the last one counts."""
        run = self.get(which)
        if ship not in run.variants:
            raise BadInput(f"run {run.id} has no variant {ship!r}", cure=f"variants: {', '.join(run.variants)}")
        reason = " ".join(because.split())
        if not reason:
            raise BadInput("a decision needs a reason", cure="say it with --because TEXT")
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        decision = Decision(run_id=run.id, decided=now, ship=ship, because=reason)
        with explained(self.path), Transaction(self._db):
            sequence, _ = self._find(run.id)
            self._db.execute(
                "INSERT INTO decision (run, decided, ship, because) VALUES (?, ?, ?, ?)", (sequence, now, ship, reason)
            )
        return decision

    def decisions(self, run_id: str) -> Sequence[Decision]:
        """What people decided about a run, oldest first."""
        with explained(self.path):
            rows = self._db.execute(
                "SELECT decided, ship, because FROM decision JOIN run ON run.sequence = decision.run"
                " WHERE run.id = ? ORDER BY number",
                (run_id,),
            ).fetchall()
        return [Decision(run_id=run_id, decided=d, ship=s, because=b) for d, s, b in rows]

    def _find(self, which: str) -> tuple[int, str]:
        word, _, back = which.partition("-")
        if word == "last" and (not back or (back.isascii() and back.isdigit() and len(back) < 10)):
            rows = self._db.execute(
                "SELECT sequence, id FROM run ORDER BY sequence DESC LIMIT 1 OFFSET ?", (int(back or 0),)
            ).fetchall()
        else:
            rows = self._db.execute(
                "SELECT sequence, id FROM run WHERE substr(id, 1, ?2) = ?1 ORDER BY id <> ?1, id LIMIT 4",
                (which.encode(errors="replace").decode(), max(len(which), 1)),
            ).fetchall()
        if not rows:
            raise BadInput(f"no run {which!r} in {self.path}", cure="whet runs lists what is stored")
        if len(rows) > 1 and rows[0][1] != which:
            some = ", ".join(run_id for _, run_id in rows[:3])
            raise BadInput(f"run {which!r} could be {some}", cure="write more of the id")
        return rows[0]  # type: ignore[no-any-return]

    def _decode(self, record: str, run_id: str) -> Run:
        try:
            version = msgspec.json.decode(record, type=_Versioned).schema_version
            if version > SCHEMA_VERSION:
                cause = f"run {run_id} was written by a newer whet (record version {version}, known: {SCHEMA_VERSION})"
                raise StoreError(cause, cure="upgrade whet")
            return msgspec.json.decode(record, type=Run)
        except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
            cause = f"run {run_id} in {self.path} cannot be read: {error}"
            raise StoreError(cause, cure="restore the store from a copy, or measure again") from error


class _Versioned(msgspec.Struct):
    schema_version: int


def _row(sample: Sample) -> SampleRow:
    s = sample
    first = (s.variant, s.round, s.order, str(s.seed), s.calls, s.wall_ns, s.cpu_ns, s.device_ns, s.check, s.digest)
    return (*first, s.block, s.outside_ns)


def _sample(row: SampleRow) -> Sample:
    variant, number, order, seed, calls, wall_ns, cpu_ns, device_ns, check, digest, block, outside_ns = row
    return Sample(
        variant=variant,
        round=number,
        order=order,
        seed=int(seed),
        calls=calls,
        wall_ns=wall_ns,
        cpu_ns=cpu_ns,
        device_ns=device_ns,
        check=check,
        digest=digest,
        block=block,
        outside_ns=outside_ns,
    )


def _checksum(record: str, rows: Iterable[SampleRow]) -> str:
    """Over what the record's own version had: a run of version 1 keeps the checksum it was stored with."""
    try:
        first = msgspec.json.decode(record, type=_Versioned).schema_version == 1
    except msgspec.MsgspecError:
        first = False
    digest = hashlib.sha256(record.encode())
    for row in rows:
        # The columns that version 1 does not know must be empty in its runs, or somebody edited them.
        digest.update(msgspec.json.encode(row[:10] if first and row[10:] == (0, 0) else row))
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """Arrays and numpy scalars inside a failure's evidence become lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise StoreError(f"a run cannot hold a {type(value).__name__}", cure="use plain data: text, numbers, lists, dicts")


def _summarise(run: Run, repeats: int, shipped: str | None) -> RunSummary:
    said = headline(run)
    return RunSummary(
        id=run.id,
        created=run.created,
        engine=run.engine,
        case=str(run.case),
        device=run.device,
        budget=run.budget,
        baseline=run.baseline,
        headline=said.text,
        outcome=said.outcome,
        outcomes={verdict.candidate: verdict.outcome for verdict in run.verdicts},
        repeats=repeats,
        warnings=len(run.warnings),
        shipped=shipped,
    )
