"""Ctrl-C in what takes long besides a sum of the fast engine: it is heard before the work is done.

Each runs in a process of its own and is stopped a tenth of the way, by the processor time that a whole one took.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

LONG = """
import os, signal, sys, threading, time
import numpy as np
from whet.msm import Engine, inputs, msm
few = inputs.points_from_logs(inputs.to_limbs(list(range(1, 501))))

def run(n):
    points, scalars = np.resize(few, (n, 8)), inputs.scalars("random", n, 3)
    return {
        "plain": lambda: msm(points, scalars, points_montgomery=True, variant="plain"),
        "pippenger": lambda: msm(points, scalars, points_montgomery=True, variant="pippenger"),
        "glv": lambda: msm(points, scalars, points_montgomery=True, variant="pippenger:glv=true"),
        "multiples": lambda: Engine(points, montgomery=True, check=False, precompute=16, threads=1).close(),
    }[sys.argv[1]]

whole = run(int(sys.argv[2]))
begun = time.process_time()
whole()
took = time.process_time() - begun
main = threading.main_thread().ident

def interrupt():
    started = time.process_time()
    while time.process_time() - started < took / 10:
        time.sleep(took / 100)
    signal.pthread_kill(main, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
begun = time.process_time()
try:
    whole()
except KeyboardInterrupt:
    print("interrupted", time.process_time() - begun < took / 2)
"""


@pytest.mark.parametrize(
    ("what", "n"), [("plain", 2_000), ("pippenger", 30_000), ("glv", 30_000), ("multiples", 40_000)]
)
def test_ctrl_c_is_heard_before_the_end(what, n, tried):
    done = subprocess.run(
        [sys.executable, "-c", LONG, what, str(n)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.returncode) == ("interrupted True\n", 0), done.stderr
    tried("interrupted calls", 1)


NO_THREADS = """
from whet.errors import DeviceOutOfMemory
from whet.msm import Engine, msm
try:
    Engine([(1, 2)] * 3, threads=200)
except DeviceOutOfMemory as refused:
    assert "200 threads" in refused.cause and "fewer threads" in refused.cure
    print("refused")
print(Engine([(1, 2)] * 3, threads=1)([1, 2, 3]) == msm([(1, 2)], [6]))
"""


def test_threads_that_do_not_start_are_told():
    limit = 1 << 30  # of address space, of which each thread takes eight megabytes
    done = subprocess.run(
        [sys.executable, "-c", NO_THREADS], capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("refused\nTrue\n", 0), done.stderr
