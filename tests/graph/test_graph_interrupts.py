"""Ctrl-C at every place where Python may meet it: after calls into C, at the beginning of functions. Whatever was
interrupted, everything can be used afterwards. And waits that had no ear for it."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from graph_scripts import printed

from whet.errors import BadInput
from whet.graph import (
    Graph,
    GraphTimeout,
    In,
    InOut,
    Out,
    Runtime,
    TaskCancelled,
    as_completed,
    gather,
    kernel,
)

EACH = 60  # so many places one by one, then every seventh: long calls come by the same ones again
MOST_PLACES = 4000  # more than any of the calls below has


class Interrupter:
    """Raises KeyboardInterrupt at the n-th place of this thread where the interpreter looks for signals."""

    def __init__(self, place: int) -> None:
        self.left = place
        self.raised = False

    def __call__(self, frame, event, arg) -> None:
        if event not in ("call", "c_return") or frame.f_code.co_filename == __file__:
            return
        if "threading" in frame.f_code.co_filename and frame.f_code.co_name == "_bootstrap":
            return
        self.left -= 1
        if self.left < 0 and not self.raised:
            self.raised = True
            sys.setprofile(None)
            raise KeyboardInterrupt


def interrupted_at(place: int, call) -> bool:
    """Whether the call was long enough to be interrupted there."""
    interrupter = Interrupter(place)
    sys.setprofile(interrupter)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return interrupter.raised


class Desk:
    """A runtime, a graph and a recording, and what must work with them at any time."""

    def __init__(self) -> None:
        self.memory = np.zeros((4, 8))
        self.rt = Runtime(workers=2, window=64)
        self.graph = Graph.from_edges(3, [(0, 1), (1, 2)], [kernel("empty")])
        with self.rt.record() as self.recording:
            self.rt.submit(self.count, InOut(self.memory[0]))

    @staticmethod
    def count(row) -> None:
        row += 1

    def check(self) -> None:
        for _ in range(3):
            try:
                self.rt.wait(60)
                break
            except TaskCancelled:
                continue
        assert self.graph.replay(workers=2).executed == 3
        assert self.graph.replay(workers=1, timeout_s=60).executed == 3
        self.recording.replay()
        with self.rt.record() as again:
            assert self.rt.submit(lambda: 7).result(60) == 7
        again.replay()
        told = threading.Event()
        task = self.rt.submit(kernel("empty"))
        task.add_done_callback(lambda _: told.set())
        assert told.wait(60)
        assert concurrent.futures.wait([self.rt.submit(kernel("empty"))], timeout=60).not_done == set()
        self.rt.map(kernel("empty"), In(self.memory)).wait(60)

    # What is interrupted.

    def replay(self) -> None:
        self.graph.replay(workers=2)

    def replay_watched(self) -> None:
        self.graph.replay(workers=1, timeout_s=60)

    def replay_recorded(self) -> None:
        self.recording.replay(rebind=[(self.memory, np.zeros((4, 8)))])

    def record(self) -> None:
        with self.rt.record() as graph:
            self.rt.submit(self.count, InOut(self.memory[1]))
        graph.replay()

    def submit_and_wait(self) -> None:
        made = self.rt.submit(lambda out: out.fill(1), Out(4))
        self.rt.submit(self.count, InOut(self.memory[0])).result()
        gather(made).results()
        self.rt.wait()

    def scoped(self) -> None:
        with self.rt.scope():
            self.rt.submit(self.count, InOut(self.memory[0]))

    def map_rows(self) -> None:
        self.rt.map(kernel("empty"), In(self.memory)).wait()

    def tell(self) -> None:
        slow = kernel("spin").with_user(np.array([2_000_000], np.uint64))
        self.rt.submit(slow).add_done_callback(lambda _: None)

    def standard(self) -> None:
        slow = kernel("spin").with_user(np.array([2_000_000], np.uint64))
        list(as_completed([self.rt.submit(slow)]))
        task = self.rt.submit(slow)
        _ = task._waiters  # what concurrent.futures looks at first

    def cancel(self) -> None:
        task = self.rt.submit(self.count, InOut(self.memory[0]))
        task.cancel()
        gather(task).cancel()


CALLS = [name for name in vars(Desk) if not name.startswith("_") and name not in ("check", "count")]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.timeout(300)
def test_an_interrupt_anywhere_leaves_everything_usable(call, tried):
    desk = Desk()
    places = [*range(EACH), *range(EACH, MOST_PLACES, 7)]
    met = 0
    while interrupted_at(places[met], getattr(desk, call)):
        desk.check()
        met += 1
    assert met >= 5
    desk.rt.close()
    tried("interrupts", met)


def test_an_interrupt_of_a_callback_is_not_taken_for_the_callbacks_own():
    with Runtime(workers=2) as rt:
        task = rt.submit(lambda: 1)
        task.result()
        with pytest.raises(KeyboardInterrupt):
            task.add_done_callback(lambda _: signal.raise_signal(signal.SIGINT))
        waiting = rt.submit(kernel("spin").with_user(np.array([20_000_000], np.uint64)))
        called = []
        behind = rt.submit(lambda: None, after=[waiting])
        behind.add_done_callback(lambda _: signal.raise_signal(signal.SIGINT))
        behind.add_done_callback(called.append)
        with pytest.raises(KeyboardInterrupt):
            behind.cancel()
        assert called == [behind]  # the others were told all the same
        with pytest.raises(TaskCancelled):
            rt.wait()


def test_an_exit_in_a_callback_does_not_end_the_thread_that_calls(caplog):
    with Runtime(workers=2) as rt:
        slow = kernel("spin").with_user(np.array([5_000_000], np.uint64))
        told = threading.Event()
        rt.submit(slow).add_done_callback(lambda _: sys.exit(3))
        rt.submit(slow).add_done_callback(lambda _: told.set())
        assert told.wait(60)


def test_two_threads_record_at_once(monkeypatch):
    """One of them is refused; a recording that is overwritten would lose its tasks."""
    from whet.graph import runtime as module

    class Slow(module.Recording):
        def __init__(self, of) -> None:
            super().__init__(of)
            time.sleep(0.2)

    monkeypatch.setattr(module, "Recording", Slow)
    counts, refused = [], []
    with Runtime(workers=2) as rt:

        def record() -> None:
            try:
                with rt.record() as graph:
                    time.sleep(0.5)
                    rt.submit(None)
                counts.append(graph.tasks)
            except BadInput:
                refused.append(1)

        threads = [threading.Thread(target=record) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (counts, refused) == ([1], [1])


SPIN = kernel("spin").with_user(np.array([20_000_000], np.uint64))


def test_a_replay_that_waits_for_its_turn_has_a_limit():
    busy = Graph.from_edges(100, [(n, n + 1) for n in range(99)], [SPIN])
    other = Graph.from_edges(1, [], [kernel("empty")])
    runs = threading.Event()
    first = Graph.from_edges(2, [(0, 1)], [lambda number: runs.set()])
    thread = threading.Thread(target=lambda: (first.replay(workers=2), busy.replay(workers=2)))
    thread.start()
    runs.wait(60)
    while not busy._turns.held:
        time.sleep(0.001)
    time.sleep(0.05)
    with pytest.raises(GraphTimeout):
        other.replay(workers=1, timeout_s=0.1)
    assert thread.is_alive()
    thread.join()
    assert other.replay(workers=1, timeout_s=60).executed == 1


def test_a_replay_that_waits_for_its_turn_hears_ctrl_c():
    said = printed(
        """
        busy = Graph.from_edges(100, [(n, n + 1) for n in range(99)], [spin(30)])
        thread = threading.Thread(target=lambda: busy.replay(workers=2))
        thread.start()
        while not busy._turns.held:
            time.sleep(0.001)
        time.sleep(0.1)
        print("ready", flush=True)
        try:
            Graph.from_edges(1, [], [kernel("empty")]).replay(workers=2)
        except KeyboardInterrupt:
            print(thread.is_alive())
        thread.join()
        """,
        send=(0.3, signal.SIGINT),
    )
    assert said == ["True"]


def test_replays_in_the_bodies_of_each_others_replays_do_not_lock_up():
    both = threading.Barrier(2)
    inner = {workers: Graph.from_edges(2, [(0, 1)], [kernel("empty")]) for workers in (2, 3)}
    counts = []

    def body(workers: int):
        def run(number: int) -> None:
            both.wait(60)
            counts.append(inner[workers].replay(workers=workers).executed)

        return run

    # Two tasks each, so that the pools are taken and not run by the caller alone.
    outer = {workers: Graph.from_edges(2, [], [body(5 - workers), None], kind=[0, 1]) for workers in (2, 3)}
    threads = [
        threading.Thread(target=lambda w=workers: outer[w].replay(workers=w, coarsen=False), daemon=True)
        for workers in outer
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counts == [2, 2]


def test_a_graph_that_is_replayed_elsewhere_at_the_time_of_a_fork_says_so():
    said = printed(
        """
        graph = Graph.from_edges(50, [(n, n + 1) for n in range(49)], [spin(20)])
        thread = threading.Thread(target=lambda: graph.replay(workers=2))
        thread.start()
        while not graph._turns.held:
            time.sleep(0.001)
        child = os.fork()
        if child == 0:
            try:
                graph.replay()
            except GraphForked as error:
                print(error.cure, flush=True)
            again = Graph.from_edges(2, [(0, 1)], [kernel("empty")])
            print(again.replay(workers=2).executed, flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        thread.join()
        """
    )
    assert said == ["make it again here", "2", "0"]


LATE = """
import atexit, time

def late():
    global kept
    from whet.graph import Runtime
    kept = Runtime(workers=2)
    for _ in range(50):
        kept.submit(time.sleep, 0.002)

atexit.register(late)
import whet.graph  # its handler runs before that one
"""


def test_the_interpreter_ends_although_a_runtime_is_made_after_the_handlers_at_exit():
    assert subprocess.run([sys.executable, "-c", LATE], timeout=60, check=False).returncode == 0
