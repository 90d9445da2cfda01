"""What a program may hand over that is not what it seems: objects that pose as arrays, views larger than memory, ids of
tasks that are not there, exceptions that cannot be printed, memory that may not be written."""

from __future__ import annotations

import dataclasses
import mmap
import types

import numpy as np
import pytest

from whet.errors import BadInput
from whet.graph import (
    SIGNATURE,
    Batch,
    Graph,
    GraphTimeout,
    In,
    InOut,
    OutExisting,
    Runtime,
    TaskFailed,
    as_completed,
    gather,
    kernel,
    workloads,
)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fail() -> None:
    raise Unprintable


def test_an_exception_that_cannot_be_printed_is_still_the_tasks_own():
    with Runtime(workers=2) as rt:
        task = rt.submit(fail, name="fail")
        with pytest.raises(TaskFailed, match=r"task 0 \(fail\) raised Unprintable") as caught:
            task.result()
        assert isinstance(caught.value.__cause__, Unprintable)
        with pytest.raises(TaskFailed, match="Unprintable"):
            rt.wait()


def test_a_replay_tells_of_an_exception_that_cannot_be_printed():
    with pytest.raises(TaskFailed, match="raised Unprintable") as caught:
        Graph.from_edges(1, [], [lambda number: fail()]).replay(workers=1)
    assert isinstance(caught.value.__cause__, Unprintable)


@pytest.mark.parametrize("name", ["solve(3, 4)", "a) returned 7", "(", "done: (yes)", "x returned 1"])
@pytest.mark.parametrize("is_native", [False, True])
def test_a_failure_has_the_whole_name_of_its_task(name, is_native):
    body = SIGNATURE(lambda tensors, scalars, user: 7) if is_native else lambda: 1 // 0
    with Runtime(workers=2) as rt:
        failed = rt.submit(body, name=name).exception()
        assert failed.name == name
        assert f"task 0 ({name}) " in str(failed)
        with pytest.raises(TaskFailed):
            rt.wait()


class Posing:
    """Has what is asked of an array, and is none."""

    dtype, shape, strides, size, itemsize, base = np.dtype(float), (4,), (8,), 4, 8, None
    flags = types.SimpleNamespace(writeable=True)
    ctypes = types.SimpleNamespace(data=4096)


@pytest.mark.parametrize("make", [In, InOut, OutExisting])
def test_what_poses_as_the_output_of_a_task_is_no_array(make):
    with pytest.raises(BadInput, match="Posing"):
        make(types.SimpleNamespace(outputs=(Posing(),)))


@pytest.mark.parametrize("length", [2**62, 2**62 + 1, 2**62 + 2, 2**61 + 1])
@pytest.mark.parametrize("stride", [4, -4, 8])
def test_a_view_larger_than_memory_is_not_taken_for_a_small_one(length, stride):
    """Its extent overflows 64 bits; wrapped around it would lie inside the buffer and miss its neighbours."""
    memory = np.zeros(16, np.int8)
    huge = np.lib.stride_tricks.as_strided(memory[8:], (length,), (stride,), writeable=False)
    with Runtime(workers=1, record_edges=True) as rt:
        rt.submit(None, InOut(memory[12:16]))
        rt.submit(None, InOut(memory[0:4]))
        with pytest.raises(BadInput, match="larger than memory"):
            rt.submit(None, In(huge))


UNKNOWN = [np.array([5], np.uint64), np.array([0, 2**64 - 1], np.uint64)]


@pytest.mark.parametrize("ids", UNKNOWN)
@pytest.mark.parametrize("call", ["wait_all_of", "wait_any_of", "states", "cancel_these"])
def test_ids_of_tasks_that_were_never_submitted_are_refused(call, ids):
    with Runtime(workers=2) as rt:
        rt.submit(None).wait()
        with pytest.raises(BadInput, match="never submitted"):
            getattr(rt, call)(ids)
        assert rt.submit(lambda: 7).result() == 7  # has number 1: it was not cancelled in advance


@pytest.mark.parametrize("ids", [[0.5], "0", [[0]], [-1], None, [True]])
@pytest.mark.parametrize("call", ["wait_all_of", "wait_any_of", "states", "cancel_these"])
def test_ids_that_are_no_numbers_are_refused(call, ids):
    with Runtime(workers=2) as rt:
        rt.submit(None).wait()
        with pytest.raises(BadInput, match="tasks"):
            getattr(rt, call)(ids)


def test_ids_may_be_any_whole_numbers():
    with Runtime(workers=2) as rt:
        for _ in range(8):
            rt.submit(None)
        rt.wait_all_of(range(8))
        assert rt.states(np.arange(8, dtype=np.uint64)[::-2]).tolist() == [2] * 4
        assert rt.states([]).tolist() == []


def test_a_task_is_withdrawn_and_told_of_where_it_belongs():
    with Runtime(workers=1) as mine, Runtime(workers=1) as other:
        own, foreign = mine.submit(kernel("empty")), other.submit(kernel("empty"))
        for call in (mine.withdraw, mine.tell, lambda task: mine.notify(task, print)):
            with pytest.raises(BadInput, match="another runtime"):
                call(foreign)
        own.result()
        foreign.result()


@pytest.mark.parametrize("timeout", ["1", b"", [], object(), float("nan"), 1j])
def test_limits_that_are_no_seconds_are_typed(timeout):
    with Runtime(workers=2) as rt:
        task = rt.submit(lambda: 1)
        for call in (task.result, task.exception, gather(task).results, lambda t: list(as_completed([task], t))):
            with pytest.raises(BadInput, match="timeout"):
                call(timeout)
        for now in (0, -1, 0.0):
            assert task.wait() is None
            assert task.result(now) == 1
        assert list(as_completed([task], 0)) == [task]


def test_no_limit_can_be_written_as_infinity():
    with Runtime(workers=2) as rt:
        assert rt.submit(lambda: 1).result(float("inf")) == 1


def test_zero_seconds_ask_without_waiting():
    with Runtime(workers=2, submitter_helps=False) as rt:
        task = rt.submit(kernel("spin").with_user(np.array([50_000_000], np.uint64)))
        with pytest.raises(GraphTimeout):
            task.result(0)


def chain(tasks: int = 3) -> workloads.Workload:
    work = workloads.make("chain")
    return dataclasses.replace(
        work,
        kind=work.kind[:tasks],
        accesses=work.accesses[:tasks],
        dep_start=work.dep_start[: tasks + 1],
        dep_task=work.dep_task[: tasks - 1],
    )


def test_a_batch_does_not_write_to_memory_that_may_only_be_read():
    read_only = np.frombuffer(mmap.mmap(-1, 4096, prot=mmap.PROT_READ), np.uint8)
    with pytest.raises(BadInput, match="read-only"):
        Batch(chain(), [kernel("empty")], buffers={0: read_only})
    work = chain()
    accesses = work.accesses.copy()
    accesses["direction"] = 0  # reads alone
    with Runtime(workers=2) as rt:
        Batch(dataclasses.replace(work, accesses=accesses), [kernel("empty")], buffers={0: read_only}).submit(rt)


@pytest.mark.parametrize("buffers", [{0: b"x" * 64}, {0: None}, {"0": np.zeros(64, np.uint8)}, {0.5: np.zeros(9)}, [1]])
def test_buffers_that_are_no_arrays_are_refused(buffers):
    with pytest.raises(BadInput, match="buffer"):
        Batch(chain(), buffers=buffers)


def test_buffers_of_objects_or_beyond_the_tables_are_refused():
    with pytest.raises(BadInput, match="buffer"):
        Batch(chain(), buffers={0: np.zeros(64, object)})
    with pytest.raises(BadInput, match="buffer"):
        Batch(dataclasses.replace(chain(), buffer_bytes=np.zeros(0, np.int64)), buffers={0: np.zeros(64, np.uint8)})
