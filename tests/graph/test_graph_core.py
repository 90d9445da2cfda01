"""The core of the task-graph runtime beyond its test programs: the long stress run, the interleavings with counts,
and the thread sanitizer. The programs themselves also run, plain and under other sanitizers, in test_native_builds.py.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from native_build import GCC, THREAD, BuildKind, build

PROGRAMS = [
    "test_graph_pool",
    "test_graph_replay",
    "test_graph_replay_faults",
    "test_graph_reclaim",
    "test_graph_readiness",
    "test_graph_faults",
    "test_graph_edges",
]
POLICIES = 3


def run(kind: BuildKind, program: str, *arguments: str) -> str:
    path = build(kind, program) / "tests" / program
    environment = {**os.environ, **dict(kind.environment)}
    done = subprocess.run([path, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{program}:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.mark.native_build
@pytest.mark.timeout(1800)
def test_random_tasks_under_every_policy(tried):
    """A million per policy with WHET_ALL_BUILDS, as in `make soak`."""
    tasks = 1_000_000 if os.environ.get("WHET_ALL_BUILDS") else 200_000
    told = run(GCC, "test_graph_stress", str(tasks), "20261115")
    assert [int(count) for count in re.findall(r": (\d+) tasks in", told)] == [tasks] * POLICIES
    tried("random tasks", POLICIES * tasks)


@pytest.mark.native_build
@pytest.mark.timeout(1800)
def test_interleavings_and_weakened_orders(tried):
    told = run(GCC, "test_graph_interleave")
    caught, missed = map(int, re.search(r"memory orders: (\d+) weakenings caught, (\d+) not", told).groups())
    assert missed == 0
    assert caught >= told.count("(explained)") + 20
    tried("planted faults", caught)
    tried("interleavings", int(re.search(r"interleavings: (\d+) schedules", told).group(1)))


@pytest.mark.native_build
@pytest.mark.timeout(1800)
def test_thread_sanitizer(tried):
    told = run(THREAD, "test_graph_stress", "20000", "5")
    tried("random tasks", POLICIES * 20_000)
    assert "checks held" in told
    for program in PROGRAMS:
        assert "checks held" in run(THREAD, program)
