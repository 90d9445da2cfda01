"""The pytest plugin: verdicts as assertions, one trial at a time, a table at the end, no terminal needed."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from subprocess import DEVNULL, run
from sys import executable
from textwrap import dedent

import pytest

from whet.evidence import alone

KERNELS = """
    import numpy as np
    from whet.evidence.budgets import BUDGETS, custom

    SHORT = custom(BUDGETS["quick"], rounds=3, seconds=60, blocks=5)

    def make(n, rng):
        return rng.integers(-1000, 1000, n)

    def slow(x):
        for _ in range(40):
            total = np.sort(x).sum()
        return total

    def fast(x):
        return x.sum()

    def forgets(x):
        return x[: len(x) // 4 * 4].sum()

    def exact(x):
        return sum(x.tolist())

    TASK = {"inputs": make, "oracle": exact, "sizes": {"n": 4095}, "budget": SHORT}

    def test_fast(ab):
        assert ab(slow, fast, **TASK).assert_faster(by=0.1).candidate == "fast"

    def test_slow(ab):
        ab(fast, slow, **TASK).assert_faster()

    def test_wrong(ab):
        ab(slow, forgets, **TASK).assert_faster()
"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "test_kernels.py").write_text(dedent(KERNELS))

    def start(*words):
        settings = {**os.environ, "WHET_STORE": str(tmp_path / "kept" / "runs.sqlite"), "TERM": "dumb"}
        settings.pop("PYTEST_ADDOPTS", None)
        command = [executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", *words]
        return run(command, cwd=tmp_path, env=settings, stdin=DEVNULL, capture_output=True, text=True, check=False)

    return start


@pytest.mark.alone
def test_verdicts_are_assertions_on_two_workers(suite, tmp_path):
    done = suite("-n", "2", "--whet-report", "pages")
    out = done.stdout
    assert "2 failed, 1 passed" in out, out + done.stderr
    assert "AssertionError: slow is not FASTER: SLOWER" in out
    assert "forgets is refused: wrong output at n=1 profile=random" in out and "it fails again: whet check" in out
    table = out[out.index("= whet =") :].split("short test summary")[0]
    assert "time per call" in table and "FASTER" in table and "SLOWER" in table
    assert "REFUSED: wrong output at n=1" in table
    assert len(list((tmp_path / "pages").iterdir())) == 3


def test_nothing_is_imported_or_shown_without_need(tmp_path):
    (tmp_path / "test_none.py").write_text("import sys\ndef test_none(): assert 'whet.api.calls' not in sys.modules\n")
    words = ["-p", "no:cacheprovider", "-c", os.devnull, "-q"]
    done = run([executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "= whet =" not in done.stdout


def _hold(path: str) -> None:
    with alone.alone(), Path(path).open("a") as log:
        log.write("in ")
        log.flush()
        time.sleep(0.05)
        log.write("out ")


def test_never_two_trials_at_a_time(tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    several = [context.Process(target=_hold, args=(str(log),)) for _ in range(4)]
    for one in several:
        one.start()
    for one in several:
        one.join(120)
    assert log.read_text().split() == ["in", "out"] * 4


def test_a_holder_that_never_ends_is_told(monkeypatch, tmp_path):
    from whet.errors import DeviceTimeout

    monkeypatch.setattr(alone.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(alone, "WAIT_S", 0.1)
    with alone.alone(), pytest.raises(DeviceTimeout, match="another trial has held"), alone.alone():
        pass
