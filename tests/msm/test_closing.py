"""Closing and calling again in the middle of a call: an answer or a typed refusal, never a wait without end.

Each case runs in a process of its own, because a hang with the interpreter locked could not be ended from inside.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from whet._native import msm as native

BACKEND = native.backends()[-1]  # the slowest, so that there is a middle

SETTING = """
import sys, threading, time
from whet.errors import BadInput, Cancelled
from whet.msm import Engine, Srs, inputs, msm
from whet.msm.points import write_points
from whet._native import curve

backend, kind, folder = sys.argv[1:]
n = 12_000
points = inputs.points_from_logs(inputs.logs("random", 300, 1)).repeat(n // 300, axis=0)
scalars = inputs.scalars("random", n, 3)
expected = Engine(points, montgomery=True, check=False).compute(scalars)
srs = None
if kind == "srs":
    write_points(folder + "/points", curve.write_points(points))
    srs = Srs.open(folder + "/points", "raw-le")
    engine = srs.prepare(variant="affine:backend=" + backend, threads=1)
else:
    options = {"engine": {}, "budget": {"memory_budget": 10**9}, "pieces": {"memory_budget": 1_500_000}}[kind]
    engine = Engine(points, montgomery=True, check=False, backend=backend, threads=1, **options)
    if kind == "pieces":
        assert not engine._prepared.resident
whole = srs or engine
held = engine._prepared.native

def refused(call):
    try:
        return call() and False
    except BadInput as error:
        return bool(error.cause and error.cure)

def in_a_thread(call):
    outcomes = []
    def body():
        try:
            outcomes.append(call() == expected)
        except (BadInput, Cancelled) as error:
            outcomes.append(str(error))
    thread = threading.Thread(target=body)
    thread.start()
    return thread, outcomes
"""

FROM_ANOTHER_THREAD = """
def wait_for(condition):
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)

told = threading.Event()
callers = [in_a_thread(lambda: engine(scalars, progress=lambda done: told.set())), in_a_thread(lambda: engine(scalars))]
told.wait(60)
wait_for(lambda: "digits" in held.ledger())
whole.close()
print("closed", refused(lambda: engine(scalars)))
whole.close()
for thread, outcomes in callers:
    thread.join()
    print("answered", outcomes)
print("left", held.ledger())
"""

FROM_THE_CALLBACK = """
seen = []

def progress(done):
    seen.append(done)
    if len(seen) == 2:
        {action}

try:
    print("answered", engine(scalars, progress=progress) == expected)
except BadInput as error:
    print("refused", error.cure != "")
print("closed", refused(lambda: engine(scalars)), len(seen) > 1)
print("left", held.ledger())
"""

AGAIN = """
seen = []

def progress(done):
    if not seen:
        seen.append(refused(lambda: engine(scalars)))
        seen.append(refused(lambda: engine.view(3, 5)([1, 2, 3, 4, 5])))
        seen.append(refused(lambda: engine.batch([scalars])))
        seen.append(msm([(1, 2)], [1]) == msm([(1, 2)], [1]))

print("answered", engine(scalars, progress=progress) == expected, seen)
print("answered", engine(scalars) == expected)
"""

UNPREPARED = """
import sys
import numpy as np
from whet._native import msm as native
from whet.errors import BadInput

scalars = np.ones((1, 4), np.uint64)
path = (sys.argv[3] + "/x").encode()
for attempt in (lambda e: e.run(scalars, 0, 0), lambda e: e.run(scalars[:0], 0, 0), lambda e: e.save(path),
                lambda e: e.fill(0, np.zeros((1, 8), np.uint64), True)):
    engine = native.AffineEngine(sys.argv[1], 1)
    try:
        attempt(engine)
        print("went through")
    except BadInput as error:
        print("refused", bool(error.cure), len(engine), engine.mapped)
"""


def outcome(script: str, kind: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", script, BACKEND, kind, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["engine", "budget", "pieces", "srs"])
def test_closing_from_another_thread_lets_calls_answer(kind, tmp_path):
    answered = outcome(SETTING + FROM_ANOTHER_THREAD, kind, tmp_path)
    assert answered[:2] == ["closed True", "answered [True]"]
    # The second caller had begun, or not yet.
    assert answered[2] in ("answered [True]", "answered ['the engine is closed (make a new one)']")
    assert answered[3] == "left {}"


@pytest.mark.parametrize("kind", ["engine", "budget", "pieces", "srs"])
@pytest.mark.parametrize("action", ["whole.close()", "whole.__exit__(None, None, None)"])
def test_closing_from_the_progress_callback_lets_the_call_answer(kind, action, tmp_path):
    answered = outcome(SETTING + FROM_THE_CALLBACK.format(action=action), kind, tmp_path)
    assert answered == ["answered True", "closed True True", "left {}"]


@pytest.mark.parametrize("kind", ["engine", "budget", "pieces", "srs"])
def test_calling_the_engine_from_its_own_callback_is_refused(kind, tmp_path):
    answered = outcome(SETTING + AGAIN, kind, tmp_path)
    assert answered == ["answered True [True, True, True, True]", "answered True"]


def test_an_engine_without_points_refuses(tmp_path):
    assert outcome(UNPREPARED, "engine", tmp_path) == ["refused True 0 False"] * 4
