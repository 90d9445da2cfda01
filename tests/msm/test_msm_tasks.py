"""The tasks of a call: windows in slices for many threads, the same sum whatever they are, and the trace of it all."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from whet.graph.simulate import simulate
from whet.msm import inputs as make
from whet.msm.affine import STAGES, Affine
from whet.msm.trace import Step, as_graph

N = 1 << 13


@pytest.fixture(scope="module")
def engine():
    return Affine.prepared(make.points_from_logs(make.logs("random", N, 1)), threads=1)


@pytest.fixture(scope="module")
def scalars():
    return make.scalars("random", N, 2)


def test_windows_are_cut_for_many_threads_and_the_sum_is_the_same(engine, scalars):
    want, work = engine.run(scalars, 0)
    assert (work["slices"], work["row_slices"]) == (1, 1)
    for cut_for in (2, 16, 64):
        limbs, work, steps = engine.trace(scalars, cut_for=cut_for)
        assert np.array_equal(limbs, want)
        sort = {step.name: len(step.task_ns) for step in steps if step.stage == "sort" and step.name}
        windows, slices = work["windows_at_once"], work["slices"]
        if cut_for == 2:
            assert sort == {"sort": windows}
        else:
            assert slices > 1
            assert sort == dict.fromkeys(("count", "merge", "place"), windows * slices) | {"lay out": windows}
            assert windows * slices >= 2 * min(cut_for, 16)


def test_a_trace_has_every_stage_and_all_of_the_time(engine, scalars):
    begun_ns = time.process_time_ns()
    _, work, steps = engine.trace(scalars, cut_for=16)
    process_ns = time.process_time_ns() - begun_ns
    assert list(dict.fromkeys(step.stage for step in steps)) == list(STAGES)
    tasks = [task for step in steps for task in step.tasks()]
    places = {(task.window, task.slice) for task in tasks if task.step == "count" and task.stage == "sort"}
    assert places == {(w, s) for w in range(work["windows"]) for s in range(work["slices"])}
    assert all(task.window == task.slice == -1 for task in tasks if task.step == "add")
    # One thread: what its tasks and the gaps between them took is what the process took.
    taken_ns = sum(task.taken_ns for task in tasks)
    assert 0.6 < taken_ns / process_ns < 1.05
    graph = as_graph(steps)
    one, many = simulate(graph, 1), simulate(graph, 16)
    assert one.span_ns == one.work_ns == taken_ns
    assert many.speed_up > 3


def test_steps_as_a_graph():
    graph = as_graph(
        [Step("scan", "scan", 0, 0, (3, 2)), Step("scan", "", 0, 0, (1,)), Step("sort", "sort", 4, 1, (5, 4))]
    )
    assert [simulate(graph, cores).span_ns for cores in (1, 2)] == [15, 9]
    step = Step("sort", "count", 4, 2, (1, 2, 3, 4))
    assert [(task.window, task.slice) for task in step.tasks()] == [(4, 0), (4, 1), (5, 0), (5, 1)]


def test_counters_of_slices_are_in_the_map_and_yield_to_a_budget():
    points = make.points_from_logs(make.logs("random", N, 1))
    engine, plain = Affine.prepared(points, threads=16), Affine.prepared(points, threads=2)
    scalars = make.scalars("random", N, 2)

    def counters(of: Affine) -> int:
        return {row.name: row.size_bytes for row in of.memory_map(N)}["list counters"]

    want, work = engine.run(scalars, 0)
    assert work["slices"] > 1
    assert counters(engine) == (work["slices"] + 1) * counters(plain)
    assert {row.name: row.size_bytes for row in engine.memory_map(N)} == engine.ledger()
    fitting = sum(row.size_bytes for row in engine.memory_map(N))
    engine.set_budget(fitting - 1)
    limbs, work = engine.run(scalars, 0)
    assert np.array_equal(limbs, want)
    assert (work["slices"], counters(engine)) == (1, counters(plain))
    assert sum(engine.ledger().values()) < fitting


def test_a_sum_does_not_load_the_graph():
    program = "import sys, whet.msm; sys.exit('whet.graph' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
