"""Faults from outside and from bodies: each ends in a typed error, the process survives, nothing hangs."""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whet.errors import BadInput, WhetError
from whet.graph import (
    POLICIES,
    SIGNATURE,
    Graph,
    GraphDeadlock,
    GraphTimeout,
    In,
    InOut,
    KernelNotFound,
    NoDep,
    Out,
    OutExisting,
    Runtime,
    TaskFailed,
    kernel,
    load,
)


def run_script(text: str, *, limit_s: float = 60, send: tuple[float, int] | None = None) -> subprocess.CompletedProcess:
    """A fresh interpreter; with `send`, a signal so many seconds after it has printed `ready`."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        if send is not None:
            assert child.stdout.readline().strip() == "ready"
            time.sleep(send[0])
            child.send_signal(send[1])
        out, err = child.communicate(timeout=limit_s)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), GeneratorExit(), MemoryError()])
def test_a_body_that_raises(policy, error, tried):
    def bad():
        raise error

    with Runtime(policy=policy, workers=2) as rt:
        rt.submit(bad, name="bad")
        with pytest.raises(TaskFailed, match="bad") as caught:
            rt.wait()
        assert caught.value.__cause__ is error
        assert rt.submit(lambda: 7).result() == 7
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_native_body_that_ends_its_thread(policy, tried):
    """pthread_exit in a worker: the task fails, the worker is replaced, everything else finishes."""
    libc = ctypes.CDLL(None)
    address = ctypes.cast(libc.pthread_exit, ctypes.c_void_p).value
    leave = SIGNATURE(address)
    x = np.zeros(1)

    def add(a):
        a += 1

    with Runtime(policy=policy, workers=2, submitter_helps=False) as rt:
        bad = rt.submit(leave, name="leaver")
        rt.submit(lambda: None, after=[bad])
        for _ in range(20):
            rt.submit(add, InOut(x))
        with pytest.raises(TaskFailed, match=r"leaver.*ended its thread"):
            rt.wait(20)
        assert x[0] == 20
        assert rt.submit(lambda: 7).result(20) == 7
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stall_is_reported_with_what_waits(policy, tried):
    """The only worker is gone and cannot be replaced: nothing runs, tasks are left, and the wait says so by itself."""
    script = (
        PRELUDE
        + f"""
    import ctypes, resource
    from whet.graph import GraphStalled
    leave = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ctypes.cast(ctypes.CDLL(None).pthread_exit, ctypes.c_void_p).value
    )
    rt = Runtime(policy={policy!r}, workers=2, submitter_helps=False, stall_s=0.3)
    rt.submit(kernel("empty"), name="warm")
    rt.wait()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))  # no room for a new thread
    rt.submit(leave, name="leaver")
    while rt.totals()["completed"] < 2:
        time.sleep(0.01)
    held = rt.submit(kernel("empty"), name="held")
    rt.submit(kernel("empty"), after=[held], name="follower")
    try:
        rt.wait(20)
    except GraphStalled as error:
        print("stalled:", error)
        sys.stdout.flush()
        os._exit(0)
    os._exit(3)
"""
    )
    done = run_script(script)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "held" in done.stdout and "follower" in done.stdout and "waits for" in done.stdout
    tried("planted faults")


def test_a_body_that_never_returns_is_named_and_left_behind(tried):
    gate = threading.Event()
    rt = Runtime(workers=2, submitter_helps=False)
    rt.submit(gate.wait, name="endless")
    follower = rt.submit(lambda: None, name="follower", after=[0])
    with pytest.raises(GraphTimeout, match="endless"):
        rt.wait(0.2)
    waiting = {s.name: s for s in rt.watchdog()}
    assert waiting["endless"].running and waiting["follower"].waits_for == [0]
    with pytest.raises(GraphTimeout, match="did not return"):
        rt.close(0.3)
    gate.set()
    assert follower.name == "follower"
    tried("planted faults", 2)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_ready_queue_smaller_than_the_burst(policy, tried):
    """One producer frees 300 tasks at once into queues of one."""
    x = np.zeros(300)

    def add(a):
        a += 1

    with Runtime(policy=policy, workers=2, ready_capacity=1, window=512) as rt:
        gate = threading.Event()
        first = rt.submit(lambda: gate.wait(0.2))
        for i in range(300):
            rt.submit(add, InOut(x[i : i + 1]), after=[first])
        gate.set()
        rt.wait()
    assert (x == 1).all()
    tried("planted faults")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [4, 8, 16, 32])
def test_tiny_windows_push_back_and_finish(policy, window):
    x = np.zeros(1)

    def add(a):
        a += 1

    with Runtime(policy=policy, workers=3, window=window) as rt:
        for _ in range(10 * window):
            rt.submit(add, InOut(x))
        rt.wait()
        assert rt.peaks()["window"].peak <= window
    assert x[0] == 10 * window


def test_a_missing_library_shows_the_loaders_own_words(tmp_path, tried):
    missing = tmp_path / "libnothing.so"
    with pytest.raises(KernelNotFound, match="cannot open shared object file") as caught:
        load(missing, "step")
    assert str(missing) in str(caught.value) and "step" in str(caught.value)
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(KernelNotFound, match=r"too short|invalid ELF"):
        load(text, "step")
    tried("planted faults", 2)
    for library, symbol in ((None, "step"), (3, "step"), (text, 5), (text, "")):
        with pytest.raises(BadInput, match="names no library"):
            load(library, symbol)
        tried("malformed inputs")


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_is_loaded_and_a_missing_symbol_named(tmp_path, tried):
    source = tmp_path / "body.c"
    source.write_text(
        "#include <stdint.h>\n"
        "int step(void** t, const uint64_t* s, void* u) { (void)u; *(double*)t[0] += (double)s[0]; return 0; }\n"
    )
    library = tmp_path / "libbody.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    x = np.zeros(1)
    with Runtime(workers=2) as rt:
        body = load(library, "step")
        for _ in range(5):
            rt.submit(body, InOut(x), 3)
    assert x[0] == 15
    with pytest.raises(KernelNotFound, match="undefined symbol") as caught:
        load(library, "stepp")
    assert caught.value.symbol == "stepp" and caught.value.library == str(library)
    tried("planted faults")


PRELUDE = """
    import os, sys, threading, time
    import numpy as np
    from whet.graph import *
"""


@pytest.mark.parametrize("where", ["wait", "submit", "replay", "body"])
def test_ctrl_c_ends_in_keyboard_interrupt(where, tried):
    """The interrupt comes out as itself, tasks that have not begun are dropped, and the process ends by itself."""
    setups = {
        "wait": "rt.submit(time.sleep, 1.0)\n    print('ready', flush=True)\n    rt.wait()",
        "submit": (
            "gate = rt.submit(time.sleep, 1.0)\n    print('ready', flush=True)\n"
            "    for _ in range(100):\n        rt.submit(ran.append, 1, after=[gate])"
        ),
        "replay": (
            "print('ready', flush=True)\n"
            "    Graph.from_edges(4000, [], [kernel('spin').with_user(np.array([10**6], np.uint64))]).replay(workers=1)"
        ),
        "body": "print('ready', flush=True)\n    rt.submit(time.sleep, 30)\n    rt.wait()",
    }
    helps = where == "body"
    workers = 1 if helps else 2
    script = PRELUDE + textwrap.indent(
        f"""
ran = []
rt = Runtime(workers={workers}, window=8, submitter_helps={helps})
try:
    {setups[where]}
except KeyboardInterrupt:
    print("interrupted", len(ran), flush=True)
    rt.close(5)
    sys.exit(0)
sys.exit(9)
""",
        "    ",
    )
    done = run_script(script, send=(0.3, signal.SIGINT))
    assert done.returncode == 0, done.stderr
    assert "interrupted 0" in done.stdout
    tried("planted faults")


def test_a_forked_child_is_told_and_may_make_its_own(tried):
    script = (
        PRELUDE
        + """
    rt = Runtime(workers=2)
    rt.submit(lambda: None); rt.wait()
    child = os.fork()
    if child == 0:
        try:
            rt.submit(lambda: None)
        except GraphForked:
            pass
        else:
            os._exit(3)
        with Runtime(workers=2) as own:
            assert own.submit(lambda: 5).result() == 5
        Graph.from_edges(100, [(i, i + 1) for i in range(99)]).replay(workers=2)
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert rt.submit(lambda: 6).result() == 6
    rt.close()
    sys.exit(os.waitstatus_to_exitcode(status))
    """
    )
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    tried("planted faults")


@pytest.mark.parametrize("ending", ["sys.exit(0)", "pass", "del rt", "raise SystemExit(0)"])
def test_the_interpreter_ends_cleanly_with_tasks_in_flight(ending, tried):
    script = (
        PRELUDE
        + f"""
    rt = Runtime(workers=3)
    for _ in range(200):
        rt.submit(time.sleep, 0.001)
    {ending}
    """
    )
    done = run_script(script)
    assert (done.returncode, done.stderr) == (0, "")
    tried("planted faults")


def test_the_interpreter_ends_although_a_body_does_not(tried):
    script = (
        PRELUDE
        + """
    import whet.graph.runtime as module
    module.CLOSE_AT_EXIT_S = 0.3
    rt = Runtime(workers=2, submitter_helps=False)
    rt.submit(time.sleep, 3600)
    time.sleep(0.1)
    """
    )
    done = run_script(script, limit_s=30)
    assert done.returncode == 0, done.stderr
    tried("planted faults")


def test_a_running_runtime_may_be_garbage(tried):
    def leave_one():
        rt = Runtime(workers=2)
        for _ in range(50):
            rt.submit(time.sleep, 0.001)

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = threads()
    for _ in range(10):
        leave_one()
    deadline = time.monotonic() + 20
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() <= before
    tried("planted faults", 10)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.binary(max_size=3),
    st.lists(st.integers(-3, 3), max_size=3), st.just(object()), st.just(np.zeros(3)), st.just(np.zeros(3)[::-1]),
    st.just(np.zeros((0, 4))), st.just(np.array([None, 1])), st.just(np.float32(2.5)), st.just(2**63),
)  # fmt: skip


BODY = st.one_of(ANYTHING, st.just(kernel("empty")), st.just(print))


@st.composite
def arguments(draw):
    makers = [In, InOut, OutExisting, NoDep, Out, lambda x: x, lambda x: Out(4, x)]
    return [(draw(st.sampled_from(makers)), draw(ANYTHING)) for _ in range(draw(st.integers(0, 4)))]


@pytest.fixture(scope="module")
def shared_runtime():
    with Runtime(workers=2, window=64, heap_bytes=1 << 20) as rt:
        yield rt


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.one_of(ANYTHING, st.just(kernel("empty")), st.just(print)), given=arguments(), after=ANYTHING, name=ANYTHING
)
def test_malformed_submissions_are_typed_errors_or_tasks(shared_runtime, body, given, after, name):
    """Whatever is passed: a WhetError with a cure, or a task; and the runtime goes on working."""
    rt = shared_runtime
    try:
        made = [make(value) for make, value in given]
        if body is print:
            body = lambda *_: None  # noqa: E731
        rt.submit(body, *made, after=after if after is not None else (), name=name)
        rt.wait()
    except WhetError as error:
        assert str(error)
    assert rt.submit(lambda: 1).result() == 1


OPTIONS = {
    "policy": ["", "Hybrid", None, 3],
    "workers": [0, -1, 1.5, "2", 10**9, True],
    "window": [0, 3, 5, 2, -4, 4.0, 2**31, "8", 100],
    "heap_bytes": [0, -1, 1.5, "x", 2**63],
    "retain": ["for ever", None],
    "wake_target": ["all", 1],
    "ready_capacity": [0, -1, 0.5],
    "tensormap_capacity": [0, 3, 100, 2**40],
    "output_align": [0, 7, 48, -64],
    "stall_s": [0, -1, "soon", float("nan"), float("inf"), True],
    "trace": ["on", True],
    "trace_capacity": [0, -5],
}


@pytest.mark.parametrize("option", OPTIONS)
def test_malformed_options_name_themselves(option, tried):
    for value in OPTIONS[option]:
        with pytest.raises(BadInput, match=option):
            Runtime(**{option: value})
        tried("malformed inputs")


@pytest.mark.parametrize("dtype", [b"\x00,", b",", "x9", "i4,,", {"names": 3}, object, "V0", [("a", "q", -1)]])
def test_types_that_numpy_does_not_know(dtype, tried):
    with pytest.raises(BadInput, match="Out"):
        Out(4, dtype)
    tried("malformed inputs")


def test_dependencies_on_unknown_and_foreign_tasks():
    with Runtime(workers=1) as rt, Runtime(workers=1) as other:
        task = other.submit(lambda: None)
        for after in ([99], [-1], [True], ["0"], [task], task, 5, [None]):
            with pytest.raises(BadInput):
                rt.submit(None, after=after)
        foreign = other.submit(lambda out: None, Out(4))
        with pytest.raises(BadInput, match="another runtime"):
            rt.submit(lambda a: None, In(foreign))


def test_a_retired_task_is_a_dependency_that_is_met():
    with Runtime(workers=2, window=4) as rt:
        old = rt.submit(lambda: 1)
        for _ in range(50):
            rt.submit(None)
        assert rt.submit(lambda: 2, after=[old]).result() == 2


def test_more_memory_than_there_is():
    with pytest.raises((BadInput, GraphDeadlock, MemoryError)):
        Runtime(heap_bytes=2**61)


def test_a_cycle_in_a_built_graph_is_bad_input():
    with pytest.raises(BadInput, match="cycle"):
        Graph.from_edges(2, [(0, 1), (1, 0)])
