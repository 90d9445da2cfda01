"""The decode kernel's cooperative launch under the thread sanitizer; a barrier that publishes nothing is seen."""

from __future__ import annotations

import os
import subprocess

import pytest

from native_build import THREAD, build

pytestmark = [pytest.mark.native_build, pytest.mark.timeout(1800)]


def race(*words: str) -> subprocess.CompletedProcess[str]:
    program = build(THREAD, "race_decode") / "tests" / "race_decode"
    environment = {**os.environ, **dict(THREAD.environment)}
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)


def test_the_cooperative_launch_has_no_race(tried):
    done = race()
    assert done.returncode == 0 and "checks held" in done.stdout, done.stderr[-4000:]
    tried("native checks", int(done.stdout.split(" checks held")[0].rsplit(maxsplit=1)[-1]))


def test_a_barrier_that_publishes_nothing_is_seen(tried):
    done = race("relaxed")
    assert done.returncode != 0 and "data race" in done.stderr
    tried("planted faults", 1)
