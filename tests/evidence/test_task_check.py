"""`whet check --task`: weak tasks are told from honest ones, by the answer that passes and what to strengthen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from whet.cli.app import invoke
from whet.errors import BadInput, ExitCode
from whet.evidence import examined
from whet.evidence.free_answers import damaged_answers, passes
from whet.evidence.registry import load
from whet.evidence.store import Store
from whet.evidence.task_check import examine_task
from whet.protocol import Tolerance

TASKS = Path(__file__).with_name("weak_tasks.py")
EXAMPLES = Path(__file__).parents[2] / "examples"

# Task, the answer that passes, words of the reason.
WEAK = [
    ("SeedIgnored", "the answer to another seed", "one answer whatever the seed"),
    ("AllZero", "zeros", "one answer whatever the seed"),
    ("AllOnes", "ones", "one answer whatever the seed"),
    ("NearlyConstant", "a constant", "tolerance too loose"),
    ("Identity", "an input passed through", "inputs degenerate"),
    ("AlwaysOneRow", "an input passed through", "inputs degenerate"),
    ("SortsSorted", "an input passed through", "inputs degenerate"),
    ("LooseAbsolute", "the sorted answer", "tolerance too loose"),
    ("LooseAbsolute", "the negated answer", "tolerance too loose"),
    ("LooseAbsolute", "the answer without signs", "tolerance too loose"),
    ("LooseAbsolute", "the first half of the answer", "tolerance too loose"),
    ("LooseAbsolute", "zeros", "tolerance too loose"),
    ("HalfByAbsolute", "the answer in float16", "tolerance too loose"),
    ("FewDigits", "the answer in float16", "inputs degenerate"),
    ("Periodic", "the answer to a smaller case, repeated", "inputs degenerate"),
    ("Unsteady", "the oracle's second answer", "in two ways"),
    ("Writes", "the oracle's inputs", "'x'"),
]
# Task, and what is told about it.
GOOD = [
    ("Honest", ""),
    ("Sorts", "every expected answer is sorted"),
    ("HonestlyHalf", "of the tolerance"),
    ("EdgeProfile", "profile zeros has one answer"),
    ("Counts", "no expected value is negative"),
]


def report_on(name: str, seed: int = 5):
    loaded = load(f"{TASKS}:{name}")
    return examine_task(loaded.engine, loaded.ref, seed=seed)


@pytest.fixture(scope="module")
def reports():
    return {name: report_on(name) for name in {name for name, *_ in [*WEAK, *GOOD]}}


@pytest.mark.parametrize(("name", "answer", "words"), WEAK)
def test_a_weak_task_is_told_by_the_answer_that_passes(reports, name, answer, words, tried):
    found = [finding for finding in reports[name].weak if finding.answer == answer]
    assert found and any(words in finding.told for finding in found), reports[name]
    assert all(finding.strengthen and finding.cases for finding in found)
    tried("weak tasks told")


@pytest.mark.parametrize(("name", "words"), GOOD)
def test_an_honest_task_is_good(reports, name, words):
    report = reports[name]
    assert report.good and not report.left_out, report.weak
    told = [finding.told for finding in report.notes]
    assert any(words in text for text in told) if words else not told, told


def test_a_half_precision_tolerance_is_told_with_its_share(reports):
    (told,) = [one.told for one in reports["HonestlyHalf"].notes if one.answer == "the answer in float16"]
    share = float(told.split("takes ")[1].split("%")[0])
    assert 20 < share < 30, "2^-11 of 2e-3 is a quarter"


def test_weaknesses_are_not_found_by_chance(reports):
    """Cases of 0, 1 and 2 elements are sorted, zero or their own input soon enough."""
    for seed in range(4):
        assert report_on("Honest", seed).good


@pytest.mark.parametrize("engine", ["msm", "decode", "graph"])
def test_engines_of_whet_are_good_tasks(engine):
    loaded = load(engine)
    report = examine_task(loaded.engine, loaded.ref, seed=11, seconds=300)
    assert report.good and not report.left_out, report.weak


@pytest.mark.parametrize("name", ["horner_numpy", "wrong_on_purpose", "histogram_numba", "saxpy_webgpu"])
def test_examples_are_good_tasks(name):
    if name == "histogram_numba":
        pytest.importorskip("numba")
    loaded = load(str(EXAMPLES / f"{name}.py"))
    report = examine_task(loaded.engine, loaded.ref, seed=11, seconds=300)
    assert report.good, report.weak


def test_the_command_says_what_passed_and_what_to_strengthen(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))
    assert invoke(["check", f"{TASKS}:Identity", "--task"]) == ExitCode.REFUSED
    out = capsys.readouterr().out
    assert "weak an input passed through at" in out and "n=1000" in out and "strengthen: draw inputs" in out
    assert invoke(["check", f"{TASKS}:Honest", "--task"]) == ExitCode.OK
    assert "good: no answer that costs nothing passes" in capsys.readouterr().out
    assert invoke(["check", f"{TASKS}:Identity", "--task", "--json"]) == ExitCode.REFUSED
    said = json.loads(capsys.readouterr().out)
    assert said["good"] is False and said["report"]["weak"][0]["answer"] == "an input passed through"
    with pytest.raises(BadInput, match="no variant"):
        invoke(["check", f"{TASKS}:Honest", "plain", "--task"])


def test_a_trial_says_when_its_task_was_never_examined(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))
    task = str(EXAMPLES / "horner_numpy.py")
    trial = ["ab", task, "--n", "64", "--blocks", "5", "--rounds", "1"]
    invoke(trial)
    # Where a line is broken hangs on the length of this folder's name.
    out = " ".join(capsys.readouterr().out.split())
    assert "never examined: whet check" in out and "--task tries" in out and "TASK" not in out
    assert invoke(["check", task, "--task"]) == ExitCode.OK
    capsys.readouterr()
    invoke(trial)
    assert "never examined" not in " ".join(capsys.readouterr().out.split())
    with Store.open(tmp_path / "runs.sqlite") as store:
        assert store.get("last").task_examined


def test_the_record_is_of_one_source_and_survives_rubbish(tmp_path):
    task = tmp_path / "task.py"
    task.write_text(TASKS.read_text())
    loaded = load(f"{task}:Honest")
    assert not examined.was_examined(tmp_path, loaded)
    examined.remember(tmp_path, loaded, good=True)
    assert examined.was_examined(tmp_path, loaded)
    assert not examined.was_examined(tmp_path, load(f"{task}:Sorts")), "another task of that file"
    task.write_text(TASKS.read_text() + "\n# changed\n")
    assert not examined.was_examined(tmp_path, load(f"{task}:Honest"))
    examined.remember(tmp_path, loaded, good=False)
    assert not examined.was_examined(tmp_path, loaded)
    (tmp_path / examined.FILE_NAME).write_text("{[")
    assert not examined.was_examined(tmp_path, loaded)
    examined.remember(tmp_path, loaded, good=True)
    assert examined.was_examined(tmp_path, loaded)


def test_bfloat16_is_rounded_to_nearest():
    values = np.array([1.0, 1.00390625, 1.01171875, -3.14159, np.inf], np.float32)
    squeezed = damaged_answers({"y": values})["the answer in bfloat16"]["y"]
    assert squeezed.tolist() == [1.0, 1.0, 1.015625, -3.140625, np.inf]
    assert not passes({"y": squeezed}, {"y": values}, Tolerance(relative=1e-5))
