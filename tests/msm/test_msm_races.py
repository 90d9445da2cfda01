"""Calls of the sum at the same time under the thread sanitizer: one engine and several, closed, trimmed and cancelled
meanwhile, called again from inside. Locks that are left out are seen.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from native_build import THREAD, build

pytestmark = [pytest.mark.native_build, pytest.mark.timeout(1800)]


def race(*words: str) -> subprocess.CompletedProcess[str]:
    program = build(THREAD, "race_msm") / "tests" / "race_msm"
    environment = {**os.environ, **dict(THREAD.environment)}
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)


def test_calls_at_the_same_time_have_no_race(tried):
    done = race()
    assert done.returncode == 0 and "checks held" in done.stdout, done.stderr[-4000:]
    tried("native checks", int(done.stdout.split(" checks held")[0].rsplit(maxsplit=1)[-1]))


@pytest.mark.parametrize("fault", ["turn_not_taken", "seat_shared", "trimmed_in_a_call", "closed_without_lock"])
def test_a_lock_that_is_left_out_is_seen(fault, tried):
    for _ in range(5):  # memory that is given back in the middle of a call can end it before the sanitizer looks
        done = race(fault)
        assert done.returncode != 0
        if "data race" in done.stderr:
            break
    else:
        pytest.fail(done.stderr[-4000:])
    tried("planted faults", 1)
