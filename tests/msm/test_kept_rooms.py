"""Memory that a call gave back serves the next one; threads and forks do not mind."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource
from whet import msm
from whet.msm import inputs
from whet._native import curve

points = curve.write_points(inputs.points_from_logs(inputs.logs("random", 4096, 1)))
scalars = inputs.scalars("random", 4096, 2)
counts, answers = [], set()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    answers.add(str(msm.msm(points, scalars, threads=1)))
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
assert len(answers) == 1
print(*counts)
"""

FORKS = """
import os, threading
from whet import msm

points, scalars = [(1, 2)] * 700, list(range(2**130, 2**130 + 700))
want, stop = msm.msm(points, scalars, threads=1), threading.Event()

def repeat():
    while not stop.is_set():
        assert msm.msm(points, scalars, threads=1) == want

threads = [threading.Thread(target=repeat) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(10):
    if (child := os.fork()) == 0:
        os._exit(0 if msm.msm(points, scalars, threads=1) == want else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
"""


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    ).stdout


def test_the_next_call_has_the_memory_of_the_last():
    first, *_, last = map(int, run(FAULTS).split())
    assert first > 200
    assert last < first / 4


def test_a_fork_in_the_middle_of_calls():
    run(FORKS)
