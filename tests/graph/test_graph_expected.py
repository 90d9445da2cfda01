"""What people expect of a task runtime in Python: futures that the standard library takes, tasks that submit tasks,
one task cancelled, memory of others used in place."""

from __future__ import annotations

import array
import concurrent.futures
import ctypes
import threading
import time

import numpy as np
import pytest

from whet.errors import BadInput
from whet.graph import (
    GraphDeadlock,
    In,
    InOut,
    Runtime,
    TaskCancelled,
    TaskFailed,
    as_completed,
    gather,
    kernel,
    task,
)
from whet.graph.functions import Reads, Updates

POLICIES = ("wired", "polling", "hybrid")
NAP = np.array([20_000_000], np.uint64)


def fail() -> None:
    raise ValueError("wrong")


@pytest.mark.parametrize("when", ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION"])
def test_the_standard_library_waits_for_tasks(when):
    with Runtime(workers=2) as rt:
        gate = threading.Event()
        late = rt.submit(gate.wait)
        good, bad = rt.submit(pow, 2, 5), rt.submit(fail)
        if when == "ALL_COMPLETED":
            done, left = concurrent.futures.wait([late, good], timeout=0.05)
            assert late in left
        gate.set()
        done, left = concurrent.futures.wait([late, good, bad], timeout=60, return_when=when)
        assert done and not done & left and done | left == {late, good, bad}
        if when == "ALL_COMPLETED":
            assert not left and late.result() is True and good.result() == 32
        done, left = concurrent.futures.wait({good, late}, timeout=60)
        assert done == {good, late} and not left
        with pytest.raises(TaskFailed, match="wrong"):
            rt.wait()


def test_the_standard_library_yields_tasks_beside_futures_of_its_own():
    with Runtime(workers=2) as rt, concurrent.futures.ThreadPoolExecutor(1) as pool:
        mine = [rt.submit(pow, n, 2) for n in range(30)]
        native = [rt.submit(kernel("empty")) for _ in range(10)]
        theirs = [pool.submit(pow, n, 3) for n in range(10)]
        seen = list(concurrent.futures.as_completed([*mine, *native, *theirs], timeout=60))
        assert len(seen) == 50 and set(seen) == {*mine, *native, *theirs}
        assert [each.result() for each in mine] == [n * n for n in range(30)]


def test_cancelled_tasks_end_the_wait_of_the_standard_library():
    with Runtime(workers=2, submitter_helps=False) as rt:
        gate = threading.Event()
        first = rt.submit(gate.wait)
        second = rt.submit(pow, 1, 1, after=[first])
        waiting = threading.Timer(0.05, second.cancel)
        waiting.start()
        done, _ = concurrent.futures.wait([second], timeout=60)
        assert done == {second} and second.cancelled()
        gate.set()
        with pytest.raises(TaskCancelled):
            rt.wait()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_tasks_submit_tasks(policy, workers):
    leaves: list[int] = []
    with Runtime(policy=policy, workers=workers, window=1024) as rt:

        def split(begin: int, end: int) -> None:
            if end - begin == 1:
                leaves.append(begin)
                return
            middle = (begin + end) // 2
            rt.submit(split, begin, middle)
            rt.submit(split, middle, end)

        rt.submit(split, 0, 200)
        rt.wait()
        assert sorted(leaves) == list(range(200))


def test_a_task_may_return_what_it_submitted_and_what_it_submits_comes_after_it():
    word = np.zeros(1)
    with Runtime(workers=2) as rt:

        def parent(view):
            child = rt.submit(lambda inner: inner.__setitem__(0, inner[0] * 10), InOut(word))
            time.sleep(0.01)
            view[0] += 1  # before the child, which uses the same memory
            return child

        rt.submit(parent, InOut(word)).result().wait()
        assert word[0] == 10


@pytest.mark.parametrize("workers", [1, 2])
def test_a_body_that_fills_the_window_is_told_and_one_that_waits_is_refused(workers):
    with Runtime(workers=workers, window=16) as rt:

        def flood() -> None:
            for _ in range(100):
                rt.submit(None)

        def waits() -> None:
            rt.submit(None).wait()

        error = rt.submit(flood).exception(60)
        assert isinstance(error.__cause__, GraphDeadlock) and error.__cause__.option == "window"
        error = rt.submit(waits).exception(60)
        assert isinstance(error.__cause__, BadInput)
        with pytest.raises(TaskFailed):
            rt.wait()


@pytest.mark.parametrize("policy", POLICIES)
def test_one_native_task_is_cancelled_alone(policy):
    word = np.zeros(1)
    with Runtime(policy=policy, workers=2, submitter_helps=False) as rt:
        gate = threading.Event()
        first = rt.submit(gate.wait)
        second = rt.submit(kernel("empty"), InOut(word), after=[first])
        third = rt.submit(kernel("empty"), In(word))
        other = rt.submit(kernel("empty"), after=[first])
        called: list[object] = []
        second.add_done_callback(called.append)
        assert second.cancel() and second.cancelled() and second.done() and not second.running()
        with pytest.raises(TaskCancelled):
            second.result(timeout=60)
        assert called == [second] and second.cancel()
        gate.set()
        assert other.result(60) is None and not other.cancel() and not first.cancel()
        with pytest.raises(TaskCancelled):
            third.result(60)
        assert list(as_completed([second], timeout=60)) == [second]
        with pytest.raises(TaskCancelled):
            rt.wait()


def test_a_native_body_that_has_begun_is_not_cancelled():
    with Runtime(workers=2, submitter_helps=False) as rt:
        task = rt.submit(kernel("spin").with_user(NAP))
        while not task.running() and not task.done():
            time.sleep(0.0005)
        assert not task.cancel() and task.result(60) is None and not task.cancelled()


def test_cancelling_native_tasks_never_loses_count():
    """What was told to be cancelled did not run, and the rest did: the core counts both."""
    with Runtime(workers=3) as rt:
        told = 0
        for _ in range(100):
            tasks = [rt.submit(kernel("empty")) for _ in range(20)]
            told += sum(each.cancel() for each in tasks[::2])
            gather(*tasks[1::2]).wait()
        while rt.totals()["completed"] < 2000:
            time.sleep(0.001)
        assert rt.totals()["cancelled"] == told
        if told:
            with pytest.raises(TaskCancelled):
                rt.wait()


class Producer:
    """Memory behind DLPack alone, as of a library that is not numpy."""

    def __init__(self, array) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def sources():
    plain = np.zeros(8)
    words = array.array("d", [0.0] * 8)
    raw = (ctypes.c_double * 8)()
    held = bytearray(64)
    behind = np.zeros(8)
    return {
        "memoryview": (memoryview(plain), plain),
        "array.array": (words, np.frombuffer(words)),
        "ctypes": (raw, np.frombuffer(raw)),
        "cast": (memoryview(held).cast("d"), np.frombuffer(held)),
        "dlpack": (Producer(behind), behind),
    }


@pytest.mark.parametrize("kind", list(sources()))
def test_memory_of_others_is_used_in_place_and_tracked(kind):
    given, seen = sources()[kind]
    order: list[str] = []
    with Runtime(workers=3) as rt:

        def write(view):
            time.sleep(0.02)
            view[:] = 7
            order.append("write")

        rt.submit(write, InOut(given))
        total = rt.submit(lambda view: (order.append("read"), view.sum())[1], In(seen[4:]))
        assert total.result(60) == 28.0 and order == ["write", "read"]
        assert rt.submit(lambda view: view.sum(), In(given)).result() == 56.0
    assert seen.tolist() == [7.0] * 8


@pytest.mark.parametrize("given", [[1.0, 2.0], 3.0, "text", None, object(), {"a": 1}], ids=lambda x: type(x).__name__)
def test_what_would_have_to_be_copied_is_refused(given):
    with pytest.raises(BadInput, match="is not a numpy array"):
        In(given)


def test_read_only_memory_of_others_may_only_be_read():
    with Runtime(workers=1) as rt:
        assert rt.submit(lambda view: int(view.sum()), In(memoryview(b"\x01\x02\x03"))).result() == 6
    with pytest.raises(BadInput, match="read-only"):
        InOut(memoryview(b"abc"))


def test_annotated_functions_take_memory_of_others():
    @task
    def add(source: Reads, target: Updates) -> None:
        target += source

    target = array.array("d", [1.0, 2.0])
    with Runtime(workers=2):
        add(np.ones(2), memoryview(target)).result()
    assert target.tolist() == [2.0, 3.0]
