"""Functions made tasks by `@task`: directions from annotations, the open runtime, compilation."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest
from graph_scripts import printed

from whet.errors import BadInput
from whet.graph import In, InOut, NoDep, Out, Reads, Runtime, Task, TaskFailed, Updates, Writes, task

Floats = npt.NDArray[np.float64]


@task
def copy(source: Reads, target: Writes) -> None:
    assert not source.flags.writeable
    target[:] = source


@task
def scale(values: Updates, by: float = 2.0) -> float:
    values *= by
    return float(values.sum())


@task
def mixed(
    a: Annotated[Floats, In], b: Annotated[Floats, "some other mark", InOut], c: Annotated[Floats, NoDep]
) -> None:
    b += a + c


def test_directions_come_from_the_annotations():
    a, b = np.arange(4.0), np.zeros(4)
    with Runtime(workers=2, record_edges=True) as rt:
        first = rt.submit(scale, a)
        second = rt.submit(copy, a, b)
        third = rt.submit(scale, b, 10.0)
        reader = rt.submit(copy, b, np.zeros(4))
        fourth = rt.submit(scale, b)
        rt.wait()
        assert first.result() == 12.0 and third.result() == 120.0 and second.name == "copy"
        edges = {(producer, consumer) for producer, consumer, _ in rt.recorded_edges()}
    assert {(first.id, second.id), (second.id, third.id), (third.id, reader.id), (reader.id, fourth.id)} <= edges
    assert b.tolist() == [0.0, 40.0, 80.0, 120.0]


def test_a_direction_may_stand_beside_a_type_and_other_marks():
    a, b, c = np.ones(2), np.ones(2), np.ones(2)
    with Runtime(workers=2, record_edges=True) as rt:
        rt.submit(scale, a)
        rt.submit(scale, c, 5.0)
        rt.wait()
        task = rt.submit(mixed, a, b, c)
        again = rt.submit(scale, c)
        rt.wait()
        assert (task.id, again.id) not in {(p, q) for p, q, _ in rt.recorded_edges()}
    assert b.tolist() == [8.0, 8.0]


def test_an_argument_with_a_direction_keeps_it():
    a = np.ones(3)
    with Runtime(workers=2) as rt:
        made = rt.submit(copy, a, Out(3))
        doubled = rt.submit(scale, made)
        assert doubled.result() == 6.0 and made.outputs[0].tolist() == [2.0] * 3
        assert rt.submit(scale, In(a)).exception().__cause__.__class__ is ValueError
        with pytest.raises(TaskFailed):
            rt.wait()


def test_a_call_is_submitted_where_a_runtime_is_open_and_runs_elsewhere():
    a = np.ones(2)
    assert scale(a) == 4.0
    with Runtime(workers=2):
        outer = scale(a)
        with Runtime(workers=1) as inner:
            task = scale(np.ones(2))
            assert isinstance(task, Task) and task._runtime is inner
        assert isinstance(outer, Task) and scale(a).result() == 16.0 and outer._runtime is not inner
    assert scale(a) == 32.0


def test_a_call_in_a_body_runs_and_other_threads_have_no_open_runtime():
    seen = []
    with Runtime(workers=1) as rt:  # the body runs on the thread that has opened it
        seen.append(rt.submit(lambda: scale(np.ones(2))).result())
        thread = threading.Thread(target=lambda: seen.append(scale(np.ones(3))))
        thread.start()
        thread.join()
    assert seen == [4.0, 6.0]


def test_what_cannot_be_made_a_task_is_said_where_it_is_written():
    with pytest.raises(BadInput, match="not a int"):
        task(5)
    with pytest.raises(BadInput, match="annotations of lost"):

        @task
        def lost(a: NoSuchName) -> None: ...  # noqa: F821

    with Runtime(workers=1) as rt, pytest.raises(BadInput, match="not a numpy array"):
        rt.submit(scale, [1, 2])


numba = pytest.importorskip("numba")


@task(numba=True)
def weighted(source: Reads, target: Updates, weight: float, times: int, negate: bool) -> None:
    for _ in range(times):
        for i in range(source.shape[0]):
            for j in range(source.shape[1]):
                target[i, j] += -weight * source[i, j] if negate else weight * source[i, j]


@task(numba=True)
def first_below(values: Reads, limit: int) -> None:
    for value in values:
        if value >= limit:
            raise ValueError("too large")


def test_a_compiled_function_gets_shapes_types_and_values():
    generator = np.random.default_rng(5)
    with Runtime(workers=2) as rt:
        for dtype in (np.float64, np.float32):
            source = generator.integers(0, 50, (3, 5)).astype(dtype)
            target = np.ones((3, 5), dtype)
            task = rt.submit(weighted, source, target, 0.5, 3, True)
            rt.submit(weighted, source, target, 0.25, np.int64(2), False)
            rt.wait()
            assert task._call is None and task.name == "weighted"
            np.testing.assert_array_equal(target, 1 - source)
    assert len(weighted._bodies) == 2
    plain = np.zeros((1, 1))
    weighted(np.ones((1, 1)), plain, 2.0, 1, False)
    assert plain[0, 0] == 2.0


def test_a_compiled_function_that_raises_fails_its_task():
    with Runtime(workers=2) as rt:
        good, bad = rt.submit(first_below, np.arange(4), 4), rt.submit(first_below, np.arange(5), 4)
        assert good.exception() is None and bad.exception().status == 1
        with pytest.raises(TaskFailed, match="first_below"):
            rt.wait()


def test_what_cannot_be_compiled_is_typed():
    @task(numba=True)
    def odd(values: Reads) -> Any:
        return no_such_function(values)  # noqa: F821

    with Runtime(workers=1) as rt:
        with pytest.raises(BadInput, match="cannot compile odd"):
            rt.submit(odd, np.zeros(2))
        with pytest.raises(BadInput, match="view with gaps"):
            rt.submit(first_below, np.arange(8)[::2], 4)
        with pytest.raises(BadInput, match="without axes"):
            rt.submit(first_below, np.array(5), 4)
        with pytest.raises(BadInput, match="gets a str"):
            rt.submit(first_below, np.arange(8), "4")


def test_without_numba_the_error_says_so():
    lines = printed(
        """
        from whet.errors import Unsupported
        sys.modules["numba"] = None
        try:
            @task(numba=True)
            def body(a: Reads): ...
        except Unsupported as error:
            print("pip install numba" in error.cure)
        """
    )
    assert lines == ["True"]


def test_the_form_type_checks(tmp_path):
    """mypy accepts right calls of the library's names and refuses a wrong use of an array."""
    source = tmp_path / "typed.py"
    source.write_text(
        "from whet.graph import Reads, Runtime, Writes, task\n"
        "import numpy as np\n\n"
        "@task\n"
        "def copy(source: Reads, target: Writes) -> None:\n"
        "    target[:] = source\n"
        "    source.no_such_method()\n\n"
        "with Runtime() as rt:\n"
        "    rt.submit(copy, np.zeros(2), np.zeros(2)).result(1.0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", source],  # with the settings and the cache of `make lint`
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("error:") == 1 and "no_such_method" in done.stdout, done.stdout + done.stderr
