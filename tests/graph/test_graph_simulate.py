"""Recorded graphs on simulated cores, against spans counted by hand."""

from __future__ import annotations

import random

import pytest

from whet.errors import BadInput
from whet.graph.simulate import Timed, simulate


@pytest.mark.parametrize(("cores", "span_ns"), [(1, 21), (2, 11), (3, 9), (4, 9), (64, 9)])
def test_independent_tasks_are_taken_in_order(cores, span_ns):
    """Two cores: 9 + 2 and 5 + 4 + 1, because the 2 goes first; three: 9, 5 + 1 and 4 + 2."""
    told = simulate([Timed(ns) for ns in (9, 5, 4, 2, 1)], cores)
    assert (told.span_ns, told.work_ns, told.critical_ns, told.tasks) == (span_ns, 21, 9, 5)


def test_order_matters_and_nothing_is_put_off():
    """The long task comes last: it starts when the first of the short ones ends."""
    assert simulate([Timed(3), Timed(3), Timed(9)], 2).span_ns == 12


@pytest.mark.parametrize(("cores", "span_ns"), [(1, 23), (2, 12), (3, 11)])
def test_a_task_waits_for_those_before_it(cores, span_ns):
    """A diamond, 1 then 8 and 4 then 2, with a chain of 3 and 5 beside it: one of two cores has 1 + 8 + 2, the other
    3 + 4 + 5.
    """
    graph = [Timed(1), Timed(8, (0,)), Timed(4, (0,)), Timed(2, (1, 2)), Timed(3), Timed(5, (4,))]
    told = simulate(graph, cores)
    assert (told.span_ns, told.critical_ns) == (span_ns, 11)


def test_barriers_make_steps_one_after_the_other():
    step = [Timed(4), Timed(4), Timed(4), Timed(0, (0, 1, 2)), Timed(6, (3,)), Timed(2, (3,))]
    assert [simulate(step, cores).span_ns for cores in (1, 2, 3)] == [20, 14, 10]


def test_no_tasks_take_no_time():
    told = simulate([], 3)
    assert (told.span_ns, told.critical_ns, told.speed_up) == (0, 0, 1.0)


def test_bounds_hold_for_random_graphs():
    """Graham: never below the longest chain or an even share, never above their sum."""
    choose = random.Random(4)
    for _ in range(200):
        graph = [
            Timed(choose.randrange(20), tuple(sorted(choose.sample(range(place), min(place, choose.randrange(3))))))
            for place in range(choose.randrange(1, 40))
        ]
        for cores in (1, 2, 5):
            told = simulate(graph, cores)
            assert max(told.critical_ns, told.work_ns / cores) <= told.span_ns
            assert told.span_ns <= told.work_ns / cores + told.critical_ns
        assert simulate(graph, 1).span_ns == told.work_ns
        assert simulate(graph, 40).span_ns == told.critical_ns


@pytest.mark.parametrize("graph", [[Timed(1, (0,))], [Timed(1, (1,)), Timed(1)], [Timed(1), Timed(1, (-1,))]])
def test_a_task_before_what_it_waits_for_is_refused(graph):
    with pytest.raises(BadInput, match="waits for"):
        simulate(graph, 2)
    with pytest.raises(BadInput, match="cores"):
        simulate([], 0)
