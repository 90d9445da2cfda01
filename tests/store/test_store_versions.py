"""A store file of version 1, as whet wrote it before blocks existed: it opens, reads, and gains columns in place."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest

from scripted_runs import scripted_run
from whet.errors import StoreError
from whet.evidence import store_file
from whet.evidence.record import Outcome
from whet.evidence.report import render_report
from whet.evidence.store import Store
from whet.evidence.store_file import STORE_VERSION

OLD = Path(__file__).parents[1] / "data" / "store_version_1.sqlite"


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copy(OLD, tmp_path / "runs.sqlite"))


def version(path: Path) -> int:
    with sqlite3.connect(path) as plain:
        return plain.execute("PRAGMA user_version").fetchone()[0]


def test_the_test_data_is_of_version_1():
    with sqlite3.connect(f"{OLD.as_uri()}?immutable=1", uri=True) as plain:
        assert plain.execute("PRAGMA user_version").fetchone() == (1,)
        assert "block" not in plain.execute("SELECT sql FROM sqlite_master WHERE name = 'sample'").fetchone()[0]


def test_reading_an_old_store_leaves_it_as_it_is(old):
    before = old.read_bytes()
    with Store.open(old, read_only=True) as store:
        runs = [store.get(summary.id) for summary in store.list()]
        assert [d.ship for d in store.decisions(runs[1].id)] == ["pippenger"]
    assert [run.schema_version for run in runs] == [1, 1]
    assert [len(run.samples) for run in runs] == [15, 18]
    assert old.read_bytes() == before and version(old) == 1


def test_an_old_store_is_brought_up_to_date_and_keeps_its_runs(old):
    with Store.open(old, read_only=True) as store:
        before = [store.get(summary.id) for summary in store.list()]
    blocked = scripted_run(7)
    samples = [msgspec.structs.replace(s, block=3, outside_ns=s.wall_ns + 100_000) for s in blocked.samples]
    blocked = msgspec.structs.replace(blocked, samples=samples)
    with Store.open(old) as store:
        assert [store.get(summary.id) for summary in store.list()] == before
        store.add(blocked)
        assert store.get("last") == blocked
    assert version(old) == STORE_VERSION
    with Store.open(old) as store:
        assert store.get("last") == blocked and store.get("last-1") == before[0]


def test_an_old_record_shows(old):
    with Store.open(old, read_only=True) as store:
        runs = [store.get(summary.id) for summary in store.list()]
        assert store.list()[0].outcomes["pippenger:glv=true,c=13"] is Outcome.REFUSED
    page = render_report(runs)
    assert all(run.id in page for run in runs)


def test_an_edit_of_an_old_run_is_noticed_after_the_migration_too(old):
    with Store.open(old) as store:
        for edit in ("wall_ns = wall_ns - 1", "block = 1", "outside_ns = 5"):
            store._db.execute("BEGIN")
            store._db.execute(f"UPDATE sample SET {edit} WHERE number = 2")
            with pytest.raises(StoreError, match="checksum"):
                store.get("last")
            store._db.execute("ROLLBACK")
        assert store.get("last").samples


def test_a_migration_that_fails_leaves_the_old_store(old, monkeypatch):
    broken = {2: (*store_file.MIGRATIONS[2][:1], "ALTER TABLE nowhere ADD COLUMN x INTEGER")}
    monkeypatch.setattr(store_file, "MIGRATIONS", broken)
    with pytest.raises(StoreError):
        Store.open(old)
    monkeypatch.undo()
    assert version(old) == 1
    with Store.open(old) as store:
        assert store.get("last").samples


def test_an_older_whet_can_go_on_writing_after_the_migration(old):
    with Store.open(old) as store:
        columns = "run, number, variant, round, order_in_round, seed, calls, wall_ns, cpu_ns, checked_by, digest"
        store._db.execute(f"INSERT INTO sample ({columns}) VALUES (1, 99, 'plain', 0, 0, '1', 1, 5, 5, 'full', '')")
        assert store._db.execute("SELECT block, outside_ns FROM sample WHERE number = 99").fetchone() == (0, 0)
