"""One submission after another from Python: what is held meanwhile, which thread runs bodies, what they are told."""

from __future__ import annotations

import ctypes
import gc
import inspect
import itertools
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from whet.graph import In, InOut, NativeBody, Out, OutExisting, Runtime, TaskFailed, gather, kernel
from whet.graph.bodies import SIGNATURE
from whet.graph.tensors import Tensor
from whet.graph.workloads.workload import Direction


class Broken(Exception):
    """Can be referred to weakly, so that it is seen when it goes."""


def test_a_program_that_never_waits_does_not_gather_errors():
    raised: list[weakref.ref[Broken]] = []

    def fail() -> None:
        error = Broken()
        raised.append(weakref.ref(error))
        raise error

    with pytest.raises(TaskFailed), Runtime(workers=2) as rt:
        for _ in range(50):
            gather(*[rt.submit(fail) for _ in range(40)])  # nobody keeps the tasks
            while rt.totals()["failed"] < len(raised) or rt.totals()["completed"] < rt.totals()["submitted"]:
                time.sleep(0.001)
        gc.collect()
        assert len(raised) == 2000
        assert 1 <= sum(each() is not None for each in raised) <= 2 + 16
        assert rt._native.errors_held <= 2 + 16


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_first_error_has_its_cause_however_many_fail_at_once(workers):
    def fail(number: int) -> None:
        raise ValueError(f"body {number}")

    with Runtime(workers=workers) as rt:
        for _ in range(30):
            tasks = [rt.submit(fail, n) for n in range(40)]
            with pytest.raises(TaskFailed) as caught:
                rt.wait()
            place = caught.value.task - tasks[0].id
            assert str(caught.value.__cause__) == f"body {place}"
            assert rt._native.errors_held == 0
            assert all(str(task.exception().__cause__) == f"body {n}" for n, task in enumerate(tasks))


def test_the_traceback_begins_in_the_body():
    def inner() -> None:
        raise Broken

    def body() -> None:
        inner()

    with pytest.raises(TaskFailed), Runtime(workers=1) as rt:
        error = rt.submit(body).exception()
        trace = error.__cause__.__traceback__
        assert [trace.tb_frame.f_code, trace.tb_next.tb_frame.f_code] == [body.__code__, inner.__code__]


def test_a_worker_keeps_what_is_local_to_its_thread():
    local = threading.local()

    def count() -> tuple[int, int]:
        local.count = getattr(local, "count", 0) + 1
        return threading.get_ident(), local.count

    with Runtime(workers=2, submitter_helps=False) as rt:
        seen = [rt.submit(count).result() for _ in range(20)]
    assert len({thread for thread, _ in seen}) == 1
    assert [number for _, number in seen] == list(range(1, 21))


def test_other_threads_run_between_bodies():
    """A thread that runs one body after another keeps the interpreter lock for some of them, not for ever."""
    turns = 0
    over = threading.Event()

    def spin() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0)

    other = threading.Thread(target=spin)
    with Runtime(workers=2) as rt:
        other.start()
        before = turns
        for _ in range(20):
            tasks = [rt.submit(len, "abc") for _ in range(500)]
            rt.wait()
            assert {task.result() for task in tasks} == {3}
        over.set()
        other.join()
        assert turns > before


class Heart(threading.Thread):
    """Beats while it is let: a thread of Python beside those of the runtime."""

    def __init__(self, pause_s: float) -> None:
        super().__init__()
        self.pause_s = pause_s
        self.beats: list[int] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            self.beats.append(time.perf_counter_ns())
            time.sleep(self.pause_s)

    def between(self, begin: int, end: int) -> list[int]:
        return [at for at in self.beats if begin < at < end]


def test_bodies_that_are_native_functions_let_others_in_between():
    """`sum` looks at nobody while it runs; between two of them others get their turn."""
    long = list(range(2_000_000))
    heart = Heart(0)
    with Runtime(workers=2, submitter_helps=False) as rt:
        heart.start()
        first = rt.submit(time.perf_counter_ns)
        for _ in range(20):
            rt.submit(sum, long)
        last = rt.submit(time.perf_counter_ns)
        rt.wait()
        heart.over.set()
        heart.join()
    begin, end = first.result(), last.result()
    apart = (end - begin) // 60
    turns = [at for at, before in itertools.pairwise(heart.between(begin, end)[::-1]) if at - before > apart]
    assert len(turns) >= 3


def test_native_bodies_run_without_the_lock_between_python_ones():
    """A native body on the thread that has just run a Python one must not keep everybody else from running."""
    nap = np.array([150_000_000], np.uint64)
    word = np.zeros(1)
    heart = Heart(0.0005)
    with Runtime(workers=2, submitter_helps=False) as rt:
        heart.start()
        stamps = []
        for _ in range(4):
            stamps.append(rt.submit(lambda w: time.perf_counter_ns(), InOut(word)))
            rt.submit(kernel("spin").with_user(nap), InOut(word))
        rt.wait()
        heart.over.set()
        heart.join()
    assert len(heart.between(stamps[0].result(), stamps[-1].result())) >= 12


def test_many_arguments_of_every_kind():
    arrays = [np.full(3, float(n)) for n in range(11)]
    with Runtime(workers=2) as rt:
        earlier = rt.submit(lambda: "earlier")
        task = rt.submit(
            lambda *given: [g.sum() if isinstance(g, np.ndarray) else g for g in given],
            *[In(a) for a in arrays],
            earlier,
            "text",
            None,
            Out(2),
            after=(each for each in [earlier]),
            name="many",
        )
        values = task.result()
        assert values[:11] == [3.0 * n for n in range(11)]
        assert values[11:14] == ["earlier", "text", None]
        assert task.name == "many" and len(task.outputs) == 1 and task.outputs[0].shape == (2,)


def test_a_native_body_sees_all_its_words():
    words: list[float] = []

    @SIGNATURE
    def body(tensors, scalars, user):
        words.extend(scalars[at] for at in range(9))
        words.append(ctypes.cast(tensors[5], ctypes.POINTER(ctypes.c_double))[0])
        return 0

    arrays = [np.full(1, float(n)) for n in range(6)]
    with Runtime(workers=1) as rt:
        rt.submit(
            body, *[In(a) for a in arrays], 1, -1, 2**64 - 1, 1.5, True, np.int8(-2), np.float32(0.5), 0, 7
        ).wait()
    as_double = np.array([1.5, 0.5]).view(np.uint64).tolist()
    assert words == [1, 2**64 - 1, 2**64 - 1, as_double[0], 1, 2**64 - 2, as_double[1], 0, 7, 5.0]


def test_arrays_live_until_the_native_task_is_done_and_not_much_longer():
    with Runtime(workers=2) as rt:
        held = []
        for _ in range(500):
            array = np.zeros(4)
            held.append(weakref.ref(array))
            rt.submit(kernel("empty"), InOut(array))
            del array
        rt.wait()
        assert not any(each() is not None for each in held)


def test_submissions_leave_no_references_behind():
    def body(view, word):
        return word

    array = np.zeros(8)
    bodies = (body, kernel("empty"), NativeBody("own", kernel("empty").address))
    with Runtime(workers=2) as rt:
        for each in bodies:
            rt.submit(each, In(array), 1.5).wait()
        gc.collect()
        before = [sys.getrefcount(each) for each in (array, *bodies)]
        for each in bodies:
            for _ in range(300):
                task = rt.submit(each, In(array[2:]), 1.5, name="again")
            with pytest.raises(TypeError):
                rt.submit(each, nonsense=1)
            with pytest.raises(Exception, match="not a list of tasks"):
                rt.submit(each, In(array), after=3)
        rt.wait()
        del task
        gc.collect()
        assert [sys.getrefcount(each) for each in (array, *bodies)] == before


def test_tensors_say_what_they_are():
    array = np.zeros(3)
    assert [t.direction for t in (In(array), InOut(array), OutExisting(array), Out(3))] == [
        Direction.IN,
        Direction.INOUT,
        Direction.OUT_EXISTING,
        Direction.OUT,
    ]
    assert In(array).array is array and In(array).shape == () and In(array).dtype is None
    made = Out((2, 3), np.float32)
    assert (made.array, made.shape, made.dtype, made.nbytes) == (None, (2, 3), np.dtype(np.float32), 24)
    for wrong in ((9,), (Direction.IN,), (Direction.OUT, array), (Direction.IN, [1.0])):
        with pytest.raises((TypeError, ValueError)):
            Tensor(*wrong)


def test_the_signature_is_told():
    assert "after=()" in str(inspect.signature(Runtime.submit))
