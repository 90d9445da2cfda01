"""Tasks as futures: what concurrent.futures and asyncio lead people to expect, and where that could hang or lie."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
import traceback

import numpy as np
import pytest
from graph_scripts import printed

from whet.errors import BadInput
from whet.graph import (
    SIGNATURE,
    GraphClosed,
    GraphTimeout,
    In,
    InOut,
    Runtime,
    Task,
    TaskCancelled,
    TaskFailed,
    as_completed,
    gather,
    kernel,
)


@pytest.fixture(params=[1, 3])
def rt(request):
    """With one worker nobody but those who wait run tasks."""
    runtime = Runtime(workers=request.param)
    yield runtime
    runtime.close(30)


class Gate:
    """A body that says that it has begun and returns when told."""

    def __init__(self):
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self, *_):
        self.begun.set()
        assert self.open.wait(60)
        return "through"


@SIGNATURE
def returns_seven(tensors, scalars, user):
    return 7


def boom(*_):
    raise ValueError("where it went wrong")


def spin(milliseconds):
    return kernel("spin").with_user(np.array([milliseconds * 1_000_000], np.uint64))


def test_a_task_offers_what_a_future_offers(rt):
    offered = [n for n in dir(concurrent.futures.Future) if not n.startswith("_") and not n.startswith("set_")]
    assert [name for name in offered if not callable(getattr(Task, name, None))] == []
    task = rt.submit(lambda: 5)
    assert task.result(timeout=60) == 5 and task.exception(timeout=0) is None
    assert (task.done(), task.running(), task.cancelled(), task.cancel()) == (True, False, False, False)


def test_timeouts_and_cancellation_are_those_of_futures():
    gate = Gate()
    with Runtime(workers=2, submitter_helps=False) as rt:
        held = rt.submit(gate)
        after = rt.submit(lambda: 1, after=[held])
        assert gate.begun.wait(60)
        assert (held.running(), held.done(), after.running(), after.done()) == (True, False, False, False)
        for ask in (held.result, held.exception):
            for limit in (0, 0.01):
                with pytest.raises(TimeoutError) as caught:
                    ask(limit)
                assert isinstance(caught.value, GraphTimeout)
        assert not held.cancel() and after.cancel() and after.cancel()
        assert after.cancelled() and after.done() and not after.running()
        with pytest.raises(concurrent.futures.CancelledError):
            after.exception(timeout=0)
        gate.open.set()
        assert held.result() == "through"
        with pytest.raises(TaskCancelled):
            rt.wait()


def test_a_cancelled_task_and_what_depends_on_it_do_not_run():
    gate, ran, x = Gate(), [], np.zeros(4)
    rt = Runtime(workers=2, submitter_helps=False)
    rt.submit(gate)
    assert gate.begun.wait(60)
    first = rt.submit(lambda a: ran.append("first"), InOut(x))
    second = rt.submit(lambda a: ran.append("second"), In(x))
    other = rt.submit(lambda: ran.append("other"))
    assert first.cancel()
    gate.open.set()
    assert other.result() is None
    with pytest.raises(TaskCancelled):
        second.result()
    assert (first.cancelled(), second.cancelled(), other.cancelled()) == (True, True, False)
    with pytest.raises(TaskCancelled):
        rt.wait()
    assert ran == ["other"] and rt.totals()["cancelled"] == 2
    rt.close()


def test_cancel_and_the_worker_never_both_win():
    """Half of the answers are given while the task may begin: a body that ran was never told to have been cancelled."""
    ran = []
    with Runtime(workers=3, submitter_helps=False) as rt:
        tasks = [rt.submit(ran.append, number) for number in range(2000)]
        told = [task.cancel() for task in reversed(tasks)][::-1]
        with contextlib.suppress(TaskCancelled):
            rt.wait()
        assert sorted(ran) == [number for number, cancelled in enumerate(told) if not cancelled]


def test_the_traceback_of_the_body_is_in_what_result_raises(rt):
    task = rt.submit(boom, name="bad")
    for _ in range(2):
        with pytest.raises(TaskFailed) as caught:
            task.result()
        shown = "".join(traceback.format_exception(caught.value))
        assert "in boom" in shown and 'raise ValueError("where it went wrong")' in shown
    assert isinstance(task.exception(), TaskFailed) and isinstance(task.exception().__cause__, ValueError)
    assert rt.submit(returns_seven).exception().status == 7


def test_outcomes_can_be_asked_for_after_the_end():
    with Runtime(workers=2) as rt:
        good, native = rt.submit(lambda: 5), rt.submit(kernel("empty"))
    assert good.result() == 5 and native.result() is None and good.done() and good.exception() is None
    told = []
    good.add_done_callback(told.append)
    assert told == [good] and gather(good, native).results() == [5, None]


def test_callbacks_are_called_once_and_may_use_the_runtime(rt):
    told, over = [], threading.Event()

    def tell(task):
        told.append(task.exception() if task.name == "bad" else task.result())
        if len(told) == 3:
            follower = rt.submit(lambda: "submitted by a callback")
            told.append(follower.result(60))
            over.set()

    gate = Gate()
    tasks = [rt.submit(gate), rt.submit(boom, name="bad"), rt.submit(kernel("empty"))]
    for task in tasks:
        task.add_done_callback(lambda _: 1 / 0)
        task.add_done_callback(tell)
    gate.open.set()
    assert over.wait(60)
    assert len(told) == 4 and "through" in told and None in told and told[-1] == "submitted by a callback"
    with pytest.raises(TaskFailed):
        rt.wait()


def test_a_callback_that_raises_is_logged(rt, caplog):
    task = rt.submit(lambda: 5)
    task.result()
    task.add_done_callback(lambda _: 1 / 0)
    assert "ZeroDivisionError" in caplog.text and repr(task) in caplog.text


def test_callbacks_come_while_other_tasks_run_for_long():
    gate, quick = Gate(), threading.Event()
    with Runtime(workers=2) as rt:
        rt.submit(gate).add_done_callback(lambda _: None)
        assert gate.begun.wait(60)
        rt.submit(lambda: 5).add_done_callback(lambda _: quick.set())
        assert quick.wait(60)
        gate.open.set()


def test_a_callback_may_close_the_runtime(rt):
    closed = threading.Event()

    def close(_):
        rt.close()
        closed.set()

    rt.submit(lambda: time.sleep(0.05)).add_done_callback(close)
    assert closed.wait(60)
    with pytest.raises(GraphClosed):
        rt.submit(None)


def test_close_tells_those_who_wait():
    gate, told, seen = Gate(), [], []
    rt = Runtime(workers=2, submitter_helps=False)
    held = rt.submit(gate)
    assert gate.begun.wait(60)
    later = rt.submit(lambda: 5, after=[held])
    over = threading.Event()
    later.add_done_callback(lambda task: (told.append(task.cancelled()), over.set()))
    waiter = threading.Thread(target=lambda: seen.append(outcome(later)))
    waiter.start()
    with pytest.raises(GraphTimeout):
        rt.close(0.2)
    assert over.wait(60)
    gate.open.set()
    waiter.join(60)
    assert len(told) == 1 and seen[0] in (GraphClosed, TaskCancelled)


def outcome(task):
    try:
        return task.result()
    except Exception as error:
        return type(error)


def test_awaiting(rt):
    async def main():
        x = np.zeros(3)
        first = rt.submit(lambda a: a.__iadd__(1) is None, InOut(x))
        total = rt.submit(lambda a: float(a.sum()), In(x))
        assert await total == 3.0 and await total == 3.0 and await first is False
        assert await asyncio.gather(*[rt.submit(pow, n, 2) for n in range(20)]) == [n * n for n in range(20)]
        assert await gather(*[rt.submit(pow, n, 3) for n in range(20)]) == [n**3 for n in range(20)]
        with pytest.raises(TaskFailed, match="where it went wrong"):
            await rt.submit(boom)
        with pytest.raises(TaskFailed):
            await gather(rt.submit(pow, 1, 1), rt.submit(boom))

    for _ in range(2):  # another loop each time
        asyncio.run(asyncio.wait_for(main(), 60))


def test_the_loop_goes_on_while_a_task_is_awaited(rt):
    gate = Gate()

    async def main():
        task = rt.submit(gate)
        waiter = asyncio.ensure_future(asyncio.wait_for(task, 60))
        while not gate.begun.is_set():
            await asyncio.sleep(0.001)
        gate.open.set()
        return await waiter

    assert asyncio.run(main()) == "through"


def test_cancelling_who_awaits_leaves_the_task_alone(rt):
    gate = Gate()

    async def main():
        task = rt.submit(gate)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(task, 0.05)
        waiter = asyncio.ensure_future(asyncio.wait_for(task, 60))
        await asyncio.sleep(0.01)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        return task

    task = asyncio.run(main())  # the loop is closed when the task ends
    gate.open.set()
    assert task.result(60) == "through"
    rt.wait()
    assert rt.submit(lambda: 5).result(60) == 5


def test_two_loops_in_two_threads_await_the_same_task(rt):
    gate, told = Gate(), []
    task = rt.submit(gate)

    async def main():
        told.append(await asyncio.wait_for(task, 60))

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    gate.open.set()
    for thread in threads:
        thread.join(60)
    assert told == ["through"] * 2


def test_as_completed_yields_each_once_in_the_order_of_their_ends():
    first, second = Gate(), Gate()
    with Runtime(workers=3, submitter_helps=False) as rt:
        slow, quick, bad = rt.submit(first), rt.submit(second), rt.submit(boom)
        second.open.set()
        seen = []
        for task in as_completed([slow, quick, quick, bad], timeout=60):
            seen.append(task)
            if len(seen) == 2:
                first.open.set()
        assert set(seen[:2]) == {quick, bad} and seen[2:] == [slow]
        with pytest.raises(TaskFailed):
            rt.wait()


def test_as_completed_runs_tasks_meanwhile(rt):
    tasks = [rt.submit(pow, n, 2) for n in range(50)]
    assert sorted(task.result() for task in as_completed(tasks)) == [n * n for n in range(50)]
    assert list(as_completed([])) == []


def test_as_completed_ends_in_time():
    gate = Gate()
    with Runtime(workers=3, submitter_helps=False) as rt:
        held, quick = rt.submit(gate), rt.submit(lambda: 5)
        began = time.monotonic()
        seen = []
        with pytest.raises(TimeoutError, match="1 of the tasks"):
            for task in as_completed([held, quick], timeout=0.2):
                seen.append(task)
        assert seen == [quick] and 0.1 < time.monotonic() - began < 30
        gate.open.set()


def test_gather(rt):
    tasks = [rt.submit(pow, n, 2) for n in range(10)]
    group = gather(*tasks)
    assert group.results() == [n * n for n in range(10)] and list(group) == tasks
    assert group[3] is tasks[3] and list(group[2:4]) == tasks[2:4] and group.done()
    assert group.progress() == (10, 10, 0, 0)
    bad, dropped = rt.submit(boom, name="bad"), rt.submit(pow, 1, 1, name="good")
    dependent = rt.submit(lambda: 1, after=[bad])
    with pytest.raises(TaskFailed, match="bad"):
        gather(dropped, bad, dependent).wait()
    assert gather(dropped, bad, dependent).progress() == (3, 3, 1, 1)
    assert gather().results() == [] and gather().done()
    with Runtime(workers=1) as other, pytest.raises(BadInput, match="another runtime"):
        gather(tasks[0], other.submit(None))
    with pytest.raises(BadInput, match="not a task"):
        gather(5)


def test_a_group_is_cancelled_as_far_as_it_has_not_begun():
    gate = Gate()
    with Runtime(workers=2, submitter_helps=False) as rt:
        held = rt.submit(gate)
        assert gate.begun.wait(60)
        group = gather(held, *[rt.submit(kernel("empty"), after=[held]) for _ in range(5)])
        other = rt.submit(lambda: 5, after=[held])
        group.cancel()
        gate.open.set()
        with pytest.raises(TaskCancelled):
            group.wait()
        assert group.progress() == (6, 6, 0, 5) and held.result() == "through" and other.result() == 5
        with pytest.raises(TaskCancelled):
            rt.wait()
        assert rt.submit(kernel("empty")).result() is None
        rt.wait()


def test_an_interrupt_comes_out_of_every_wait():
    lines = printed(
        """
        gate = threading.Event()
        rt = Runtime(workers=2)
        held = rt.submit(gate.wait)
        held.add_done_callback(lambda _: None)
        time.sleep(0.1)
        timers = [threading.Timer(0.3 * n, os.kill, (os.getpid(), signal.SIGINT)) for n in (1, 2, 3)]
        for timer in timers: timer.start()
        for wait in (held.result, lambda: list(as_completed([held])), lambda: gather(held).wait()):
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted")
        gate.set()
        print(held.result(30))
        rt.close()
        """
    )
    assert lines == ["interrupted"] * 3 + ["True"]


def test_a_child_is_told_and_does_not_hang():
    lines = printed(
        """
        import asyncio
        gate = threading.Event()
        rt = Runtime(workers=2)
        held = rt.submit(gate.wait)
        held.add_done_callback(lambda _: None)
        time.sleep(0.1)

        async def awaited():
            await held

        calls = [held.done, held.cancel, held.result, lambda: held.add_done_callback(print), gather(held).wait,
                 gather(held).progress, lambda: list(as_completed([held])), lambda: asyncio.run(awaited())]
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            for call in calls:
                try:
                    call()
                except GraphForked:
                    continue
                os._exit(3)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        gate.set()
        rt.close()
        """
    )
    assert lines == ["0"]


def test_the_interpreter_ends_while_callbacks_are_due():
    lines = printed(
        """
        rt = Runtime(workers=2)
        for _ in range(100):
            rt.submit(lambda: time.sleep(0.01)).add_done_callback(lambda _: None)
        print("leaves")
        """,
        limit_s=30,
    )
    assert lines == ["leaves"]
