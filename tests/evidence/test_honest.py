"""Honest variants with habits that a strict gate might take for a cheat are green, and stay it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import honest_engines
import pytest

from whet.errors import ExitCode

FILE = Path(honest_engines.__file__)
WHET = str(Path(sys.executable).with_name("whet"))
MET = (ExitCode.OK, ExitCode.UNDECIDED)
KINDS = {
    "threads": ("pool", "spinning", "fresh", "multiplying"),
    "memory": ("hungry", "native", "littering", "remembering"),
    "waiting": ("sleeping", "slow-start", "compiled"),
}


def trial(tmp_path: Path, *words: str) -> dict:
    done = subprocess.run(
        [WHET, "ab", str(FILE), "--quick", "--seconds", "5", "--seed", "5", "--json", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "WHET_STORE": str(tmp_path / "runs.sqlite")},
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    reds = {gate["variant"]: gate["failure"] for gate in told["gates"] if not gate["green"]}
    assert not reds
    assert done.returncode in MET, done.stderr
    return told


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_habits_are_green(kind, tmp_path, tried):
    habits = [habit for habit in KINDS[kind] if habit in honest_engines.HABITS]
    told = trial(tmp_path, "plain", *habits)
    for variant in ("plain", *habits):
        turns = [sample for sample in told["samples"] if sample["variant"] == variant]
        assert turns
        tried("honest turns, none red", len(turns))


def test_every_habit_is_tried():
    assert {habit for habits in KINDS.values() for habit in habits} >= set(honest_engines.HABITS) - {"plain"}


def test_one_element_is_green(tmp_path, tried):
    told = trial(tmp_path, "plain", "remembering", "fresh", "--size", "n=1")
    assert told["case"]["sizes"] == {"n": 1}
    tried("honest turns, none red", len(told["samples"]))


def test_sleeping_time_counts(tmp_path):
    told = trial(tmp_path, "plain", "sleeping", "--blocks", "8", "--seconds", "60")
    assert [verdict["outcome"] for verdict in told["verdicts"]] == ["SLOWER"]
