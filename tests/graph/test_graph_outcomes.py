"""What becomes of a task stays with it: error, cancellation, outputs. Each test is named after its fault."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from whet.errors import Cancelled
from whet.graph import POLICIES, SIGNATURE, GraphDeadlock, In, InOut, NoDep, Out, Runtime, TaskFailed, kernel


@pytest.fixture(params=POLICIES)
def rt(request):
    with Runtime(policy=request.param, workers=3, submitter_helps=False) as runtime:
        yield runtime


def collected(runtime: Runtime) -> None:
    """Waits, and takes the error that the wait brings."""
    with pytest.raises((TaskFailed, Cancelled)):
        runtime.wait()


@SIGNATURE
def returns_seven(tensors, scalars, user):
    return 7


def raises(error):
    def body(*_):
        raise error

    return body


@pytest.mark.parametrize("when", ["before", "after"])
def test_result_raises_the_first_error_and_not_the_tasks_own(rt, when, tried):
    errors = [ValueError("one"), KeyError("two"), OSError("three")]
    tasks = [rt.submit(raises(error), name=f"bad{number}") for number, error in enumerate(errors)]
    native = rt.submit(returns_seven, name="native")
    good = rt.submit(lambda: 5)
    dependent = rt.submit(lambda: 6, after=[tasks[1]], name="dependent")
    if when == "after":
        collected(rt)
    for _ in range(2):
        for number, (task, error) in enumerate(zip(tasks, errors, strict=True)):
            with pytest.raises(TaskFailed, match=f"bad{number}") as caught:
                task.result()
            assert caught.value.__cause__ is error and caught.value.task == task.id
        with pytest.raises(TaskFailed, match=r"native.*returned 7") as caught:
            native.result()
        assert (caught.value.status, caught.value.task) == (7, native.id)
        with pytest.raises(Cancelled, match="dependent"):
            dependent.result()
        assert good.result() == 5
    if when == "before":
        collected(rt)
    rt.wait()
    tried("planted faults", 4)


def test_failed_and_cancelled_tasks_return_none_after_many_windows(tried):
    with Runtime(workers=2, window=8) as rt:
        bad = rt.submit(raises(ValueError("old")), name="old")
        native = rt.submit(returns_seven)
        dropped = rt.submit(lambda: 1, after=[bad])
        collected(rt)
        for _ in range(100):
            rt.submit(kernel("empty"))
        rt.wait()
        with pytest.raises(TaskFailed, match="old"):
            bad.result()
        with pytest.raises(TaskFailed, match="returned 7"):
            native.wait()
        with pytest.raises(Cancelled):
            dropped.result()
    tried("planted faults")


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("how", ["In", "outputs", "InOut", "NoDep", "after", "argument", "view"])
def test_a_consumer_of_a_failed_output_runs_on_memory_that_was_never_written(rt, collect, how, tried):
    ran = []
    bad = rt.submit(raises(ValueError("no ink")), Out(4), name="bad")
    second = rt.submit(raises(AssertionError("must not run")), In(bad), Out(4), name="second")
    if collect:
        collected(rt)
    for source in (bad, second):
        out = source.outputs[0]
        arguments, after = {
            "In": ([In(source)], []),
            "outputs": ([In(out)], []),
            "InOut": ([InOut(out)], []),
            "NoDep": ([NoDep(out)], []),
            "after": ([], [source]),
            "argument": ([source], []),
            "view": ([In(out[1:3])], []),
        }[how]
        consumer = rt.submit(lambda *_: ran.append(1), *arguments, after=after, name="consumer")
        follower = rt.submit(lambda: ran.append(2), after=[consumer])
        for task in (consumer, follower):
            with pytest.raises(Cancelled):
                task.result()
    collected(rt)
    assert ran == []
    assert rt.submit(lambda: 3).result() == 3
    tried("planted faults", 2)


def test_a_scope_keeps_failed_tasks_in_the_window(rt, tried):
    """The failed task has not left the rings when its consumer comes, and its error has been collected."""
    with rt.scope():
        bad = rt.submit(raises(ValueError("no ink")), Out(4))
        collected(rt)
        consumer = rt.submit(lambda x: 1, In(bad))
        with pytest.raises(Cancelled):
            consumer.result()
    collected(rt)
    tried("planted faults")


def test_memory_of_the_user_is_usable_again_once_the_error_is_collected(rt):
    x = np.zeros(2)
    rt.submit(raises(ValueError("no ink")), InOut(x))
    collected(rt)

    def add(a):
        a += 1

    rt.submit(add, InOut(x)).result()
    rt.wait()
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("retain", ["scope", "consumers"])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_output_changes_its_contents_after_later_submissions(policy, retain, tried):
    with Runtime(policy=policy, workers=2, window=8, heap_bytes=1 << 16, retain=retain) as rt:
        first = rt.submit(lambda out: out.fill(1.0), Out(16))
        rt.wait()
        held = first.outputs[0]
        for _ in range(300):
            rt.submit(lambda out: out.fill(99.0), Out(256))
        rt.wait()
        assert held.tolist() == [1.0] * 16
        assert rt.submit(lambda a: float(a.sum()), In(first)).result() == 16.0
        assert rt.submit(lambda a: float(a.sum()), In(held[2:4])).result() == 2.0
    assert held.tolist() == [1.0] * 16
    del first, rt
    gc.collect()
    assert held.tolist() == [1.0] * 16
    tried("planted faults")


def test_an_output_is_freed_when_nobody_holds_it():
    with Runtime(workers=2, window=64, heap_bytes=1 << 16) as rt:
        for _ in range(500):
            made = rt.submit(lambda out: out.fill(1.0), Out(256))
            rt.submit(lambda a: None, In(made))
        rt.wait()
        del made
        gc.collect()
        rt.wait()
        peak = rt.peaks()["heap_bytes"]
        assert peak.now == 0 and 0 < peak.peak <= 1 << 16


@pytest.mark.parametrize("policy", POLICIES)
def test_outputs_that_python_holds_fill_the_heap_and_are_named(policy):
    with Runtime(policy=policy, workers=2, heap_bytes=4096) as rt:
        held = []
        with pytest.raises(GraphDeadlock, match="held") as caught:
            for _ in range(20):
                held.append(rt.submit(lambda out: out.fill(1.0), Out(64)))
        assert caught.value.ring == "heap" and caught.value.option == "heap_bytes"
        assert len(held) == 8
        held.pop()
        assert rt.submit(lambda out: out.fill(2.0), Out(64)).outputs[0].shape == (64,)


def test_memory_that_comes_round_again_is_not_that_of_the_failed_task(rt):
    """A failed task's output is dropped and its bytes are handed out again before the error is collected."""
    for _ in range(50):
        rt.submit(raises(ValueError("no ink")), Out(32))
        good = rt.submit(lambda out: out.fill(1.0), Out(32))
        total = rt.submit(lambda a: float(a.sum()), In(good))
        assert total.result() == 32.0
    collected(rt)


def test_a_wait_in_another_thread_does_not_take_the_error_of_a_task(rt):
    gate = threading.Event()
    bad = rt.submit(lambda: gate.wait(30) and 1 / 0, name="bad")
    seen = []

    def wait():
        try:
            rt.wait()
        except TaskFailed as error:
            seen.append(error.name)

    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    gate.set()
    for waiter in waiters:
        waiter.join()
    assert seen == ["bad"]
    with pytest.raises(TaskFailed, match="bad"):
        bad.result()
