"""`Runtime.map`: every row of every argument reaches its task, natively or one by one, under the rules of `submit`."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from whet.errors import BadInput
from whet.graph import (
    POLICIES,
    SIGNATURE,
    In,
    InOut,
    Out,
    OutExisting,
    Reads,
    Runtime,
    TaskCancelled,
    TaskFailed,
    Updates,
    kernel,
    task,
)

DOUBLES = ctypes.POINTER(ctypes.c_double)


@SIGNATURE
def axpy(tensors, scalars, user):
    """target[0:width] += factor * source[0:width]; scalars: width, then the factor as an integer."""
    source, target = ctypes.cast(tensors[0], DOUBLES), ctypes.cast(tensors[1], DOUBLES)
    for i in range(scalars[0]):
        target[i] += scalars[1] * source[i]
    return 0


@SIGNATURE
def fails_at_three(tensors, scalars, user):
    return 9 if scalars[0] == 3 else 0


def add_rows(source, target, width, factor):
    target += factor * source


@pytest.fixture(params=POLICIES)
def rt(request):
    with Runtime(policy=request.param, workers=2, window=64) as runtime:
        yield runtime


def is_batch(group) -> bool:
    """Whether the group went in as one batch, which has no Python call per task."""
    return group._task.__name__ == "<lambda>"


@pytest.mark.parametrize("body", [axpy, add_rows], ids=["native", "python"])
def test_rows_reach_their_tasks(rt, body):
    source, target = np.arange(1200.0).reshape(300, 4), np.ones((300, 4))
    factors = np.arange(300)
    group = rt.map(body, In(source), InOut(target), 4, factors, name="rows")
    assert is_batch(group) == (body is axpy) and len(group) == 300 and group[7].name == "rows"
    assert group.results(60) == [None] * 300 and group.progress() == (300, 300, 0, 0)
    np.testing.assert_array_equal(target, 1 + factors[:, None] * source)


def test_dependencies_of_rows_are_inferred(rt):
    """A second map over the same rows, a task before and a task after: every order has another answer."""
    x, ones = np.zeros((200, 3)), np.ones((200, 3))

    def begin(a):
        a[:] = 5.0

    def double(a):
        a *= 2

    rt.submit(begin, InOut(x))
    first = rt.map(axpy, In(ones), InOut(x), 3, 1)
    second = rt.map(double, InOut(x))
    third = rt.map(axpy, In(x[::-1][::-1]), InOut(ones), 3, 1)
    total = rt.submit(lambda a, b: (float(a.sum()), float(b.sum())), In(x), In(ones))
    assert total.result(60) == (12.0 * 600, 13.0 * 600)
    assert is_batch(first) and not is_batch(second) and is_batch(third)


def test_views_with_gaps_and_lists_of_arrays(rt):
    whole = np.zeros((40, 6, 8))
    source = np.arange(40 * 3.0).reshape(40, 3)
    columns = whole[:, 2, :6:2]  # rows with gaps: addresses are right, a batch knows them as runs
    group = rt.map(lambda s, t: t.__iadd__(s) is None, In(source), InOut(columns))
    group.wait()
    np.testing.assert_array_equal(whole[:, 2, 0:6:2], source)
    blocks = np.zeros((40, 6, 8))[:, 1:5, 2:6]
    assert is_batch(rt.map(axpy, In(blocks), InOut(blocks), 0, 0))
    arrays = [np.full(4, float(n)) for n in range(30)]
    results = [np.zeros(4) for _ in range(30)]
    listed = rt.map(axpy, [In(a) for a in arrays], [InOut(a) for a in results], 4, 2)
    listed.wait()
    assert is_batch(listed) and all((r == 2 * a).all() for r, a in zip(results, arrays, strict=True))


def test_arguments_of_one_kind_are_told_apart(rt):
    """Columns are equal to themselves alone: two of the same direction were compared item by item."""
    a, b = np.ones((30, 4)), np.full((30, 4), 2.0)
    group = rt.map(axpy, InOut(a), InOut(b), 4, 1)
    group.wait()
    assert is_batch(group) and (a == 1).all() and (b == 3).all()


def test_outputs_are_allocated_once_for_all(rt):
    source = np.arange(80.0).reshape(20, 4)

    def negate(a, out):
        out[:] = -a

    group = rt.map(negate, In(source), Out((20, 4)))
    after = rt.submit(lambda a: float(a.sum()), In(group.outputs[0]))
    assert after.result(60) == -source.sum()
    np.testing.assert_array_equal(group.outputs[0], -source)


def test_rows_of_an_output_wait_for_the_task_that_makes_it(rt):
    made = rt.submit(lambda out: out.fill(3.0), Out((50, 4)))
    target = np.zeros((50, 4))
    group = rt.map(axpy, In(made), InOut(target), 4, 1)
    group.wait()
    assert not is_batch(group) and (target == 3.0).all()
    bad = rt.submit(lambda out: 1 / 0, Out((50, 4)))
    with pytest.raises(TaskCancelled):
        rt.map(axpy, In(bad), InOut(target), 4, 1).wait()
    assert (target == 3.0).all()
    with pytest.raises(TaskFailed):
        rt.wait()


def test_a_failure_belongs_to_its_task(rt):
    group = rt.map(fails_at_three, np.arange(10))
    with pytest.raises(TaskFailed) as caught:
        group.results()
    assert caught.value.task == group[3].id and caught.value.status == 9
    assert group.progress() == (10, 10, 1, 0) and group[4].exception() is None
    with pytest.raises(TaskFailed):
        rt.wait()


def test_what_has_not_begun_is_cancelled():
    gate, begun = threading.Event(), threading.Event()
    x = np.zeros((500, 2))

    def hold(a):
        begun.set()
        gate.wait(60)

    with Runtime(workers=2, submitter_helps=False) as rt:
        rt.submit(hold, InOut(x))
        assert begun.wait(60)
        group = rt.map(axpy, In(np.ones((500, 2))), InOut(x), 2, 1)
        assert group.progress() == (0, 500, 0, 0) and not group.done()
        group[:100].cancel()
        gate.set()
        with pytest.raises(TaskCancelled):
            group.wait()
        assert group.progress() == (500, 500, 0, 100) and (x[:100] == 0).all() and (x[100:] == 1).all()
        with pytest.raises(TaskCancelled):
            rt.wait()


def test_two_threads_map_at_once_and_know_their_tasks():
    """The ids of a batch are not consecutive when another thread's come in between."""
    targets = [np.zeros((3000, 2)) for _ in range(2)]
    groups = [None, None]
    with Runtime(workers=2, window=64) as rt:

        def run(me):
            groups[me] = rt.map(kernel("empty"), OutExisting(targets[me]))
            groups[me].wait()

        threads = [threading.Thread(target=run, args=(me,)) for me in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    numbers = np.concatenate([group._ids for group in groups])
    assert sorted(numbers.tolist()) == list(range(6000))


def test_functions_with_annotations_are_mapped():
    @task
    def add(source: Reads, target: Updates, factor: float) -> None:
        target += factor * source

    compiled = pytest.importorskip("numba") and task(numba=True)(loops)
    for function, batch in ((add, False), (compiled, True)):
        source, target = np.arange(60.0).reshape(20, 3), np.zeros((20, 3))
        with Runtime(workers=2) as rt:
            group = rt.map(function, source, target, np.arange(20) * 0.5)
            group.wait()
        assert is_batch(group) == batch
        np.testing.assert_array_equal(target, source * np.arange(20)[:, None] * 0.5)


def loops(source: Reads, target: Updates, factor: float) -> None:
    for i in range(len(source)):
        target[i] += factor * source[i]


def test_misuse_is_typed(rt):
    with pytest.raises(BadInput, match=r"\[2, 3\] rows"):
        rt.map(axpy, In(np.zeros((2, 2))), In(np.zeros((3, 2))))
    with pytest.raises(BadInput, match="no rows"):
        rt.map(axpy, 5)
    with pytest.raises(BadInput, match="without axes"):
        rt.map(axpy, In(np.array(5.0)))
    with pytest.raises(BadInput, match="no direction"):
        rt.map(axpy, np.zeros((2, 2)))
    assert rt.map(axpy, In(np.zeros((0, 2)))).results() == []
    assert rt.map(lambda n: n * n, list(range(5)), after=[]).results() == [0, 1, 4, 9, 16]
    held = rt.submit(lambda: 5)
    assert rt.map(kernel("empty"), np.arange(3), after=[held]).results() == [None] * 3


def test_a_body_maps_itself_in_the_runtime_that_is_open():
    tiles = np.arange(12.0).reshape(6, 2)

    @task
    def total(tile: Reads, out: Updates) -> None:
        out += tile.sum()

    with Runtime(workers=2), Runtime(workers=2) as inner:
        sums = np.zeros((6, 1))
        group = total.map(tiles, sums, name="total")
        group.wait()
        assert sums[:, 0].tolist() == tiles.sum(axis=1).tolist()
        empty = kernel("empty").map(In(tiles), Out((6, 2)), after=[group[0]])
        empty.wait()
        assert [each._runtime for each in (group, empty)] == [inner, inner]
        assert empty.outputs[0].shape == (6, 2)
        with pytest.raises(BadInput, match=r"\[2, 6\] rows"):
            total.map(tiles, np.zeros((2, 1)))
    for body in (total, kernel("empty")):
        with pytest.raises(BadInput, match="no runtime is open"):
            body.map(In(tiles))
