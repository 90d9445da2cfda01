"""The Python face of the runtime: arguments, dependencies, scopes, results, observability."""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import threading
import time
import weakref

import numpy as np
import pytest

from whet.errors import BadInput, Cancelled
from whet.graph import (
    NUMBA_SIGNATURE,
    POLICIES,
    SIGNATURE,
    GraphClosed,
    GraphDeadlock,
    GraphTimeout,
    In,
    InOut,
    NoDep,
    Out,
    OutExisting,
    Runtime,
    TaskFailed,
    kernel,
)
from whet.graph.observe import Peak, chrome_trace, dot, write_trace


@pytest.fixture(params=POLICIES)
def rt(request):
    # Three workers of which the test itself is one that does not help: two bodies run at once, and waits can end.
    options = {"workers": 3, "submitter_helps": False, "record_edges": True, "trace": "tasks"}
    with Runtime(policy=request.param, **options) as runtime:
        yield runtime


@pytest.fixture
def gate(rt):
    """An event that bodies wait for. It is set before the runtime closes, whatever the test did."""
    event = threading.Event()
    yield event
    event.set()


def edges(runtime) -> set[tuple[int, int]]:
    return {(producer, consumer) for producer, consumer, _ in runtime.recorded_edges()}


def test_outputs_flow_from_task_to_task(rt):
    source = np.arange(6.0)
    doubled = rt.submit(lambda x, out: np.multiply(x, 2, out=out), In(source), Out(6))
    total = rt.submit(lambda x: float(x.sum()), In(doubled))
    assert total.result() == 30.0
    assert doubled.outputs[0].tolist() == [0, 2, 4, 6, 8, 10]


def test_a_task_as_an_argument_passes_its_result(rt):
    first = rt.submit(lambda: 20)
    second = rt.submit(lambda a, b: a + b, first, 22)
    assert second.result() == 42
    assert edges(rt) == {(first.id, second.id)}


def test_read_after_write_write_after_write_and_write_after_read(rt, gate):
    x = np.zeros(8)
    w0 = rt.submit(lambda a: gate.wait(10), OutExisting(x))
    r1 = rt.submit(lambda a: None, In(x))
    r2 = rt.submit(lambda a: None, In(x))
    w3 = rt.submit(lambda a: None, OutExisting(x))
    u4 = rt.submit(lambda a: None, InOut(x))
    gate.set()
    rt.wait()
    found = edges(rt)
    assert {(w0.id, r1.id), (w0.id, r2.id), (r1.id, w3.id), (r2.id, w3.id), (w3.id, u4.id)} <= found
    assert (r1.id, r2.id) not in found


def test_strided_views_conflict_exactly_where_they_share_bytes(rt, gate):
    grid = np.zeros((8, 8))
    hold = rt.submit(lambda a: gate.wait(10), OutExisting(grid[:, :4]))
    right = rt.submit(lambda a: None, In(grid[:, 4:]))
    left = rt.submit(lambda a: None, In(grid[2:4, 3:6]))
    rt.wait_for(right, 10)
    gate.set()
    rt.wait()
    assert (hold.id, left.id) in edges(rt)
    assert (hold.id, right.id) not in edges(rt)


def test_views_of_one_buffer_through_different_objects_are_the_same_memory(rt, gate):
    raw = bytearray(64)
    low, high = np.frombuffer(raw, np.uint8), np.frombuffer(memoryview(raw)[32:], np.uint8)
    writer = rt.submit(lambda a: gate.wait(10), OutExisting(low))
    reader = rt.submit(lambda a: None, In(high))
    gate.set()
    rt.wait()
    assert (writer.id, reader.id) in edges(rt)


def test_negative_strides_are_tracked_for_python_bodies(rt, gate):
    x = np.arange(10.0)
    writer = rt.submit(lambda a: gate.wait(10), OutExisting(x[2:4]))
    backwards = rt.submit(lambda a: a.tolist(), In(x[3::-1]))
    elsewhere = rt.submit(lambda a: None, In(x[9:5:-1]))
    rt.wait_for(elsewhere, 10)
    gate.set()
    assert backwards.result() == [3, 2, 1, 0]
    assert (writer.id, backwards.id) in edges(rt) and (writer.id, elsewhere.id) not in edges(rt)
    with pytest.raises(BadInput, match="negative strides"):
        rt.submit(kernel("empty"), In(x[::-1]))


def test_no_dep_opts_out_and_empty_arrays_touch_nothing(rt, gate):
    x = np.zeros(4)
    rt.submit(lambda a: gate.wait(10), OutExisting(x))
    free = rt.submit(lambda a: 1, NoDep(x))
    nothing = rt.submit(lambda a: a.size, In(x[2:2]))
    assert free.result(10) == 1 and nothing.result(10) == 0
    gate.set()


def test_a_python_body_cannot_write_what_it_only_reads(rt):
    x = np.zeros(3)

    def meddle(a):
        a[0] = 1

    rt.submit(meddle, In(x), name="meddle")
    with pytest.raises(TaskFailed, match="meddle") as caught:
        rt.wait()
    assert isinstance(caught.value.__cause__, ValueError)
    assert x.tolist() == [0, 0, 0]


def test_read_only_arrays_may_only_be_read(rt):
    frozen = np.frombuffer(b"12345678", np.uint8)
    assert rt.submit(bytes, In(frozen)).result() == b"12345678"
    for direction in (InOut, OutExisting):
        with pytest.raises(BadInput, match="read-only"):
            direction(frozen)


def test_explicit_dependencies_and_barriers(rt):
    log = []
    first = [rt.submit(lambda i=i: log.append(i)) for i in range(20)]
    gate = rt.barrier(first)
    last = rt.submit(lambda: log.append("end"), after=[gate])
    rt.wait()
    assert log[-1] == "end" and sorted(log[:-1]) == list(range(20))
    assert (gate.id, last.id) in edges(rt)


def test_manual_scopes_track_nothing(rt):
    x = np.zeros(4)
    with rt.scope(manual=True):
        a = rt.submit(lambda v: None, OutExisting(x))
        b = rt.submit(lambda v: None, InOut(x))
        c = rt.submit(lambda v: None, InOut(x), after=[a])
    rt.wait()
    assert edges(rt) == {(a.id, c.id)} and b.id == 1


def test_scopes_must_nest(rt):
    with pytest.raises(BadInput, match="automatic scope"), rt.scope(manual=True), rt.scope():
        pass
    assert rt.submit(lambda: 5).result() == 5


@pytest.mark.parametrize("policy", POLICIES)
def test_outputs_live_to_the_end_of_their_scope(policy):
    """Ten windows of other tasks pass before the output is read: in its scope it must still be there."""
    with Runtime(policy=policy, workers=2, window=64, heap_bytes=64 << 10) as rt, rt.scope():
        kept = rt.submit(lambda out: out.fill(7), Out(16))
        for _ in range(40):
            rt.submit(lambda out: out.fill(1), Out(16))
        assert rt.submit(lambda a: a.tolist(), In(kept)).result() == [7.0] * 16


@pytest.mark.parametrize("policy", POLICIES)
def test_a_scope_that_does_not_fit_is_a_deadlock_with_names_and_cure(policy):
    with Runtime(policy=policy, workers=2, window=8) as rt:
        with pytest.raises(GraphDeadlock, match=r"8 of 8") as caught, rt.scope():
            for i in range(20):
                rt.submit(lambda: None, name=f"step{i}")
        assert caught.value.ring == "window" and caught.value.option == "window"
        assert "step0" in str(caught.value) and "raise window" in str(caught.value)
        rt.wait()
        with pytest.raises(GraphDeadlock) as caught:
            rt.submit(lambda out: None, Out(2**30))
        assert caught.value.option == "heap_bytes"


def test_native_bodies_from_ctypes_get_tensors_scalars_and_user(rt):
    seen = []

    @SIGNATURE
    def body(tensors, scalars, user):
        values = ctypes.cast(tensors[0], ctypes.POINTER(ctypes.c_double))
        values[0] += ctypes.c_int64(scalars[0]).value
        seen.append(np.uint64(scalars[1]).view(np.float64))
        return 0

    x = np.zeros(2)
    rt.submit(body, InOut(x), -5, 2.5)
    rt.submit(body, InOut(x[:1]), True, 0.5)
    rt.wait()
    assert x.tolist() == [-4.0, 0.0] and seen == [2.5, 0.5]


def test_native_bodies_from_cffi(rt):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()

    @ffi.callback("int(void**, const uint64_t*, void*)")
    def body(tensors, scalars, user):
        ffi.cast("double*", tensors[0])[0] += scalars[0]
        return 0

    x = np.zeros(1)
    rt.submit(body, InOut(x), 7)
    rt.submit(body, InOut(x), 8)
    rt.wait()
    assert x[0] == 15
    with pytest.raises(BadInput, match="null"):
        rt.submit(ffi.cast("int(*)(void**, const uint64_t*, void*)", 0))


def test_native_bodies_from_numba_run_without_the_lock(rt):
    """While the body computes, this thread keeps running Python: a held lock would let it look once or twice only."""
    numba = pytest.importorskip("numba")

    @numba.cfunc(NUMBA_SIGNATURE)
    def churn(tensors, scalars, user):
        state = numba.carray(tensors[0], 1, np.uint64)
        value = state[0]
        for _ in range(scalars[0]):
            value = value * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        state[0] = value
        return 0

    state = np.ones(1, np.uint64)
    begun = rt.submit(churn, InOut(state), 1)
    long = rt.submit(churn, InOut(state), 100_000_000)
    looks = 0
    while not begun.done():
        pass
    while not long.done():
        looks += 1
    rt.wait()
    assert looks > 1000 and state[0] != 1


def test_native_memory_stays_alive_until_the_task_is_done(rt, gate):
    hold = rt.submit(gate.wait)
    arrays = []
    for _ in range(50):
        array = np.ones(1000)
        arrays.append(weakref.ref(array))
        rt.submit(kernel("empty"), InOut(array), after=[hold])
    del array
    gc.collect()
    assert all(ref() is not None for ref in arrays)
    gate.set()
    rt.wait()
    gc.collect()
    assert all(ref() is None for ref in arrays)


def test_the_first_error_is_raised_with_its_name_and_the_rest_finishes(rt):
    x, y = np.zeros(1), np.zeros(1)

    def boom(a):
        raise KeyError("lost")

    def plus(a):
        a += 1

    rt.submit(plus, InOut(x))
    bad = rt.submit(boom, InOut(x), name="boom7")
    after = rt.submit(plus, InOut(x))
    for _ in range(5):
        rt.submit(plus, InOut(y))
    with pytest.raises(TaskFailed, match=r"boom7.*KeyError") as caught:
        rt.wait()
    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.task, caught.value.name) == (bad.id, "boom7")
    assert x[0] == 1 and y[0] == 5
    with pytest.raises((TaskFailed, Cancelled)):
        boom_again = rt.submit(boom, InOut(x))
        rt.submit(plus, InOut(x))
        boom_again.wait()
    with pytest.raises(TaskFailed):
        rt.wait()
    assert after.done() and rt.submit(plus, InOut(x)).result() is None and x[0] == 2


def test_waits_end_in_time_and_name_what_runs():
    with Runtime(workers=2, submitter_helps=False) as rt:
        gate = threading.Event()
        rt.submit(gate.wait, 5, name="patient")
        with pytest.raises(GraphTimeout, match=r"patient.*runs on worker 1"):
            rt.wait(0.2)
        stuck = rt.watchdog()
        assert stuck[0].running and stuck[0].name == "patient"
        gate.set()
        rt.wait()


def test_cancel_drops_what_has_not_begun():
    with Runtime(workers=2, submitter_helps=False) as rt:
        begun, gate, ran = threading.Event(), threading.Event(), []
        first = rt.submit(lambda: (begun.set(), gate.wait(10)))
        for i in range(30):
            rt.submit(lambda i=i: ran.append(i), after=[first])
        begun.wait(10)
        rt.cancel()
        gate.set()
        with pytest.raises(Cancelled):
            rt.wait()
        assert ran == [] and rt.totals()["cancelled"] == 30
        assert rt.submit(lambda: 3).result() == 3


def test_bodies_may_not_wait_for_their_own_runtime(rt):
    for misuse in (lambda: rt.map(len, ["a"]), rt.wait, rt.close, rt.submit(len, "a").wait):
        rt.submit(misuse)
        with pytest.raises(TaskFailed) as caught:
            rt.wait()
        assert isinstance(caught.value.__cause__, BadInput)


def test_a_closed_runtime_says_so(rt):
    task = rt.submit(lambda: 1)
    rt.wait()
    rt.close()
    rt.close()
    for use in (lambda: rt.submit(None), rt.wait):
        with pytest.raises(GraphClosed):
            use()
    assert task.result() == 1  # what became of a task stays known


def test_other_threads_may_submit_in_turn(rt):
    x = np.zeros(1)

    def add(a):
        a += 1

    def many():
        for _ in range(50):
            rt.submit(add, InOut(x))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rt.wait()
    assert x[0] == 200


def test_no_task_objects_are_left_behind():
    """Leak check: bodies and arguments are all gone after the wait, results after their tasks."""

    class Thing:
        pass

    things = weakref.WeakSet()
    with Runtime(workers=2) as rt:
        for _ in range(100):
            thing = Thing()
            things.add(thing)
            rt.submit(lambda t: None, thing)
        del thing
        rt.wait()
        gc.collect()
        assert len(things) == 0


def test_trace_opens_in_perfetto_and_orders_dependents(rt, tmp_path):
    x = np.zeros(1)
    for i in range(6):
        rt.submit(lambda a: time.sleep(0.001), InOut(x), name=f"step{i % 2}")
    rt.wait()
    spans = rt.spans()
    assert sorted(s.task for s in spans) == list(range(6))
    in_order = sorted(spans, key=lambda s: s.task)
    assert all(a.end_ns <= b.begin_ns for a, b in itertools.pairwise(in_order))
    path = tmp_path / "trace.json"
    write_trace(path, spans, [(a, b) for a, b, _ in rt.recorded_edges()])
    check_chrome_trace(json.loads(path.read_text()), tasks=6, arrows=5)
    phases = rt.phases()
    assert sum(worker["body"][1] for worker in phases) >= 6
    assert sum(worker["body"][0] for worker in phases) >= 6_000_000


def check_chrome_trace(trace, *, tasks: int, arrows: int) -> None:
    """What Perfetto's importer of JSON traces insists on."""
    assert set(trace) == {"traceEvents", "displayTimeUnit"} and trace["displayTimeUnit"] in ("ns", "ms")
    by_phase: dict[str, list[dict]] = {}
    for event in trace["traceEvents"]:
        by_phase.setdefault(event["ph"], []).append(event)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and isinstance(event["name"], str)
    assert set(by_phase) <= {"M", "X", "s", "f"}
    assert len(by_phase["X"]) == tasks
    for event in by_phase["X"]:
        assert event["ts"] >= 0 and event["dur"] >= 0
    assert {e["name"] for e in by_phase["M"]} >= {"process_name", "thread_name"}
    lanes = {e["tid"] for e in by_phase["X"]}
    assert sorted(e["tid"] for e in by_phase["M"] if e["name"] == "thread_name") == sorted(lanes)
    assert len({e["pid"] for e in trace["traceEvents"]}) == 1
    for lane in lanes:
        # Slices of a lane come in the order of time, and one ends before the next begins.
        own = [e for e in by_phase["X"] if e["tid"] == lane]
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in itertools.pairwise(own))
    starts = {e["id"]: e for e in by_phase.get("s", [])}
    ends = {e["id"]: e for e in by_phase.get("f", [])}
    assert len(starts) == len(ends) == arrows and starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"] and ends[number]["bp"] == "e"
        # A flow event binds to the slice that encloses it.
        for event in (start, ends[number]):
            assert any(s["tid"] == event["tid"] and s["ts"] <= event["ts"] <= s["ts"] + s["dur"] for s in by_phase["X"])


def test_an_empty_trace_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no spans"):
        write_trace(tmp_path / "t.json", [])
    assert chrome_trace([])["traceEvents"]


def test_dot_shows_names_and_kinds_of_edges():
    text = dot({0: 'say "x"', 1: "sf"}, [(0, 1, "data"), (0, 1, "given")])
    assert 't0 [label="say \\"x\\" 0"];' in text
    assert "t0 -> t1 [style=solid];" in text and "t0 -> t1 [style=bold];" in text


def test_advice_follows_the_peaks():
    assert "window=128" in Peak("window", 0, 64, 64, 9).advice
    assert "would do" in Peak("window", 0, 10, 16384, 0).advice
    assert Peak("window", 0, 8000, 16384, 0).advice == "fits"


def test_many_workers_on_few_cores():
    x = np.zeros(1)

    def add(a):
        a += 1

    with Runtime(workers=16, window=32) as rt:
        for _ in range(200):
            rt.submit(add, InOut(x))
        rt.wait()
    assert x[0] == 200


@pytest.mark.parametrize("policy", ["wired", "polling", "hybrid"])
@pytest.mark.parametrize("tasks", [0, 1000])
def test_an_idle_runtime_costs_nothing(policy, tasks):
    """Workers that poll take naps while tasks are unfinished; afterwards they sleep until somebody calls."""
    with Runtime(policy=policy, workers=2) as runtime:
        for _ in range(tasks):
            runtime.submit(lambda: None)
        runtime.wait()
        time.sleep(0.1)
        wall, cpu = time.monotonic(), time.process_time()
        time.sleep(0.5)
        assert time.process_time() - cpu < 0.02 * (time.monotonic() - wall)
