"""Candidates from a file of their own: both forms, every way not to be one, and who ever loads the file."""

from __future__ import annotations

import json

import pytest
from small_task import CASE, candidate_of, plan_of, write_task

from whet.evidence.examination import examine
from whet.evidence.readings import Reading
from whet.evidence.registry import load
from whet.evidence.rig import Plan, Rig
from whet.protocol import parse_variant

FORMS = """
import numpy as np

def function(inputs, outputs):
    np.multiply(inputs["x"], 2, out=outputs["y"])

class WithState:
    def __init__(self, case, fixed, device):
        self.factor = 2 if (case.sizes["n"], device) == (8, "cpu") else 0
    def run(self, inputs, outputs):
        np.multiply(inputs["x"], self.factor, out=outputs["y"])

class Wrong(WithState):
    def run(self, inputs, outputs):
        outputs["y"][:] = 7
"""


def examined(folder, *candidates):
    plan = plan_of(write_task(folder), "a", candidates=candidates)
    with Rig(plan) as rig:
        return examine(rig, CASE, turns=2)


def test_a_function_and_a_class_are_candidates(tmp_path):
    chosen = [candidate_of(tmp_path, name, FORMS) for name in ("function", "WithState", "Wrong")]
    readings, refusals = examined(tmp_path, *chosen)
    assert {name: len(some) for name, some in readings.items()} == {
        "a": 2,
        "candidate.py:function": 2,
        "candidate.py:WithState": 2,
    }
    assert {name: refusal.red.reason for name, refusal in refusals.items()} == {"candidate.py:Wrong": "wrong output"}


BY_NAME = """
import numpy as np

def returns(x):
    return 2 * x

def writes(x, out):
    np.multiply(x, 2, out=out["y"])

def sized(n, x):
    return {"y": x + x[:n]}

def short(given, wanted):
    wanted["y"][:] = 2 * given["x"]

def confused(x, y):
    return x + y
"""
# The same task without a class; its inputs have no names, and one of them is a number.
DECLARED = """
import whet

@whet.inputs(sizes={"n": 8})
def make(n, rng):
    return rng.integers(0, 1000, n), 2

@whet.variant
def plain(x, factor):
    return factor * x

@whet.oracle
def exact(x, factor):
    return [factor * one for one in x.tolist()]
"""
OF_DECLARED = """
def by_place(numbers, times):
    return times * numbers

def by_buffers(inputs, outputs):
    outputs["result"][:] = inputs["0"] * inputs["1"]

@__import__("whet").variant
def declared(numbers, times):
    return times * numbers
"""


def test_a_candidate_may_go_by_names_like_a_declared_variant(tmp_path):
    names = ("returns", "writes", "sized", "short", "confused")
    readings, refusals = examined(tmp_path, *(candidate_of(tmp_path, name, BY_NAME) for name in names))
    green = {"a", *(f"candidate.py:{name}" for name in names[:-1])}
    assert {name for name, some in readings.items() if len(some) == 2} == green
    told = refusals["candidate.py:confused"].red.detail
    assert "confused() asks for 'y', which nobody makes" in told and "confused(inputs, outputs)" in told


def test_both_forms_serve_a_task_of_functions(tmp_path):
    (tmp_path / "task.py").write_text(DECLARED)
    chosen = [candidate_of(tmp_path, name, OF_DECLARED) for name in ("by_place", "by_buffers", "declared")]
    loaded = load(str(tmp_path / "task.py"))
    plan = Plan(loaded.engine, loaded.ref, (parse_variant(loaded.engine, "plain"), *chosen), "cpu", 1)
    with Rig(plan) as rig:
        readings, refusals = examine(rig, loaded.engine.cases()[0], turns=2)
    assert not refusals and all(len(some) == 2 for some in readings.values())


NO_CANDIDATES = {
    "no such name": ("x = 1\n", "has no candidate 'fast'"),
    "not callable": ("fast = 7\n", "has no candidate 'fast'"),
    "import error": ("import nothing_of_that_name\n", "ModuleNotFoundError"),
    "syntax": ("def fast(:\n", "SyntaxError"),
    "raises": ("1 / 0\n", "candidate.py:1: ZeroDivisionError"),
    "exits": ("raise SystemExit(3)\n", "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
    "constructor": ("class fast:\n    def __init__(self, case, fixed, device): {}['lost']\n", "setup: KeyError"),
    "constructor of nothing": ("class fast:\n    pass\n", "setup: TypeError"),
    "no arguments": ("def fast(): return 7\n", "shape"),
}


def test_what_is_no_candidate_is_red_and_the_others_go_on(tmp_path, tried):
    chosen = []
    for number, (source, _) in enumerate(NO_CANDIDATES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        chosen.append(candidate_of(folder, "fast", source))
    for candidate, (what, (_, detail)) in zip(chosen, NO_CANDIDATES.items(), strict=True):
        plan = plan_of(write_task(tmp_path), "a", candidates=(candidate,))
        with Rig(plan) as rig:
            rig.open(CASE)
            reds = rig.start(rig.alive)
            for name in reds:
                rig.retire(name)
            found = {**reds, **rig.round(("x", 0), rig.alive)}
        red = found["candidate.py:fast"]
        assert red.reason == "raised" and detail in red.detail, (what, red)
        assert isinstance(found["a"], Reading), what
    tried("malformed inputs", len(chosen))


@pytest.mark.parametrize("source, reason", [("import os; os._exit(3)\n", "died"), ("import os; os.abort()\n", "died")])
def test_a_file_that_ends_its_process_is_red(tmp_path, source, reason):
    readings, refusals = examined(tmp_path, candidate_of(tmp_path, "fast", source))
    assert refusals["candidate.py:fast"].red.reason == reason and len(readings["a"]) == 2


MARKING = """
import json, os, sys, uuid
from pathlib import Path
Path(MARKS, uuid.uuid4().hex).write_text(json.dumps(sys.orig_argv))
import numpy as np
def fast(inputs, outputs):
    np.multiply(inputs["x"], 2, out=outputs["y"])
"""


def test_the_file_is_loaded_in_its_own_bench_and_nowhere_else(tmp_path):
    """Once per process of that candidate; never by the parent, the referee, the judge or a rival."""
    marks = tmp_path / "marks"
    marks.mkdir()
    candidate = candidate_of(tmp_path, "fast", MARKING.replace("MARKS", repr(str(marks))))
    plan = plan_of(write_task(tmp_path), "ab", candidates=(candidate,))
    with Rig(plan) as rig:
        rig.open(CASE)
        for starts in (1, 2):
            assert rig.start(rig.alive) == {}
            assert all(isinstance(one, Reading) for one in rig.round(("x", starts), rig.alive).values())
            found = [json.loads(mark.read_text()) for mark in marks.iterdir()]
            assert len(found) == starts
            assert all("whet.evidence.launch" in words and "bench" in words for words in found)


def test_a_candidate_has_no_device_clock(tmp_path):
    """A stranger's own clock is not asked for, even where it offers one."""
    source = FORMS + "\n    def timing(self):\n        raise AssertionError('asked')\n"
    plan = plan_of(write_task(tmp_path), "a", candidates=(candidate_of(tmp_path, "Wrong", source),))
    with Rig(plan) as rig:
        rig.open(CASE)
        rig.start(["candidate.py:Wrong"])
        assert rig.round(("x", 0), ["candidate.py:Wrong"], timing=True)["candidate.py:Wrong"].reason == "wrong output"
