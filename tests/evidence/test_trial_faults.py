"""What fails in the middle of a trial costs one variant or nothing, never what the others measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest

from scripted_runs import scripted_run
from whet.cli.budget import BudgetChoice
from whet.cli.plan_options import run_and_store
from whet.errors import DeviceError, ExitCode, StoreError
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.experiment import Experiment
from whet.evidence.record import INTERRUPTED, Export, Outcome
from whet.evidence.registry import load
from whet.evidence.rig import Plan
from whet.evidence.store import Store
from whet.protocol import Case, parse_variant

ENGINE = Path(__file__).with_name("faults_engine.py")
BUDGET = replace(custom(BUDGETS["quick"], blocks=5, rounds=2), seconds=300, gate_seconds=30)
WHET = Path(sys.executable).with_name("whet")


def experiment(tmp_path, names, on_round, budget=BUDGET) -> Experiment:
    """`on_round` is called with the number of every round of the trial that is over."""
    loaded = load(str(ENGINE))
    variants = tuple(parse_variant(loaded.engine, name) for name in names)

    def on_progress(share: float, note: str) -> None:
        if note.startswith("round "):
            on_round(int(note.removeprefix("round ")))

    return Experiment(
        plan=Plan(loaded.engine, loaded.ref, variants, "cpu", seed=7),
        case=Case(sizes={"n": 20_000}),
        budget=budget,
        baseline=names[0],
        command="whet ab",
        engine_sha256=loaded.sha256,
        evidence_folder=tmp_path,
        on_progress=on_progress,
    )


def children_of(pid: int, role: str) -> list[int]:
    """Processes of whet that serve in this role, started by `pid` itself."""
    found = []
    for child in psutil.Process(pid).children():
        try:
            words = child.cmdline()
        except psutil.Error:
            continue
        if "whet.evidence.launch" in words and role in words:
            found.append(child.pid)
    return found


def test_faults_of_variants_cost_those_variants_only(tmp_path, monkeypatch, tried):
    """One trial, four variants that fail after its third round, two that do not."""
    flag = tmp_path / "flag"
    monkeypatch.setenv("WHET_TEST_FAULT_FLAG", str(flag))
    reasons = {
        "lost-in-setup": ("device failed", "fell off the bus"),
        "memory-in-run": ("device failed", "the card is full"),
        "crash": ("died", "SIGSEGV"),
        "babble": ("garbled answer", ""),
    }
    names = ["plain", *reasons, "again"]
    run = experiment(tmp_path, names, lambda number: flag.touch() if number == 3 else None).run()
    verdicts = {verdict.candidate: verdict for verdict in run.verdicts}
    gates = {gate.variant: gate for gate in run.gates}
    for name, (reason, words) in reasons.items():
        assert verdicts[name].outcome is Outcome.REFUSED and not gates[name].green
        assert gates[name].failure.reason == reason and words in gates[name].failure.detail, gates[name].failure
        assert gates[name].full_checks > 3, "it was green until then"
    assert gates["plain"].green and gates["again"].green
    assert verdicts["again"].outcome is not Outcome.REFUSED and verdicts["again"].ratio is not None
    assert {s.variant for s in run.samples} >= {"plain", "again"} and not {s.variant for s in run.samples} & set(
        reasons
    )
    assert len(run.design.blocks) == 5, "the trial went on to its end"
    tried("faults inside a trial", len(reasons))


def test_a_baseline_that_fails_is_replaced(tmp_path, monkeypatch):
    flag = tmp_path / "flag"
    monkeypatch.setenv("WHET_TEST_FAULT_FLAG", str(flag))
    names = ["memory-in-run", "plain", "again"]
    run = experiment(tmp_path, names, lambda number: flag.touch() if number == 2 else None).run()
    assert run.baseline == "plain"
    by_name = {verdict.candidate: verdict for verdict in run.verdicts}
    assert by_name["memory-in-run"].outcome is Outcome.REFUSED
    assert by_name["again"].outcome is not Outcome.REFUSED and "takes its place" in " ".join(by_name["again"].reasons)


def test_a_killed_referee_and_a_killed_judge_are_replaced(tmp_path, tried):
    killed = []

    def strike(number: int) -> None:
        role = {2: "referee", 5: "judge"}.get(number)
        if role:
            (pid,) = children_of(os.getpid(), role)
            os.kill(pid, signal.SIGKILL)
            killed.append(role)

    run = experiment(tmp_path, ["plain", "again"], strike).run()
    assert killed == ["referee", "judge"]
    assert all(gate.green for gate in run.gates)
    assert run.verdicts[0].ratio is not None and len(run.design.blocks) == 5
    assert sum(sample.variant == "plain" for sample in run.samples) == 10, "every round counts once"
    (told,) = [warning for warning in run.warnings if warning.kind == "referee or judge lost"]
    assert "2 times" in told.seen
    tried("faults inside a trial", 2)


def test_a_referee_that_is_killed_time_and_again_is_an_error(tmp_path):
    def strike(number: int) -> None:
        (pid,) = children_of(os.getpid(), "referee")
        os.kill(pid, signal.SIGKILL)

    with pytest.raises(DeviceError, match=r"the oracle's process ended.*SIGKILL"):
        experiment(tmp_path, ["plain", "again"], strike).run()


def started(tmp_path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [WHET, "ab", str(ENGINE), "plain", "again", "--n", "20000", "--store", str(tmp_path / "runs.sqlite"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )


def wait_for_blocks(whet: subprocess.Popen[str], count: int) -> None:
    """Until the trial is in its `count`-th block: four benches at once, new ones in each."""
    seen: set[frozenset[int]] = set()
    deadline = time.monotonic() + 240
    while len(seen) < count:
        assert whet.poll() is None and time.monotonic() < deadline, "the trial never came"
        benches = children_of(whet.pid, "bench")
        if len(benches) == 4 and not any(seen_before & set(benches) for seen_before in seen):
            seen.add(frozenset(benches))
        time.sleep(0.01)


def test_ctrl_c_in_a_trial_keeps_what_was_measured(tmp_path, tried):
    whet = started(tmp_path, "--blocks", "500", "--rounds", "3", "--seconds", "900")
    wait_for_blocks(whet, 3)
    whet.send_signal(signal.SIGINT)
    out, err = whet.communicate(timeout=120)
    assert whet.returncode == ExitCode.INTERRUPTED, (out, err)
    assert "Traceback" not in out + err
    with Store.open(tmp_path / "runs.sqlite") as store:
        run = store.get("last")
    assert run.stopped.startswith(INTERRUPTED) and run.stopped in out
    assert {sample.variant for sample in run.samples} >= {"plain", "again"}
    assert not children_left(tmp_path)
    tried("faults inside a trial")


def children_left(tmp_path) -> list[str]:
    """Processes of whet that belong to nobody any more."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = process.info["cmdline"] or []
        if "whet.evidence.launch" in words and str(tmp_path) in str(process.info["environ"] or {}):
            found.append(" ".join(words))
    return found


def test_a_full_disk_keeps_the_run_as_a_file(tmp_path, monkeypatch, tried):
    """The store has no room left when the trial ends: the error names the file that holds the run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = experiment(tmp_path, ["plain", "again"], lambda number: None)
    with Store.open(tmp_path / "runs.sqlite") as store:
        store._db.execute(f"PRAGMA max_page_count = {store._db.execute('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(StoreError, match="full"):
            for number in range(1000):
                store.add(scripted_run(number, repeats=2))
        with pytest.raises(StoreError, match="full") as caught:
            run_and_store(
                store,
                load(str(ENGINE)),
                made.plan,
                made.case,
                budget=BudgetChoice(name="quick", blocks=5, rounds=1),
                baseline="plain",
                show=lambda share, note: None,
            )
    (kept,) = (tmp_path / "state").rglob("run-*.json")
    assert caught.value.evidence == str(kept) and f"whet report {kept}" in caught.value.cure
    (run,) = msgspec.json.decode(kept.read_bytes(), type=Export).runs
    assert {sample.variant for sample in run.samples} >= {"plain", "again"} and run.verdicts
    tried("faults inside a trial")
