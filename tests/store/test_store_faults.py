"""What a store meets in the world: no permission, no space, other writers, other versions, rubbish. Always typed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted_runs import scripted_run
from whet.errors import StoreError, WhetError
from whet.evidence.record import SCHEMA_VERSION
from whet.evidence.store import Store
from whet.evidence.store_file import APPLICATION_ID, STORE_VERSION

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from scripted_runs import scripted_run
from whet.errors import StoreError
from whet.evidence.store import Store
stored = 0
try:
    with Store.open(sys.argv[2], read_only="--read" in sys.argv) as store:
        if "--read" in sys.argv:
            stored = len(store.list())
        else:
            for seed in range(200):
                store.add(scripted_run(seed, repeats=200))
                stored += 1
except StoreError as error:
    print(stored, error.cause, "|", error.cure)
else:
    print(stored, "fine")
"""


def in_child(path: Path, *flags: str, before=None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, Path(__file__).parents[1] / "shared", path, *flags],
        capture_output=True,
        text=True,
        preexec_fn=before,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def obey_permissions() -> None:
    """Also for root: the new program starts without the right to override file modes."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        drop_from_bounding_set, override, read_search = 24, 1, 2
        assert libc.prctl(drop_from_bounding_set, override, 0, 0, 0) == 0
        assert libc.prctl(drop_from_bounding_set, read_search, 0, 0, 0) == 0


@contextlib.contextmanager
def mode(path: Path, bits: int):
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


def filled(path: Path, runs: int = 1) -> Path:
    with Store.open(path) as store:
        for seed in range(runs):
            store.add(scripted_run(seed))
    return path


def refused(path, word: str, **options) -> None:
    with pytest.raises(StoreError, match=word) as caught, Store.open(path, **options) as store:
        store.add(scripted_run(9))
    assert caught.value.cure and caught.value.exit_code == 4


def test_a_missing_folder(tmp_path):
    refused(tmp_path / "no" / "runs.sqlite", "folder does not exist")


def test_a_folder_instead_of_a_file(tmp_path):
    refused(tmp_path, "not a file name")
    refused("bad\0name", "not a file name")


@pytest.mark.skipif(sys.platform != "linux", reason="drops a Linux capability")
def test_a_read_only_folder(tmp_path):
    with mode(tmp_path, 0o555):
        said = in_child(tmp_path / "runs.sqlite", before=obey_permissions)
    assert said.startswith("0 run store") and "writable" in said


@pytest.mark.skipif(sys.platform != "linux", reason="drops a Linux capability")
def test_a_read_only_store_can_be_read_and_not_written(tmp_path):
    path = filled(tmp_path / "runs.sqlite", 3)
    with mode(path, 0o444), mode(tmp_path, 0o555):
        said = in_child(path, before=obey_permissions)
        assert said.startswith("0 run store") and "writable" in said
        assert in_child(path, "--read", before=obey_permissions) == "3 fine\n"


def test_a_locked_store(tmp_path):
    path = filled(tmp_path / "runs.sqlite")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused(path, "locked", wait_s=0.05)
    other.execute("ROLLBACK")
    other.close()
    with Store.open(path, wait_s=0.05) as store:
        store.add(scripted_run(9))


@pytest.mark.parametrize("bytes_allowed", [0, 4096, 20_000, 60_000, 200_000])
def test_a_file_that_may_not_grow(tmp_path, bytes_allowed):
    path = tmp_path / "runs.sqlite"

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_allowed, bytes_allowed))

    said = in_child(path, before=limit)
    stored, cause = int(said.split()[0]), said.partition(" ")[2]
    assert "run store" in cause and "|" in cause
    with Store.open(path) as store:
        assert len(store.list()) == stored


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small disk, which only root may do")
def test_a_disk_that_is_really_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", disk], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        path = disk / "runs.sqlite"
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(100_000))
        said = in_child(path)
        stored = int(said.split()[0])
        assert 0 < stored < 200 and "free" in said and "space" in said
        ballast.unlink()
        with Store.open(path) as store:
            whole = [store.get(summary.id) for summary in reversed(store.list())]
            assert whole == [scripted_run(seed, repeats=200) for seed in range(stored)]
            store.add(scripted_run(999, repeats=2))
            assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_full_by_page_count(tmp_path):
    with Store.open(tmp_path / "runs.sqlite") as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 12}")
        stored = 0
        with pytest.raises(StoreError, match="disk is full"):
            for seed in range(100):
                store.add(scripted_run(seed))
                stored += 1
        store._db.execute("PRAGMA max_page_count = 100000")
        assert len(store.list()) == stored
        store.add(scripted_run(500))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_store(tmp_path, read_only):
    path = filled(tmp_path / "runs.sqlite")
    with sqlite3.connect(path) as plain:
        plain.execute(f"PRAGMA user_version = {STORE_VERSION + 1}")
    before = path.read_bytes()
    refused(path, "newer whet", read_only=read_only)
    assert path.read_bytes() == before, "a newer store is left alone"


def test_a_newer_record(tmp_path):
    path = filled(tmp_path / "runs.sqlite")
    with sqlite3.connect(path) as plain:
        now = f'"schema_version":{SCHEMA_VERSION}'
        changed = plain.execute("UPDATE run SET record = replace(record, ?, '\"schema_version\":99')", (now,))
        assert changed.rowcount == 1
    with Store.open(path) as store, pytest.raises(StoreError, match="newer whet"):
        store.list()


def test_a_database_of_another_program(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as plain:
        plain.execute("CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    refused(path, "another program")
    refused(path, "another program", read_only=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"x", b"notes\n" * 3, b"SQLite format 3", b"\0" * 50, b"y" * 5000])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_another_kind_is_left_alone(tmp_path, content, read_only):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    refused(path, "not a run store", read_only=read_only)
    assert path.read_bytes() == content


def test_rubbish_is_never_more_than_a_store_error(tmp_path, tried):
    path = filled(tmp_path / "good.sqlite", 2)
    good = path.read_bytes()
    assert good[68:72] == APPLICATION_ID.to_bytes(4, "big")
    place = tmp_path / "bad.sqlite"

    def attempt(content: bytes) -> None:
        place.write_bytes(content)
        for tail in ("-wal", "-shm"):
            Path(f"{place}{tail}").unlink(missing_ok=True)
        try:
            with Store.open(place, wait_s=0.05) as store:
                for summary in store.list():
                    store.get(summary.id)
                store.add(scripted_run(77))
        except WhetError as error:
            assert isinstance(error, StoreError) and error.cure
        tried("malformed inputs")

    @settings(max_examples=60, deadline=None)
    @given(st.binary(min_size=1, max_size=300))
    def any_bytes(content):
        attempt(content)

    @settings(max_examples=120, deadline=None)
    @given(st.integers(0, len(good) - 1), st.binary(min_size=1, max_size=40), st.booleans())
    def damaged(position, splinter, cut):
        attempt(good[:position] + splinter + (b"" if cut else good[position + len(splinter) :]))

    any_bytes()
    damaged()


def test_reading_makes_nothing(tmp_path):
    with Store.open(tmp_path / "none.sqlite", read_only=True) as store:
        assert store.list() == []
    (tmp_path / "empty.sqlite").touch()
    with Store.open(tmp_path / "empty.sqlite", read_only=True) as store:
        assert store.list() == []
    assert [p.name for p in tmp_path.iterdir()] == ["empty.sqlite"]
