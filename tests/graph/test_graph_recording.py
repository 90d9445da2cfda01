"""Recorded graphs: a replay does what the same submissions would do, on the recorded arrays and on others."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
import weakref

import numpy as np
import pytest

from whet.errors import BadInput
from whet.graph import (
    SIGNATURE,
    Batch,
    GraphTimeout,
    In,
    InOut,
    Out,
    OutExisting,
    Runtime,
    TaskFailed,
    kernel,
    recording,
    workloads,
)


@pytest.fixture
def rt():
    with Runtime(workers=2) as runtime:
        yield runtime


def mix(source, target, factor):
    target *= 0.5
    target += factor * source


@pytest.mark.parametrize("seed", range(6))
def test_replays_do_what_numpy_does(rt, seed):
    """Random tasks on strided views of two arrays, then replays on the same arrays, on one other and on two others."""
    generator = np.random.default_rng(seed)
    a, b = generator.random((9, 8)), generator.random((9, 8))
    steps = []
    for _ in range(60):
        low = int(generator.integers(0, 7))
        steps.append((low, int(generator.integers(low, 7)), bool(generator.integers(2)), float(generator.random())))

    def cut(p, q, low, high, swap):
        first, second = (p, q) if swap else (q, p)
        return first[low : low + 2, ::2], second[high : high + 2, 1::2]

    def expect(p, q):
        for low, high, swap, factor in steps:
            mix(*cut(p, q, low, high, swap), factor)

    mine, yours = a.copy(), b.copy()
    with rt.record() as graph:
        for low, high, swap, factor in steps:
            source, target = cut(a, b, low, high, swap)
            rt.submit(mix, In(source), InOut(target), factor)
    expect(mine, yours)
    np.testing.assert_array_equal(a, mine)
    np.testing.assert_array_equal(b, yours)
    assert graph.tasks == 60
    c, d = generator.random((9, 8)), generator.random((9, 8))
    for pairs, (p, q) in (((), (a, b)), ([(a, c)], (c, b)), ((), (a, b)), ([(a, d), (b, c)], (d, c)), ((), (a, b))):
        before = p.copy(), q.copy()
        graph.replay(rebind=pairs, workers=2)
        expect(*before)
        np.testing.assert_array_equal(p, before[0])
        np.testing.assert_array_equal(q, before[1])


def test_native_bodies_get_the_other_addresses(rt):
    n = 4
    a, b, c = (np.arange(16, dtype=np.float32).reshape(n, n) + k for k in range(3))
    with rt.record() as graph:
        rt.submit(axpy, In(a), InOut(b), 16, 2)
        rt.submit(axpy, In(b), InOut(c), 16, 3)
    wanted_b = np.arange(16, dtype=np.float32).reshape(n, n) + 1 + 2 * a
    wanted_c = np.arange(16, dtype=np.float32).reshape(n, n) + 2 + 3 * wanted_b
    np.testing.assert_array_equal(c, wanted_c)
    x, y = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    graph.replay(rebind=[(a, x), (c, y)])
    np.testing.assert_array_equal(b, wanted_b + 2)
    np.testing.assert_array_equal(y, 3 * (wanted_b + 2))
    np.testing.assert_array_equal(c, wanted_c)
    assert graph.edges == 1


@SIGNATURE
def axpy(tensors, scalars, user):
    source = ctypes.cast(tensors[0], ctypes.POINTER(ctypes.c_float))
    target = ctypes.cast(tensors[1], ctypes.POINTER(ctypes.c_float))
    for i in range(scalars[0]):
        target[i] += scalars[1] * source[i]
    return 0


def test_edges_do_not_depend_on_how_fast_the_tasks_were(rt):
    """Each task is done before the next is submitted; the edges are there all the same, and no others."""
    matrix = np.zeros((8, 8))
    with rt.record() as graph:
        for _ in range(2):
            for tile in range(4):
                rt.submit(lambda t: t.__iadd__(1) is None, InOut(matrix[:, 2 * tile : 2 * tile + 2])).result()
        rt.submit(lambda m: None, In(matrix))
        given = rt.submit(kernel("empty"))
        rt.submit(kernel("empty"), after=[given])
    assert graph.edges == 4 + 4 + 1
    for _ in range(20):
        graph.replay(workers=2)
    assert (matrix == 42).all()


def test_outputs_and_results_pass_from_task_to_task(rt):
    x = np.arange(4.0)
    earlier = rt.submit(lambda: 100.0)
    with rt.record() as graph:
        doubled = rt.submit(lambda a, out: np.multiply(a, 2, out=out), In(x), Out(4))
        total = rt.submit(lambda a: float(a.sum()), In(doubled))
        more = rt.submit(lambda value, old: value + old, total, earlier)
    assert more.result() == 112.0
    graph.replay(rebind=[(x, np.ones(4))])
    assert graph.value(total) == 8.0 and graph.value(more) == 108.0
    assert doubled.outputs[0].tolist() == [2.0] * 4
    with pytest.raises(BadInput, match="not recorded here"):
        graph.value(earlier)


def test_views_of_other_orders_are_rebound(rt):
    a = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    seen = []
    with rt.record() as graph:
        rt.submit(lambda v: seen.append(v.tolist()), In(a[1, ::2]))
        rt.submit(lambda v: seen.append(v.tolist()), In(a[::-1, 3]))
    b = np.asfortranarray(a * 10)
    graph.replay(rebind=[(a, b)], workers=1)
    assert seen[2:] == [b[1, ::2].tolist(), b[::-1, 3].tolist()]


def test_what_cannot_be_rebound_is_typed_and_changes_nothing(rt):
    a, b, other = np.zeros((4, 4)), np.zeros(4), np.zeros((4, 4))
    with rt.record() as graph:
        rt.submit(lambda v: v.__iadd__(1) is None, InOut(a))
        rt.submit(lambda v, w: None, In(a[:2]), OutExisting(b))
    frozen = np.zeros((4, 4))
    frozen.flags.writeable = False
    wrong = {
        "shape": (a, np.zeros((4, 5))),
        "type": (a, np.zeros((4, 4), np.int64)),
        "strides": (a, np.asfortranarray(np.zeros((4, 4)))),
        "read-only": (a, frozen),
        "not used": (other, np.zeros((4, 4))),
        "gaps": (a[:, :2], np.zeros((4, 4))[:, :2]),
        "memory beside it": (a[:2], np.zeros((2, 4))),
        "shares memory": (b, a[0]),
        "pairs": 5,
    }
    for match, pair in wrong.items():
        with pytest.raises(BadInput, match=match):
            graph.replay(rebind=[pair])
    with pytest.raises(BadInput, match="overlaps an earlier"):
        graph.replay(rebind=[(a, other), (a, np.zeros((4, 4)))])
    with pytest.raises(BadInput, match="shares memory"):
        graph.replay(rebind=[(a, other), (b, other[1])])
    graph.replay()
    assert (a == 2).all() and not other.any()


def test_the_recording_belongs_to_its_block_and_its_thread(rt):
    with rt.record() as graph:
        with pytest.raises(BadInput, match="recording already"), rt.record():
            pass
        with pytest.raises(BadInput, match="has not ended"):
            graph.replay()
        with pytest.raises(BadInput, match="cannot be recorded"):
            Batch(workloads.make("pa:CaseSmall1")).submit(rt)
        thread = threading.Thread(target=lambda: rt.submit(kernel("empty")))
        thread.start()
        thread.join()
        mapped = np.zeros((5, 2))
        rt.map(lambda row, n: row.fill(n), OutExisting(mapped), np.arange(5))
    assert graph.tasks == 5
    mapped[:] = 0
    graph.replay()
    assert mapped[:, 0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError), rt.record() as left:
        raise ZeroDivisionError
    with pytest.raises(BadInput, match="left by an error"):
        left.replay()
    with rt.record() as empty:
        pass
    assert empty.replay().executed == 0


def test_failures_name_the_task(rt):
    state = {"bad": False}

    def body():
        if state["bad"]:
            raise ValueError("this time")

    with rt.record() as graph:
        first = rt.submit(body, name="moody")
        rt.submit(kernel("empty"), after=[first])
    state["bad"] = True
    with pytest.raises(TaskFailed, match=r"moody\[0\].*this time.*1 dependents"):
        graph.replay()
    state["bad"] = False
    assert graph.replay().executed == 2
    with pytest.raises(TaskFailed), rt.record():
        rt.submit(lambda: 1 / 0)
    with pytest.raises(TaskFailed):
        rt.wait()


def test_a_recording_that_nobody_holds_is_freed(rt):
    a = np.zeros(1000)
    with rt.record() as graph:
        rt.submit(lambda v: None, In(a))
    graph.replay()
    held = weakref.ref(graph), weakref.ref(a)
    rt.wait()
    del graph, a
    gc.collect()
    assert [each() for each in held] == [None, None]


def test_arrays_are_not_changed_under_a_body_that_was_left(rt):
    gate = threading.Event()
    gate.set()
    a = np.zeros(2)
    with rt.record() as graph:
        rt.submit(lambda v: gate.wait(60), In(a))
    gate.clear()
    with pytest.raises(GraphTimeout):
        graph.replay(timeout_s=0.1)
    with pytest.raises(BadInput, match="may still use"):
        graph.replay(rebind=[(a, np.ones(2))])
    gate.set()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            graph.replay()
            break
        except Exception:
            time.sleep(0.01)
    graph.replay(rebind=[(a, np.ones(2))])


def test_arrays_that_change_places_are_bound_once_each(monkeypatch):
    """A stencil swaps its two fields at every step: making every view again took longer than the bodies."""
    a, b, c = (np.full(4, value) for value in (1.0, 2.0, 3.0))
    with Runtime(workers=1) as rt:
        with rt.record() as graph:
            rt.submit(lambda source, target: np.add(source, 1, out=target), In(a), OutExisting(b))
        swap = [(a, b), (b, a)]
        views = []
        moved = recording._moved
        monkeypatch.setattr(recording, "_moved", lambda tensor, pair: (views.append(pair), moved(tensor, pair))[1])
        for _ in range(5):
            graph.replay(rebind=swap)
            graph.replay()
        assert len(views) == 2
        np.testing.assert_array_equal(b, 12.0)
        np.testing.assert_array_equal(a, 11.0)
        graph.replay(rebind=[(b, c)])
        graph.replay(rebind=swap)
        graph.replay(rebind=[(b, c)])
        np.testing.assert_array_equal(a, 13.0)
        np.testing.assert_array_equal(c, 14.0)
