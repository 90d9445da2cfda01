"""What is stored comes back whole, by any of its names, and survives the death of the writer."""

from __future__ import annotations

import itertools
import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted_runs import scripted_run
from whet.errors import BadInput, StoreError
from whet.evidence.record import Export, Failure, Outcome, Run
from whet.evidence.store import Store, default_path

ROOT = Path(__file__).parents[2]
HARNESS = Path(__file__).with_name("kill_writer.py")


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def test_a_run_comes_back_whole(store):
    for seed in range(20):
        run = scripted_run(
            seed, variants=1 + seed % 12, refused=(1,) if seed % 3 == 0 else (), device_clock=seed % 2 == 0
        )
        assert store.add(run) == run.id
        assert store.get(run.id) == run


def test_a_run_comes_back_in_another_process(store):
    run = scripted_run(1)
    store.add(run)
    source = "import sys; from whet.evidence.store import Store; print(Store.open(sys.argv[1]).get('last').command)"
    done = subprocess.run([sys.executable, "-c", source, store.path], capture_output=True, text=True, check=True)
    assert done.stdout == f"{run.command}\n"


def test_one_row_per_repeat(store):
    run = scripted_run(2)
    store.add(run)
    with sqlite3.connect(store.path) as plain:
        rows = plain.execute("SELECT wall_ns, seed FROM sample ORDER BY number").fetchall()
    assert rows == [(sample.wall_ns, str(sample.seed)) for sample in run.samples]


def test_commits_are_durable(store):
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_names_of_a_run(store):
    ids = [store.add(scripted_run(seed)) for seed in range(5)]
    assert store.get("last").id == ids[-1]
    assert store.get("last-4").id == ids[0]
    assert store.get(ids[2][:7]).id == ids[2]
    for bad in ("last-5", "last-x", "zzz", "", "%", "_" * 12, "last-99999999999999999999", "\0", "\udcff"):
        with pytest.raises(BadInput) as caught:
            store.get(bad)
        assert caught.value.cure


def test_a_beginning_is_no_pattern(store):
    store.add(scripted_run(1))
    for bad in ("%", "_", "*", "?", scripted_run(1).id.upper() + "x"):
        with pytest.raises(BadInput):
            store.get(bad)


def test_an_ambiguous_beginning_names_the_candidates(store):
    first, second = (msgspec.structs.replace(scripted_run(n), id=f"abc{n}") for n in (1, 2))
    whole = msgspec.structs.replace(scripted_run(3), id="abc")
    store.add(first)
    store.add(second)
    with pytest.raises(BadInput, match="abc1, abc2"):
        store.get("abc")
    store.add(whole)
    assert store.get("abc") == whole


def test_the_same_run_twice_is_one_run_and_another_under_its_id_is_refused(store):
    run = scripted_run(1)
    store.add(run)
    store.add(run)
    assert len(store.list()) == 1
    with pytest.raises(StoreError, match="other content"):
        store.add(msgspec.structs.replace(scripted_run(2), id=run.id))
    with pytest.raises(StoreError, match="other content"):
        store.add(msgspec.structs.replace(run, samples=run.samples[:-1]))
    assert store.get(run.id) == run
    assert store.add(scripted_run(3)), "a refused run leaves no transaction open"


def test_list_filters(store):
    msm = store.add(scripted_run(1, variants=2))
    graph = store.add(scripted_run(2, variants=4, engine="graph", refused=(3,)))
    assert [s.id for s in store.list()] == [graph, msm]
    assert [s.id for s in store.list(limit=1)] == [graph]
    assert [s.id for s in store.list(engine="msm")] == [msm]
    assert [s.id for s in store.list(variant="pippenger:glv=true")] == [graph]
    assert [s.id for s in store.list(variant="pippenger")] == [graph, msm]
    assert [s.id for s in store.list(outcome=Outcome.REFUSED)] == [graph]
    assert not store.list(device="webgpu")
    summary = store.list(engine="graph")[0]
    assert summary.repeats == 60 and summary.outcomes["pippenger:glv=true,c=13"] is Outcome.REFUSED


def test_a_decision_stays_beside_the_verdict(store):
    run = scripted_run(1)
    store.add(run)
    assert store.decisions(run.id) == []
    store.decide("last", ship="pippenger", because="smaller\n code")
    last = store.decide(run.id[:6], ship="plain", because="it is the one we know")
    assert [d.because for d in store.decisions(run.id)] == ["smaller code", "it is the one we know"]
    assert store.decisions(run.id)[-1] == last
    assert store.list()[0].shipped == "plain"
    assert store.get(run.id) == run, "the run itself is untouched"
    with pytest.raises(BadInput, match="no variant"):
        store.decide("last", ship="pippenger:c=99", because="x")
    with pytest.raises(BadInput, match="reason"):
        store.decide("last", ship="plain", because=" \n ")


def test_an_edited_run_is_noticed(store):
    run = scripted_run(1)
    store.add(run)
    edits = [
        "UPDATE sample SET wall_ns = wall_ns - 1 WHERE number = 7",
        "DELETE FROM sample WHERE number = 59",
        "UPDATE run SET record = replace(record, 'FASTER', 'SLOWER')",
        "UPDATE sample SET number = 1000 - number",
    ]
    for edit in edits:
        store._db.execute("BEGIN")
        assert store._db.execute(edit).rowcount > 0
        with pytest.raises(StoreError, match="checksum"):
            store.get(run.id)
        store._db.execute("ROLLBACK")
    assert store.get(run.id) == run


def test_arrays_in_the_evidence_of_a_failure_are_kept(store):
    run = scripted_run(1, refused=(1,))
    failure = msgspec.structs.replace(run.gates[1].failure, got={"x": np.arange(3), "y": np.float32(0.5)})
    assert isinstance(failure, Failure)
    gates = [run.gates[0], msgspec.structs.replace(run.gates[1], failure=failure), *run.gates[2:]]
    store.add(msgspec.structs.replace(run, gates=gates))
    assert store.get("last").gates[1].failure.got == {"x": [0, 1, 2], "y": 0.5}


@pytest.mark.parametrize("field", [{"command": "whet \udcff"}, {"environment": {"x": object()}}])
def test_what_cannot_be_stored_is_refused_whole(store, field):
    with pytest.raises(StoreError):
        store.add(msgspec.structs.replace(scripted_run(1), **field))
    huge = msgspec.structs.replace(scripted_run(2).samples[0], wall_ns=2**70)
    with pytest.raises(StoreError):
        store.add(msgspec.structs.replace(scripted_run(2), samples=[huge]))
    assert not store.list()


def test_any_text_and_number_comes_back(store):
    numbers = itertools.count()

    @settings(max_examples=150, deadline=None)
    @given(
        text=st.text(st.characters(exclude_categories=["Cs"])),
        number=st.integers(0, 2**64 - 1),
        wall_ns=st.integers(0, 2**63 - 1),
        ratio=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    )
    def attempt(text, number, wall_ns, ratio):
        run = scripted_run(1)
        sample = msgspec.structs.replace(run.samples[0], digest=text, seed=number, wall_ns=wall_ns)
        verdict = msgspec.structs.replace(run.verdicts[0], reasons=[text], ratio=ratio)
        run = msgspec.structs.replace(
            run, id=f"run-{next(numbers)}", command=text, samples=[sample], verdicts=[verdict]
        )
        store.add(run)
        assert store.get(run.id) == run

    attempt()


def test_threads_and_processes_share_a_store(tmp_path):
    path = tmp_path / "runs.sqlite"
    errors = []

    def write(first: int) -> None:
        try:
            with Store.open(path) as own:
                for seed in range(first, first + 10):
                    own.add(scripted_run(seed, repeats=3))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n * 10,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with Store.open(path, read_only=True) as own:
        assert {s.id for s in own.list()} == {scripted_run(seed, repeats=3).id for seed in range(60)}


def test_many_make_one_store_at_once(tmp_path):
    """Whoever looks while another makes the tables sees all of them or none."""
    errors = []

    def make(path: Path) -> None:
        try:
            Store.open(path).close()
        except Exception as error:
            errors.append(error)

    for number in range(100):
        threads = [threading.Thread(target=make, args=(tmp_path / f"{number}.sqlite",)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


def test_the_default_place(monkeypatch, tmp_path):
    monkeypatch.delenv("WHET_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Store.open() as own:
        assert own.path == tmp_path / "data" / "whet" / "runs.sqlite"
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "x.sqlite"))
    assert default_path() == tmp_path / "x.sqlite"


def kill(folder: Path, kills: int, sabotage: str = "") -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, HARNESS, folder, str(kills), "20260301", sabotage], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_acknowledged_run_is_lost_or_torn_by_sigkill(tmp_path, tried):
    seen = kill(tmp_path, 200)
    assert seen["kills"] == 200
    assert seen["acknowledged"] > 100, "the kills fell before anything was stored"
    assert (seen["lost"], seen["torn"]) == (0, 0)
    assert seen["whole"] >= seen["acknowledged"]
    tried("SIGKILLs survived", seen["kills"])


@pytest.mark.parametrize(("sabotage", "symptom"), [("early", "lost"), ("split", "torn")])
def test_the_kill_test_notices_a_broken_store(tmp_path, sabotage, symptom, tried):
    assert kill(tmp_path, 40, sabotage)[symptom] > 0
    tried("planted faults")


def test_the_published_schema_is_current():
    """Written by tools/write_schema.py."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "write_schema.py", "--print"], capture_output=True, text=True, check=True
    )
    assert (ROOT / "docs" / "run.schema.json").read_text() == done.stdout


def test_the_published_schema_speaks_of_every_field():
    schema = json.loads((ROOT / "docs" / "run.schema.json").read_text())
    for record in (Run, Export):
        properties = schema["$defs"][record.__name__]["properties"]
        assert set(properties) == {field.name for field in msgspec.structs.fields(record)}
