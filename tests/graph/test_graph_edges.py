"""The runtime at its edges: other threads, signals, forks, views of any maker. Each test is named after its fault."""

from __future__ import annotations

import ctypes
import gc
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from graph_scripts import printed
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import whet.graph.runtime as runtime_module
from whet.errors import Cancelled
from whet.graph import POLICIES, SIGNATURE, GraphTimeout, In, InOut, OutExisting, Runtime


@pytest.mark.parametrize("policy", POLICIES)
def test_a_monitor_thread_reads_arrays_that_the_submitter_frees(policy, tried):
    """watchdog, done, peaks and totals from other threads, while fan-ins of 20 are submitted and reclaimed."""
    lines = printed(
        f"""
        rt = Runtime(policy={policy!r}, workers=2, window=64)
        stop, asked, wrong = threading.Event(), [0, 0], []

        def monitor(number):
            while not stop.is_set():
                asked[number] += 1
                rt.watchdog(); rt.totals(); rt.recorded_edges()
                peaks = rt.peaks()
                if not 0 <= peaks["window"].now <= 64: wrong.append(peaks)
                rt.done(0)

        monitors = [threading.Thread(target=monitor, args=(number,)) for number in range(2)]
        for thread in monitors: thread.start()
        end = time.monotonic() + 2
        submitted = 0
        while time.monotonic() < end:
            sources = [rt.submit(kernel("empty")) for _ in range(20)]
            rt.submit(kernel("empty"), after=sources)
            submitted += 21
        stop.set()
        for thread in monitors: thread.join()
        rt.wait()
        assert rt.totals()["completed"] == submitted and not wrong, wrong
        print("asked", min(asked) > 0)
        rt.close()
        """
    )
    assert lines == ["asked True"]
    tried("planted faults")


def held_by_a_body(policy: str) -> tuple[Runtime, threading.Event, weakref.ref]:
    """A runtime with a native body that runs until told, and a weak reference to the array that it uses."""
    begun, gate = threading.Event(), threading.Event()

    @SIGNATURE
    def body(tensors, scalars, user):
        begun.set()
        gate.wait(60)
        ctypes.cast(tensors[0], ctypes.POINTER(ctypes.c_double))[0] = 5.0
        return 0

    rt = Runtime(policy=policy, workers=2, submitter_helps=False)
    array = np.zeros(1000)
    rt.submit(body, InOut(array), name="lingers")
    assert begun.wait(60)
    return rt, gate, weakref.ref(array)


def comes_true(condition, limit_s: float = 30) -> bool:
    end = time.monotonic() + limit_s
    while not condition() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("how", ["close", "exit"])
def test_close_frees_the_array_of_a_body_that_it_left_behind(policy, how, tried, monkeypatch):
    rt, gate, array = held_by_a_body(policy)
    if how == "close":
        with pytest.raises(GraphTimeout, match="lingers"):
            rt.close(0.1)
    else:
        monkeypatch.setattr(runtime_module, "CLOSE_AT_EXIT_S", 0.1)
        with pytest.raises(ZeroDivisionError), rt:
            1 / 0  # noqa: B018
    gc.collect()
    assert array() is not None
    del rt
    gc.collect()
    assert array() is not None
    gate.set()
    assert comes_true(lambda: array() is None), "the memory is given back once the body has returned"
    tried("planted faults")


def test_a_runtime_that_is_dropped_keeps_the_memory_of_its_bodies(tried):
    """Dropped without a close: the memory of native bodies that still run stays until they have returned."""
    rt, gate, array = held_by_a_body("hybrid")
    seen = []
    opener = threading.Timer(0.3, lambda: (seen.append(array() is not None), gate.set()))
    opener.start()
    del rt
    gc.collect()
    opener.join()
    assert seen == [True]
    assert comes_true(lambda: array() is None)
    tried("planted faults")


class Interface:
    """Memory behind `__array_interface__` alone, as other libraries hand it out."""

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self._keep = array


class Storage:
    """Like a tensor library: slices are objects of their own that know an address and no base."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def through_ctypes(array):
    pointer = array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    return np.ctypeslib.as_array(pointer, (array.size,))


VIEWS = {
    "sliding_window_view": lambda a: sliding_window_view(a[1:], 3),
    "as_strided": lambda a: as_strided(a[1:], (4,), (16,)),
    "as_strided twice": lambda a: as_strided(as_strided(a[1:], (8,), (8,))[2:], (2,), (8,)),
    "from_dlpack": lambda a: np.from_dlpack(a[4:]),
    "__array_interface__": lambda a: np.asarray(Interface(a[4:])),
    "__array_interface__ of a slice": lambda a: np.asarray(Interface(a))[5:],
    "ctypes pointer": lambda a: through_ctypes(a[3:]),
    "tensor library": lambda a: np.from_dlpack(Storage(a[4:12]))[2:],
    "memoryview": lambda a: np.frombuffer(memoryview(a)[4:]),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", ["array", "view"])
@pytest.mark.parametrize("how", VIEWS)
def test_no_edge_between_an_array_and_a_view_whose_base_is_not_the_buffer(policy, first, how, tried):
    a = np.arange(16.0)
    view = VIEWS[how](a)
    gate = threading.Event()
    with Runtime(policy=policy, workers=3, submitter_helps=False, record_edges=True) as rt:
        try:
            one, other = (a, view) if first == "array" else (view, a)
            writer = rt.submit(lambda x: gate.wait(30), InOut(one) if one.flags.writeable else In(one))
            reader = rt.submit(lambda x: None, OutExisting(other) if other.flags.writeable else In(other))
            third = rt.submit(lambda x: None, OutExisting(a))
            apart = rt.submit(lambda x: 1, InOut(np.zeros(4)))
            assert apart.result(30) == 1
            assert not reader.done() and not third.done()
        finally:
            gate.set()
        rt.wait()
        found = {(p, c) for p, c, _ in rt.recorded_edges()}
    assert (writer.id, reader.id) in found
    assert {(writer.id, third.id), (reader.id, third.id)} & found
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_two_views_without_a_common_base_that_overlap_in_part(policy, tried):
    """Neither contains the other, and a third joins them: every pair that shares bytes is ordered."""
    a = np.arange(32.0)
    low, high, middle = (np.from_dlpack(a[s]) for s in (slice(0, 16), slice(12, 32), slice(14, 20)))
    order = []
    gate = threading.Event()

    def note(name):
        return lambda x: order.append(name)

    with Runtime(policy=policy, workers=3, submitter_helps=False, record_edges=True) as rt:
        try:
            w1 = rt.submit(lambda x: gate.wait(30), InOut(as_strided(low, low.shape, low.strides)))
            w2 = rt.submit(note("high"), OutExisting(as_strided(high, high.shape, high.strides)))
            w3 = rt.submit(note("middle"), InOut(as_strided(middle, middle.shape, middle.strides)))
            w4 = rt.submit(note("whole"), InOut(a))
            lone = rt.submit(note("lone"), InOut(np.zeros(1)))
            lone.result(30)
        finally:
            gate.set()
        rt.wait()
        found = {(p, c) for p, c, _ in rt.recorded_edges()}
    assert order == ["lone", "high", "middle", "whole"]
    assert {(w1.id, w2.id), (w2.id, w3.id), (w3.id, w4.id)} <= found
    tried("planted faults")


def test_views_of_different_halves_stay_apart():
    """Exact where the base is known, whoever made the view."""
    grid = np.zeros((8, 8))
    gate = threading.Event()
    with Runtime(workers=3, submitter_helps=False) as rt:
        try:
            rt.submit(lambda x: gate.wait(30), OutExisting(as_strided(grid, (8, 4), (64, 8))))
            right = rt.submit(lambda x: 2, InOut(as_strided(grid[:, 4:], (8, 4), (64, 8))))
            assert right.result(30) == 2
        finally:
            gate.set()


@pytest.mark.parametrize("policy", POLICIES)
def test_ctrl_c_inside_a_python_body_fails_the_task_and_cancels_nothing(policy, tried):
    """120 bodies of 50 ms on the waiting thread: the interrupt comes out at once and the rest is dropped."""
    lines = printed(
        f"""
        ran = []
        rt = Runtime(policy={policy!r}, workers=1)
        tasks = [rt.submit(lambda i=i: (ran.append(i), time.sleep(0.05))) for i in range(120)]
        print("ready", flush=True)
        try:
            rt.wait()
        except KeyboardInterrupt as error:
            print("interrupted", len(ran) < 60, type(error.__cause__).__name__)
        count = len(ran)
        try:
            rt.wait()
        except Cancelled:
            print("cancelled", len(ran) == count)
        print("again", rt.submit(lambda: 7).result())
        for task in (tasks[count - 1], tasks[-1]):
            try:
                task.result()
            except (TaskFailed, Cancelled) as error:
                print(type(error).__name__, type(error.__cause__).__name__)
        rt.close()
        """,
        send=(0.4, signal.SIGINT),
    )
    assert lines == [
        "interrupted True NoneType",
        "cancelled True",
        "again 7",
        "TaskFailed KeyboardInterrupt",
        "TaskCancelled NoneType",
    ]
    tried("planted faults")


CHAIN = """
    # Worker 1 sits in the first body while this thread takes the second; the chain is then registered by worker 1 and
    # woken by this thread.
    rt = Runtime(policy={policy!r}, workers={workers})
    rt.submit(spin(100))
    time.sleep(0.05)
    body, last = spin(1), rt.submit(spin(300))
    for _ in range(3000):
        last = rt.submit(body, after=[last])
"""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_chain_of_woken_successors_ignores_the_limit_of_a_wait(policy, workers, tried):
    lines = printed(
        CHAIN.format(policy=policy, workers=workers)
        + """
    try:
        rt.wait(0.6)
    except GraphTimeout:
        print("in time", rt.totals()["completed"] < 2000)
    try:
        last.wait(0.1)
    except GraphTimeout:
        print("in time", rt.totals()["completed"] < 2500)
    rt.close()
    """
    )
    assert lines == ["in time True"] * 2
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("where", ["rt.wait()", "last.wait()"])
def test_a_chain_of_woken_successors_ignores_ctrl_c(policy, where, tried):
    lines = printed(
        CHAIN.format(policy=policy, workers=2)
        + f"""
    print("ready", flush=True)
    try:
        {where}
    except KeyboardInterrupt:
        # The interrupt drops what has not begun, and the other worker is through with that in no time.
        totals = rt.totals()
        print("interrupted", totals["completed"] - totals["cancelled"] < 2000)
    rt.close()
    """,
        send=(0.6, signal.SIGINT),
    )
    assert lines == ["interrupted True"]
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_close_has_no_ear_for_ctrl_c(policy, tried):
    """The interrupt comes out, and the close may be asked for again."""
    lines = printed(
        f"""
        rt = Runtime(policy={policy!r}, workers=2, submitter_helps=False)
        rt.submit(spin(4000))
        while not any(s.running for s in rt.watchdog()): time.sleep(0.01)
        print("ready", flush=True)
        begun = time.monotonic()
        try:
            rt.close()
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begun < 2.5)
        rt.close()
        try:
            rt.submit(None)
        except GraphClosed:
            print("closed")
        """,
        send=(0.3, signal.SIGINT),
    )
    assert lines == ["interrupted True", "closed"]
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("helps", [True, False])
def test_a_full_window_has_no_ear_for_ctrl_c(policy, helps, tried):
    """4,000 bodies of 1 ms through a window of 8."""
    lines = printed(
        f"""
        rt = Runtime(policy={policy!r}, workers=2, window=8, submitter_helps={helps})
        body, x, submitted = spin(1), np.zeros(1), 0
        print("ready", flush=True)
        try:
            for _ in range(4000):
                rt.submit(body, InOut(x))
                submitted += 1
        except KeyboardInterrupt:
            print("interrupted", submitted < 2500)
        rt.close()
        """,
        send=(0.4, signal.SIGINT),
    )
    assert lines == ["interrupted True"]
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_window_stops_looking_once_the_oldest_task_is_done(policy, tried):
    """The oldest task is done but kept by a consumer that waits for a long body."""
    lines = printed(
        f"""
        rt = Runtime(policy={policy!r}, workers=3, window=4, submitter_helps=False)
        first = rt.submit(kernel("empty"))
        slow = rt.submit(spin(4000))
        rt.submit(kernel("empty"), after=[first, slow])
        rt.submit(kernel("empty"), after=[slow])
        while not first.done(): time.sleep(0.01)
        print("ready", flush=True)
        begun = time.monotonic()
        try:
            rt.submit(kernel("empty"))
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begun < 2.5)
        rt.close()
        """,
        send=(0.3, signal.SIGINT),
    )
    assert lines == ["interrupted True"]
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_last_reference_is_dropped_on_a_worker_of_its_own(policy, tried):
    """The body holds the runtime; nobody else does. Its threads end all the same."""
    lines = printed(
        f"""
        def threads():
            return len(os.listdir("/proc/self/task"))

        def leave_one(number):
            rt = Runtime(policy={policy!r}, workers=2, submitter_helps=False)
            gate = threading.Event()
            rt.submit(lambda own, gate: gate.wait(30), rt, gate)
            rt.submit(kernel("empty"), InOut(np.zeros(3)))
            gone = __import__("weakref").ref(rt._native)
            del rt
            gate.set()
            return gone

        before = threads()
        left = [leave_one(number) for number in range(5)]
        end = time.monotonic() + 30
        while (threads() > before or any(one() for one in left)) and time.monotonic() < end:
            time.sleep(0.01)
        print("threads left", threads() - before)
        """
    )
    assert lines == ["threads left 0"]
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [1, 2])
def test_bodies_of_two_runtimes_that_submit_to_each_other_lock_up(policy, workers, tried):
    lines = printed(
        f"""
        left = Runtime(policy={policy!r}, workers={workers})
        right = Runtime(policy={policy!r}, workers={workers})
        counted = []

        def cross(other):
            for _ in range(3):
                other.submit(counted.append, 1)
                time.sleep(0.001)

        def drive(own, other):
            for _ in range(60):
                own.submit(cross, other)
                own.wait()

        sides = [threading.Thread(target=drive, args=pair, daemon=True) for pair in ((left, right), (right, left))]
        for side in sides: side.start()
        for side in sides: side.join(40)
        stuck = any(side.is_alive() for side in sides)
        if not stuck:
            left.wait(); right.wait()
        print("stuck" if stuck else "through", len(counted), flush=True)
        os._exit(0)
        """,
        limit_s=90,
    )
    assert lines == ["through 360"]
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fork_while_another_thread_waits_hangs_the_child(policy, tried):
    lines = printed(
        f"""
        rt = Runtime(policy={policy!r}, workers=2)
        gate = threading.Event()
        held = rt.submit(gate.wait, 30)
        waiter = threading.Thread(target=lambda: rt.wait())
        waiter.start()
        time.sleep(0.2)
        told = []
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                calls = {{
                    "submit": lambda: rt.submit(None), "wait": rt.wait, "task": held.wait, "done": held.done,
                    "watchdog": rt.watchdog, "peaks": rt.peaks, "totals": rt.totals, "close": rt.close,
                    "named": lambda: rt.submit(None, name="new"), "batch": rt.recorded_edges,
                }}
                for name, call in calls.items():
                    try:
                        call()
                    except GraphForked:
                        continue
                    os.write(2, name.encode())
                    os._exit(3)
                with Runtime(workers=2) as own:
                    assert own.submit(lambda: 5).result() == 5
                os._exit(0)
            told.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        gate.set()
        waiter.join()
        print("told", set(told))
        rt.close()
        """,
        limit_s=120,
    )
    assert lines == ["told {0}"]
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_two_threads_close_at_once(policy, tried):
    """Both act as worker 0; with a third that waits and a fourth that submits. Every task is run or dropped once."""
    for round_ in range(20):
        rt = Runtime(policy=policy, workers=2, window=64)
        ran = []
        for i in range(40):
            rt.submit(ran.append, i)
        failures = []

        def use(call, failures=failures):
            try:
                call()
            except (Cancelled, runtime_module.GraphClosed):
                pass
            except BaseException as error:
                failures.append(error)

        calls = [rt.close, rt.close, rt.wait, lambda rt=rt: rt.submit(None)]
        threads = [threading.Thread(target=use, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads), round_
        assert not failures, failures
        assert len(ran) == len(set(ran)) <= 40
        totals = rt.totals()
        assert totals["completed"] == totals["submitted"]
    tried("planted faults", 20)
