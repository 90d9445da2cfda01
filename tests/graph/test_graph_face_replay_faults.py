"""Bodies of a built graph that raise, block, never return or end their thread: a typed error, and it works again."""

from __future__ import annotations

import ctypes
import re
import signal
import threading
import time

import numpy as np
import pytest
from test_graph_face_faults import PRELUDE, run_script

from whet.errors import BadInput
from whet.graph import SIGNATURE, Graph, GraphError, GraphTimeout, TaskFailed, kernel

LEAVE = SIGNATURE(ctypes.cast(ctypes.CDLL(None).pthread_exit, ctypes.c_void_p).value)


@pytest.mark.parametrize("coarsen", [True, False])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_native_body_that_ends_its_thread(workers, coarsen, tried):
    """Its task fails, its dependents are cancelled, other threads finish the rest; the next replay has all workers."""
    ran = np.zeros(900, np.int64)

    def count(task):
        ran[task] += 1

    edges = [(t, t + 1) for t in range(899) if t % 3 != 2]
    kind = np.zeros(900, np.uint16)
    kind[[30, 31, 450, 899]] = 1
    graph = Graph.from_edges(900, edges, [count, LEAVE], kind=kind, names=["count", "leaver"])
    for replays in (1, 2):
        with pytest.raises(TaskFailed, match=r"leaver\[\d+\] failed: the body ended its thread; 4 dependents"):
            graph.replay(workers=workers, coarsen=coarsen, timeout_s=60)
        gone = [30, 31, 32, 450, 451, 452, 899]
        assert (ran[gone] == 0).all() and ran.sum() == replays * (900 - len(gone))
    tried("planted faults", 8)


def test_a_python_body_that_raises_in_a_watched_replay():
    def body(task):
        if task == 1:
            raise LookupError("gone")

    graph = Graph.from_edges(3, [(0, 1), (1, 2)], [body], names=["step"])
    with pytest.raises(TaskFailed, match=r"step\[1\] raised LookupError: gone; 1 dependents") as caught:
        graph.replay(workers=2, timeout_s=60)
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_body_that_never_returns_is_named_with_what_waits_for_it(workers, tried):
    gate = threading.Event()

    def body(task):
        if task == 1:
            gate.wait()

    graph = Graph.from_edges(5, [(0, 1), (1, 2), (1, 3), (3, 4)], [body], names=["step"])
    for limit_s in (0.1, 0.4, 1.6, 6.4):  # a starved thread may not have got that far
        with pytest.raises(GraphTimeout) as caught:
            graph.replay(workers=workers, timeout_s=limit_s)
        if "replayed again" in caught.value.cure:
            break
    assert re.search(r"step\[1\] .*waiting for it: step\[2\], step\[3\]", str(caught.value))
    with pytest.raises(GraphError, match="have not returned"):
        graph.replay(workers=workers)
    # Other graphs go on: the threads that were given up have been replaced.
    assert Graph.from_edges(50, []).replay(workers=workers, timeout_s=60).executed == 50
    gate.set()
    assert _once_settled(graph).executed == 5
    tried("planted faults", 2)


def test_time_runs_out_between_short_bodies():
    """Nothing hangs here: what has not begun is cancelled, and the graph may be replayed at once."""
    graph = Graph.from_edges(4000, [], [kernel("spin").with_user(np.array([10**6], np.uint64))], names=["spin"])
    said = []
    while not any("spin[" in text for text in said):  # a starved worker may be in no body at that moment
        with pytest.raises(GraphTimeout, match=r"the replay ended after 0\.05 s") as caught:
            graph.replay(workers=2, timeout_s=0.05)
        said.append(str(caught.value))
        assert len(said) < 20, said
    graph = Graph.from_edges(2, [], [lambda task: time.sleep(0.1)])
    with pytest.raises(GraphTimeout):
        graph.replay(workers=1, timeout_s=0.05)
    assert _once_settled(graph).executed == 2


def _once_settled(graph):
    deadline = time.monotonic() + 30
    while True:
        try:
            return graph.replay(workers=1)
        except GraphError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_ctrl_c_reaches_a_replay_whose_other_worker_is_stuck(tried):
    script = (
        PRELUDE
        + """
    stuck = threading.Event()
    def body(task):
        if threading.current_thread() is threading.main_thread():
            stuck.wait()
        else:
            stuck.set()
            print("ready", flush=True)
            time.sleep(3600)
    try:
        Graph.from_edges(40, [], [body]).replay(workers=2)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(0)
    """
    )
    done = run_script(script, send=(0.3, signal.SIGINT))
    assert (done.returncode, done.stderr) == (0, "") and "interrupted" in done.stdout
    tried("planted faults")


def test_a_stall_is_reported_when_no_thread_is_left(tried):
    """Every worker ends its thread and the system starts no others: said so, not waited for."""
    script = (
        PRELUDE
        + """
    import ctypes, resource
    leave = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ctypes.cast(ctypes.CDLL(None).pthread_exit, ctypes.c_void_p).value
    )
    warm = Graph.from_edges(64, [], [kernel("empty")])
    warm.replay(workers=2, timeout_s=60)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))  # no room for a new thread
    graph = Graph.from_edges(64, [], [leave], names=["leaver"])
    try:
        graph.replay(workers=2, timeout_s=60)
    except GraphStalled as error:
        print("stalled:", error)
    resource.setrlimit(resource.RLIMIT_AS, limits)
    print(warm.replay(workers=2, timeout_s=60).executed)
    """
    )
    done = run_script(script)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "no other can be started; 62 tasks did not run" in done.stdout and "leaver[" in done.stdout
    assert done.stdout.splitlines()[-1] == "64"
    tried("planted faults")


@pytest.mark.parametrize("timeout_s", [0, -1, "soon", True, float("nan"), float("inf")])
def test_malformed_limits(timeout_s, tried):
    with pytest.raises(BadInput, match="timeout_s"):
        Graph([0], []).replay(timeout_s=timeout_s)
    tried("malformed inputs")
