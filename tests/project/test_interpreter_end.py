"""Threads of a user's that are inside of an engine when the main thread returns: the process ends, and ends well."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

THREADS = {
    "graph": """
        from whet.graph import Runtime, kernel
        runtime = Runtime(workers=1)
        def use():
            runtime.submit(kernel("empty")).wait()
        """,
    "callbacks": """
        from whet.graph import Runtime
        runtime = Runtime(workers=1)
        def use():
            runtime.submit(lambda: None).add_done_callback(lambda task: None)
            time.sleep(0.0005)
        """,
    "sum": """
        from whet.msm import msm
        points, scalars = [(1, 2)] * 40, list(range(1, 41))
        def use():
            msm(points, scalars)
        """,
    "sum with a callback": """
        from whet.msm import Engine
        engine = Engine([(1, 2)] * 3000, variant="pippenger")
        scalars = list(range(1, 3001))
        def use():
            engine(scalars, progress=lambda share: None)
        """,
    "points": """
        from whet.msm.inputs import points_from_logs, uniform, generator
        logs = uniform(generator(1, "end"), 20)
        def use():
            points_from_logs(logs)
        """,
    "decode": """
        from whet.decode import Model
        model = Model.random(seed=7)
        def use():
            model.generate([3, 1, 4], 3)
        """,
}
ENDS = 4  # each at another moment


LOOP = """
def loop():
    while True:
        use()

use()
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.05)
"""


@pytest.mark.parametrize("what", THREADS)
def test_the_interpreter_ends_while_threads_are_inside(what):
    script = "import threading, time\n" + textwrap.dedent(THREADS[what]) + LOOP
    for end in range(ENDS):
        words = [sys.executable, "-c", f"{script}time.sleep({end} * 0.0017)"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-2000:]
