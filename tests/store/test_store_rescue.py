"""A finished run is not lost where its store cannot take it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest

from scripted_runs import scripted_run
from whet.cli.app import invoke
from whet.errors import StoreError
from whet.evidence import store_rescue
from whet.evidence.record import Export
from whet.evidence.store import Store
from whet.evidence.store_rescue import add_or_keep, keep_elsewhere


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The state folder and the temporary folder, both below tmp_path."""
    state, temporary = tmp_path / "state", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(store_rescue, "user_state_path", lambda *_, **__: state)
    monkeypatch.setattr(store_rescue.tempfile, "tempdir", str(temporary))
    return state, temporary


def read(path) -> Export:
    return msgspec.json.decode(Path(path).read_bytes(), type=Export)


def test_a_locked_store_does_not_lose_the_run(tmp_path, places):
    run = scripted_run(1)
    with Store.open(tmp_path / "runs.sqlite", wait_s=0.05) as store:
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked") as caught:
            add_or_keep(store, run)
        other.close()
    assert Path(caught.value.evidence).parent == places[0]
    assert read(caught.value.evidence).runs == [run]
    assert caught.value.evidence in caught.value.cure


def test_a_full_store_does_not_lose_the_run(tmp_path, places):
    run = scripted_run(1, repeats=400)
    with Store.open(tmp_path / "runs.sqlite") as store:
        store._db.execute(f"PRAGMA max_page_count = {store._db.execute('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(StoreError, match="full") as caught:
            add_or_keep(store, run)
        assert not store.list()
    assert read(caught.value.evidence).runs == [run]


def test_the_file_is_a_report_without_any_store(tmp_path, places, monkeypatch, capsys):
    path = keep_elsewhere(scripted_run(1))
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("this is no store, and it has more than sixteen bytes")
    monkeypatch.setenv("WHET_STORE", str(rubbish))
    assert invoke(["report", str(path), "--format", "md"]) == 0
    assert scripted_run(1).id in capsys.readouterr().out


def test_arrays_in_the_evidence_are_no_reason_to_lose_it(places):
    run = scripted_run(1, refused=(1,))
    failure = msgspec.structs.replace(run.gates[1].failure, got={"x": np.arange(3)})
    gates = [run.gates[0], msgspec.structs.replace(run.gates[1], failure=failure), *run.gates[2:]]
    path = keep_elsewhere(msgspec.structs.replace(run, gates=gates))
    assert read(path).runs[0].gates[1].failure.got == {"x": [0, 1, 2]}


def test_the_temporary_folder_is_next(places):
    state, temporary = places
    state.write_text("a file where the folder should be")
    assert keep_elsewhere(scripted_run(1)).parent == temporary


def test_nowhere_to_keep_it_is_said(places, monkeypatch, tmp_path):
    state, _ = places
    state.write_text("a file where the folder should be")
    monkeypatch.setattr(store_rescue.tempfile, "tempdir", str(state / "below"))
    with pytest.raises(StoreError, match="could not be kept"):
        keep_elsewhere(scripted_run(1))
    with Store.open(tmp_path / "runs.sqlite", wait_s=0.05) as store:
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"locked.*could not be kept") as caught:
            add_or_keep(store, scripted_run(1))
        other.close()
    assert caught.value.evidence is None


def test_no_half_of_it_stays_behind(places, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_rescue.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        keep_elsewhere(scripted_run(1))
    assert [*places[0].iterdir(), *places[1].iterdir()] == []
