"""`whet ab` and `whet sweep` with --on: a real Ray on this machine, whose nodes are of two kinds by their labels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import psutil
import pytest
from machines_here import ENVIRONMENT
from travelling import write_project

from whet.evidence.store import Store

HERE = Path(__file__).parent
TINY = ("--seconds", "0.5", "--blocks", "5", "--rounds", "1")
BOTH = ("--kind", "a", "--kind", "b")
LIMIT_S = 400


@pytest.fixture(scope="module")
def cluster(ray_installed):
    """The program that holds the nodes; its first line is the address."""
    command = [sys.executable, str(HERE / "machines_here.py"), "a", "b"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": os.environ | ENVIRONMENT}
    with subprocess.Popen(command, **pipes) as process:
        process.address = process.stdout.readline().strip()
        assert process.address, "the nodes did not start"
        yield process
        process.stdin.close()
        assert process.wait(LIMIT_S) == 0


@pytest.fixture
def task(tmp_path):
    return write_project(tmp_path)


def whet(*words, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "whet", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        **more,
    )


def told(process) -> tuple[int, dict, str]:
    printed, errors = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in errors, errors
    return process.returncode, json.loads(printed) if printed else {}, errors


def span_of(run) -> tuple[float, float]:
    began = datetime.fromisoformat(run.created).timestamp()
    return began, began + run.elapsed_s


def test_a_trial_on_each_kind_comes_home(cluster, task, tmp_path):
    """One variant is refused, on both kinds: exit code 3, as anywhere, and its evidence is here."""
    store_path = tmp_path / "runs.sqlite"
    wrong = task.parent / "tried" / "candidates.py"
    code, found, errors = told(
        whet(
            *("ab", task, "plain", "other", f"{wrong}:wrong", "--on", cluster.address, "--send", task.parent / "data"),
            *(*BOTH, "--store", store_path, "--json", "--seed", 7, *TINY),
        )
    )
    assert code == 3, errors
    assert [one["kind"] for one in found["outcomes"]] == ["a", "b"]
    with Store.open(store_path, read_only=True) as store:
        runs = [store.get(one["run"]["id"]) for one in found["outcomes"]]
    assert [run.environment["cluster"]["kind"] for run in runs] == ["a", "b"]
    for run in runs:
        assert (run.engine_ref, run.seed, run.variants) == (str(task), 7, ["plain", "other", "candidates.py:wrong"])
        assert [gate.green for gate in run.gates] == [True, True, False]
        assert Path(run.gates[2].failure.inputs_path).is_relative_to(tmp_path)
        assert Path(run.gates[2].failure.inputs_path).is_file()
        assert run.samples and run.isolation is not None and f"--on {cluster.address}" in run.command
    first, second = sorted(map(span_of, runs))
    assert second[0] >= int(first[1]) - 1, "both trials ran on this machine at a time"
    assert "a: 127.0.0.2" in errors and "round" in errors


def test_a_sweep_goes_over_its_points_on_the_kind_that_is_asked_for(cluster, task, tmp_path):
    code, found, errors = told(
        whet(
            *("sweep", task, "plain", "other", "--axis", "n=4,8", "--on", cluster.address, "--kind", "a"),
            *("--send", task.parent / "data", "--store", tmp_path / "runs.sqlite", "--json", *TINY),
        )
    )
    assert code == 0, errors
    assert [(one["kind"], one["case"]["sizes"]["n"]) for one in found["outcomes"]] == [("a", 4), ("a", 8)]
    assert all(one["run"]["samples"] for one in found["outcomes"])


def test_an_address_or_a_kind_that_is_not_there_is_named(cluster, task, tmp_path):
    rest = ("--store", tmp_path / "runs.sqlite", "--json", *TINY)
    nowhere = whet("ab", "msm", "affine", "pippenger", "--on", "127.0.0.1:1", *rest)
    unknown = whet("ab", "msm", "affine", "pippenger", "--on", cluster.address, "--kind", "c", *rest)
    code, _, errors = told(nowhere)
    assert code == 4 and "127.0.0.1:1 cannot be reached" in errors and "ray start --head" in errors
    code, _, errors = told(unknown)
    assert code == 64 and "'c'" in errors and "kinds: a; b; head" in errors


def test_a_node_that_is_killed_costs_its_run_and_not_the_other(cluster, task, tmp_path):
    """Last, because the node does not come back. Whichever kind begins first is the one to die."""
    process = whet(
        *("ab", task, "plain", "other", "--on", cluster.address, "--send", task.parent / "data"),
        *(*BOTH, "--store", tmp_path / "runs.sqlite", "--json", "--seconds", "4", "--blocks", "100"),
    )
    victim = ""
    while not victim:
        line = process.stderr.readline()
        assert line, "no trial began"
        kind, *rest = line.split(": ")
        victim = kind if any(part.startswith(("gate", "round")) for part in rest) else ""
    cluster.stdin.write(f"kill {victim}\n")
    cluster.stdin.flush()
    code, found, errors = told(process)
    outcomes = {one["kind"]: one for one in found["outcomes"]}
    assert code == 4, errors
    assert outcomes[victim]["run"] is None and outcomes[victim]["error"]["type"] == "MachineLost", outcomes
    (other,) = set("ab") - {victim}
    assert outcomes[other]["run"]["samples"]
    with Store.open(tmp_path / "runs.sqlite", read_only=True) as store:
        assert [run.id for run in store.list()] == [outcomes[other]["run"]["id"]]


def test_no_process_of_a_trial_is_left():
    left = [one for one in psutil.process_iter() if "whet.cluster.on_machine" in " ".join(cmdline(one))]
    assert not psutil.wait_procs(left, timeout=120)[1]


def cmdline(process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
