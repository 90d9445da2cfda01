"""Every array of a batch is checked before anything is submitted: a wrong number is BadInput, never a wild access."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from whet._native import graph as native_graph

from whet.errors import BadInput
from whet.graph import Batch, Runtime, workloads

WORK = workloads.make("pa:CaseSmall1")


def changed(field: str, place, value):
    """The workload with one number of one array replaced."""
    array = np.array(getattr(WORK, field))
    if isinstance(place, tuple):
        array[place[0]][place[1]] = value
    else:
        array[place] = value
    return dataclasses.replace(WORK, **{field: array})


WRONG = {
    "a buffer far outside": ("accesses", ("buffer", 3), 10**7),
    "a buffer below the first": ("accesses", ("buffer", 3), -1),
    "a direction that does not exist": ("accesses", ("direction", 2), 9),
    "a negative direction": ("accesses", ("direction", 2), -1),
    "a negative offset": ("accesses", ("offset", 2), -8),
    "an offset beyond the buffer": ("accesses", ("offset", 2), 1 << 50),
    "rows below zero": ("accesses", ("rows", 2), -1),
    "row bytes below zero": ("accesses", ("row_bytes", 2), -4),
    "a region that wraps round": ("accesses", ("row_bytes", 2), (1 << 63) - 1),
    "a stride that wraps round": ("accesses", ("stride", 2), -(1 << 62)),
    "a task out of order": ("accesses", ("task", 5), 0),
    "a task that is not there": ("accesses", ("task", -1), 10**9),
    "a kind without a body": ("kind", 3, 100),
    "a negative kind": ("kind", 3, -1),
    "a buffer of negative size": ("buffer_bytes", 2, -5),
    "a creator that is not there": ("buffer_creator", 2, 10**7),
    "a creator that does not allocate": ("buffer_creator", 2, 1),
    "a dependency on a later task": ("dep_task", 0, 10**6),
    "a dependency below the first": ("dep_task", 0, -3),
    "offsets that go backwards": ("dep_start", 5, 1 << 40),
    "offsets below zero": ("dep_start", 1, -1),
    "offsets that do not begin at zero": ("dep_start", 0, 1),
    "a scope that ends before it begins": ("scope_close", 0, 3),
    "a negative number of scopes": ("scope_open", 0, -2),
}


@pytest.mark.parametrize("dependencies", ["inferred", "given", "both"])
@pytest.mark.parametrize("what", WRONG)
def test_a_batch_does_not_validate_its_arrays(what, dependencies, tried):
    with Runtime(workers=2) as rt:
        with pytest.raises(BadInput) as caught:
            Batch(changed(*WRONG[what]), dependencies=dependencies).submit(rt)
        assert str(caught.value)
        assert rt.totals()["submitted"] == 0
        Batch(WORK, dependencies=dependencies).submit(rt)
        rt.wait()
        assert rt.totals()["completed"] == WORK.tasks
    tried("malformed inputs")


SHORT = ["kind", "buffer_bytes", "buffer_creator", "dep_start", "dep_task", "scope_open", "scope_close"]


@pytest.mark.parametrize("field", SHORT)
def test_an_array_of_a_batch_is_too_short(field, tried):
    for wrong in (getattr(WORK, field)[:-1], getattr(WORK, field).reshape(1, -1), np.zeros(0)):
        with pytest.raises(BadInput), Runtime(workers=1) as rt:
            Batch(dataclasses.replace(WORK, **{field: wrong}), dependencies="both").submit(rt)
        tried("malformed inputs")


@pytest.mark.parametrize(
    "starts", [[0, 5, 3], [1, 2, 3], [0, -1, 3], [0, 1 << 60, 3], [0, 1, 2], [0, 1], [0.0, 1.0, 3.0]]
)
def test_scalars_of_a_batch_do_not_fit_the_tasks(starts, tried):
    work = workloads.make("chain", tasks=2)
    with pytest.raises(BadInput), Runtime(workers=1) as rt:
        Batch(work, scalars=(np.arange(3, dtype=np.uint64), np.array(starts))).submit(rt)
    tried("malformed inputs")


def test_a_batch_does_not_follow_arrays_that_change_later():
    work = changed("kind", 0, WORK.kind[0])
    batch = Batch(work)
    work.kind[:] = 120
    work.accesses["buffer"] = 10**8
    work.buffer_creator[:] = 10**8
    with Runtime(workers=2) as rt:
        batch.submit(rt)
        rt.wait()
        assert rt.totals()["completed"] == work.tasks


GOOD_ROW = (1 << 44, 1024, 0, 64, 1, 64, 64, 2)  # address, bytes, offset, step, runs, bytes per run, distance, InOut


def rows_of(tasks: int, *changed: tuple[int, int], words: int = 1) -> object:
    row = list(GOOD_ROW)
    for place, value in changed:
        row[place] = value
    return native_graph.Rows(tasks, np.array([[row]], np.int64), np.zeros((words, 1), np.uint64))


def test_rows_within_their_buffer_are_taken(tried):
    rows_of(16)
    rows_of(4, (4, 4), (5, 16), (6, 64))
    rows_of(1, (3, 2**62))


@pytest.mark.parametrize(
    ("tasks", "changed"),
    [
        (17, ()),  # one row too many
        (0, ()),
        (16, ((2, 1),)),
        (16, ((5, 65),)),
        (2, ((3, 2**62),)),
        (16, ((3, -64),)),
        (16, ((2, -1),)),
        (1, ((5, -1),)),
        (1, ((6, -1), (4, 2))),
        (1, ((4, 0),)),
        (1, ((4, 2**62), (6, 2**62))),
        (1, ((7, 1),)),  # Out, which the runtime would allocate
        (1, ((7, 5),)),
        (1, ((7, -1),)),
    ],
)
def test_rows_that_reach_beyond_are_refused(tasks, changed, tried):
    with pytest.raises(native_graph.StatusError):
        rows_of(tasks, *changed)
    tried("malformed inputs", 1)


def test_rows_of_another_number_of_tasks_are_refused():
    with pytest.raises(native_graph.StatusError):
        rows_of(16, words=15)
    with pytest.raises(native_graph.StatusError):
        native_graph.Rows(3, np.array([[GOOD_ROW]] * 2, np.int64), np.zeros((1, 0), np.uint64))
