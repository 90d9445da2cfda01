"""What runs on a machine of the cluster, without a cluster: the fresh process, its messages, and what travels."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path

import msgspec
import psutil
import pytest
from travelling import write_project

from whet import __version__
from whet.cluster import fresh_process
from whet.cluster.homecoming import bring_home
from whet.cluster.machines import MODULE, Machine, by_kind, no_whet
from whet.cluster.travel import pack, unpack
from whet.cluster.trial_messages import Answer, AskFacts, Facts, Failed, Finished, Progress, RunTrial, Sent
from whet.errors import BadInput, Unsupported, WrongAnswer
from whet.evidence.alone import alone
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.registry import load
from whet.protocol import Case

TINY = custom(BUDGETS["quick"], seconds=0.5, blocks=5, rounds=1)


@pytest.fixture(autouse=True)
def a_machine_of_its_own(tmp_path, monkeypatch):
    """Other tests hold the machine's lock too; it is in the temporary folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def task(tmp_path):
    return write_project(tmp_path)


def trial_of(task: Path, *variants: str, send: tuple[Path, ...] = (), **other) -> RunTrial:
    loaded = load(str(task))
    luggage = pack(loaded, variants, (task.parent / "data", *send))
    asked = RunTrial(
        engine=luggage.engine,
        engine_sha256=loaded.sha256,
        variants=luggage.variants,
        baseline=None,
        case=Case(sizes={"n": 8}),
        budget=TINY,
        effect=0.02,
        judge="median",
        regime="warm",
        device=None,
        clock="wall",
        seed=5,
        call_limit_s=60.0,
        command="whet ab as typed",
        task_examined=False,
        whet=__version__,
        files=luggage.files,
    )
    return msgspec.structs.replace(asked, **other)


def asked(request) -> list:
    lines, code, words = fresh_process.ask(MODULE, msgspec.json.encode(request), 300)
    assert code == 0, words
    return [msgspec.json.decode(line, type=Answer) for line in lines]


def test_a_machine_says_what_it_is():
    (said,) = [one for one in asked(AskFacts(adapter=False)) if isinstance(one, Facts)]
    assert said.whet == __version__ and said.cores == len(os.sched_getaffinity(0)) and said.cpu


def test_a_task_travels_with_what_it_imports_and_reads(task):
    luggage = pack(load(str(task)), ["plain", f"{task.parent}/tried/candidates.py:wrong"], [task.parent / "data"])
    assert {sent.path for sent in luggage.files} == {
        *("task.py", "beside/__init__.py", "beside/shift.py", "beside/deeper.py", "data/factor.txt"),
        *("tried/candidates.py", "tried/helper_of_candidates.py"),
    }
    assert (luggage.engine, luggage.variants) == ("task.py", ["plain", "tried/candidates.py:wrong"])
    registered = pack(load("msm"), ["affine"])
    assert (registered.engine, registered.files) == ("msm", [])


def test_a_run_comes_home_as_if_it_had_been_made_here(task, tmp_path):
    """In a folder that is gone on the machine, with the evidence of what was refused."""
    request = trial_of(task, "plain", f"{task.parent}/tried/candidates.py:wrong")
    said = asked(request)
    finished = said[-1]
    assert isinstance(finished, Finished), said
    assert not Path(finished.files_folder).exists() and any(isinstance(one, Progress) for one in said)
    evidence = tmp_path / "store" / "evidence"
    about = {"address": "x:1", "kind": "a", "machine": "m"}

    def home(asked_for: RunTrial):
        ref = load(str(task)).ref
        return bring_home(
            finished, asked_for, engine_ref=ref, root=task.parent, evidence_folder=evidence, cluster=about
        )

    run = home(request)
    assert [(gate.variant, gate.green) for gate in run.gates] == [("plain", True), ("candidates.py:wrong", False)]
    failure = run.gates[1].failure
    assert Path(failure.inputs_path).is_file() and Path(failure.inputs_path).is_relative_to(evidence)
    assert f"'{task}'" in failure.command and f"'{task.parent}/tried/candidates.py:wrong'" in failure.command
    assert finished.files_folder not in msgspec.json.encode(run).decode()
    assert (run.engine_ref, run.seed, run.command) == (str(task), 5, "whet ab as typed")
    assert run.environment["cluster"] == about
    for other in ({"seed": 6}, {"case": Case(sizes={"n": 9})}, {"engine_sha256": "0"}):
        with pytest.raises(WrongAnswer):
            home(msgspec.structs.replace(request, **other))


@pytest.mark.parametrize(
    ("changed", "cause", "cure"),
    [
        ({"whet": "0.0.0"}, "whet 0.0.0", "same version"),
        ({"engine": "no_such_engine"}, "cannot be loaded", "install there"),
        ({"engine_sha256": "0"}, "source differs", "same package"),
        ({"files": []}, "cannot be loaded", "--send"),
    ],
)
def test_what_a_machine_cannot_do_it_says(task, changed, cause, cure):
    said = asked(trial_of(task, "plain", "other", **changed))[-1]
    assert isinstance(said, Failed) and said.kind == "Unsupported", said
    assert cause in said.cause and cure in said.cure


def test_a_request_of_another_whet_is_answered(task):
    said = [msgspec.json.decode(line, type=Answer) for line in fresh_process.ask(MODULE, b'{"type":"Sing"}', 300)[0]]
    assert isinstance(said[-1], Failed) and "same whet" in said[-1].cure


def test_a_trial_that_is_stopped_tells_what_it_measured(task):
    """And leaves no process, no folder and no lock. Signals are blocked at first, as in a thread of a Ray worker."""
    process = fresh_process.FreshProcess()
    long = custom(BUDGETS["quick"], seconds=600, blocks=10_000)
    request = msgspec.json.encode(trial_of(task, "plain", "other", budget=long))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    process.start(MODULE, request)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    tree: list[psutil.Process] = []
    said, code, stopped = [], None, False
    while code is None:
        lines, code, _ = process.hear(5.0)
        said += [msgspec.json.decode(line, type=Answer) for line in lines]
        if not stopped and any("round" in one.note for one in said if isinstance(one, Progress)):
            tree, stopped = psutil.Process(process._child.pid).children(recursive=True), True
            process.stop()
    process.end()
    assert not any(Path(tempfile.gettempdir()).glob("whet-away-*"))
    (finished,) = [one for one in said if isinstance(one, Finished)]
    assert finished.run.interrupted and finished.run.samples and tree
    assert not psutil.wait_procs(tree, timeout=60)[1]
    with alone(lambda: pytest.fail("somebody holds it")):
        pass


def test_trials_on_one_machine_wait_for_each_other():
    order, told = [], threading.Event()

    def second() -> None:
        with alone(told.set):
            order.append("second")

    with alone(lambda: pytest.fail("somebody holds it")):
        thread = threading.Thread(target=second)
        thread.start()
        assert told.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]


def test_nothing_of_ray_reaches_the_process(monkeypatch):
    for name in ("RAY_JOB_ID", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("WHET_STORE", "kept")
    clean = fresh_process.clean_environment()
    assert clean["WHET_STORE"] == "kept" and not {"RAY_JOB_ID", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"} & set(clean)


def test_a_process_that_says_nothing_is_explained(monkeypatch):
    lines, code, words = fresh_process.ask("whet.no_such_module", b"", 300)
    assert lines == [] and isinstance(no_whet("host", code, words), Unsupported)
    monkeypatch.setattr(fresh_process, "END_LIMIT_S", 0.1)
    assert fresh_process.ask("http.server", b"", 0.5)[1:] == (None, "no answer within 0.5 s")


def test_files_stay_below_their_folder(tmp_path):
    with pytest.raises(BadInput):
        unpack([Sent(path="../out.py", content=b"")], tmp_path / "in")
    assert not (tmp_path / "out.py").exists()


@pytest.mark.parametrize("variant", ["plain@main", "missing.py:fast"])
def test_what_cannot_travel_is_refused(task, variant):
    with pytest.raises(BadInput):
        pack(load(str(task)), [variant])


def test_a_file_that_is_not_there_cannot_be_sent(task):
    shutil.rmtree(task.parent / "tried")
    with pytest.raises(BadInput, match="no such file"):
        pack(load(str(task)), ["plain"], [task.parent / "tried"])


def test_kinds_are_found_by_name_or_by_a_part_that_fits_one():
    machines = [Machine("1", "h1", "EPYC 9654, 96 cores", 96, 0), Machine("2", "h2", "Graviton4, 96 cores", 96, 0)]
    assert list(by_kind(machines)) == [machine.kind for machine in machines]
    assert by_kind(machines, ["epyc"]) == {machines[0].kind: [machines[0]]}
    for text in ("96 cores", "xeon", ""):
        with pytest.raises(BadInput) as told:
            by_kind(machines, [text])
        assert "EPYC" in told.value.cure
