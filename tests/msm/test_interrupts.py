"""Ctrl-C in the middle: a call ends soon with KeyboardInterrupt, the command with one line and its exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from whet.errors import ExitCode

# Sends itself the signal from the call's own progress report, so that the moment does not depend on the machine.
CALLER = """
import os, signal, sys
from whet.msm import Engine, inputs
n = 60_000
points = inputs.points_from_logs(inputs.logs("equal", n, 1)[:1]).repeat(n, axis=0)
points[1:] = inputs.points_from_logs(inputs.logs("random", 1, 2))
engine = Engine(points, montgomery=True, check=False, backend="portable", threads=int(sys.argv[1]), **eval(sys.argv[2]))
scalars = inputs.scalars("random", n, 3)
seen = []

def progress(done):
    seen.append(done)
    if done > 0.2 and len(seen) > 1 and not os.path.exists(sys.argv[3]):
        open(sys.argv[3], "x").close()
        os.kill(os.getpid(), signal.SIGINT)

try:
    engine(scalars, progress=progress)
except KeyboardInterrupt:
    print("interrupted", max(seen) < 0.9)
again = engine(scalars)
engine.close()
print("still works", again == Engine(points, montgomery=True, check=False).compute(scalars))
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("options", ["{}", "{'memory_budget': 3_000_000}"])
def test_ctrl_c_during_a_call_is_a_keyboard_interrupt(threads, options, tmp_path, tried):
    command = [sys.executable, "-c", CALLER, str(threads), options, str(tmp_path / "sent")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["interrupted True", "still works True"], done.stderr
    tried("interrupted calls", 1)


# The command, with Ctrl-C a moment after the named function starts for the first time.
COMMAND = """
import os, signal, sys, threading
from whet.cli.app import run
from whet.msm import affine, inputs

owner, name = {"making points": (inputs, "points_from_logs"), "the sum": (affine.Affine, "run")}[sys.argv[1]]
original, started = getattr(owner, name), []

def watched(*arguments, **options):
    if not started:
        started.append(threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT)))
        started[0].start()
    return original(*arguments, **options)

setattr(owner, name, watched)
sys.argv = ["whet", "msm", "--n", "2^17", "--variant", "affine:backend=portable"]
run()
"""


@pytest.mark.parametrize("moment", ["making points", "the sum"])
def test_ctrl_c_during_the_command_is_one_line_and_its_exit_code(moment, tmp_path, tried):
    command = [sys.executable, "-c", COMMAND, moment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.returncode == ExitCode.INTERRUPTED, done
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.startswith("error: interrupted\n  cure: "), done.stderr
    tried("interrupted calls", 1)
