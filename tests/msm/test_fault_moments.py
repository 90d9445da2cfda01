"""Sixteen threads, a fork and signals at any moment of a call: right answers or typed errors, and nothing hangs.

Each runs in a process of its own, because a hang could not be ended from inside.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SETTING = """
import os, signal, sys, threading
from whet.msm import Engine, inputs, msm
n = 3_000
logs = inputs.logs("random", 30, 1).repeat(n // 30, axis=0)
points = inputs.points_from_logs(logs[::100]).repeat(n // 30, axis=0)
scalars = inputs.scalars("random", n, 3)
engine = Engine(points, montgomery=True, check=False, threads=int(sys.argv[1]))
expected = Engine(points, montgomery=True, check=False, threads=1, backend="portable").compute(scalars)
"""
SIXTEEN = """
right = []
callers = [threading.Thread(target=lambda: right.append(engine(scalars) == expected)) for _ in range(16)]
for caller in callers: caller.start()
for caller in callers: caller.join()
print(len(right), all(right))
"""
FORK = """
assert engine(scalars) == expected
child = os.fork()
if child == 0:
    signal.alarm(60)
    with Engine(points, montgomery=True, check=False, threads=2) as fresh:
        os._exit(0 if fresh(scalars) == expected and msm([(1, 2)], [1]) == msm([(1, 2)], [1]) else 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), engine(scalars) == expected)
"""
FORK_IN_A_CALL = """
from whet.errors import BadInput
over = False
def calling():
    while not over: assert engine(scalars) == expected
callers = [threading.Thread(target=calling) for _ in range(3)]
for caller in callers: caller.start()
codes = set()
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(0 if engine(scalars) == expected else 9)
        except BadInput as refused:
            os._exit(0 if "forked while the engine was computing" in str(refused) else 8)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over = True
for caller in callers: caller.join()
print(codes, engine(scalars) == expected)
"""
SIGNALS = """
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
stopped = 0
for delay_us in range(100, 12_000, 200):
    try:
        signal.setitimer(signal.ITIMER_REAL, delay_us * 1e-6)
        assert engine(scalars) == expected
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:
        stopped += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(stopped > 5, engine(scalars) == expected)
"""


@pytest.mark.parametrize(
    ("script", "threads", "said"),
    [
        (SIXTEEN, 16, "16 True"),
        (FORK, 2, "0 True"),
        (FORK_IN_A_CALL, 2, "{0} True"),
        (SIGNALS, 1, "True True"),
        (SIGNALS, 2, "True True"),
    ],
    ids=["sixteen", "fork", "fork-in-a-call", "signals-1", "signals-2"],
)
def test_answers_at_any_moment(script, threads, said):
    command = [sys.executable, "-c", SETTING + script, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.returncode) == (said, 0), done.stderr
