"""A million tasks from Python over random views, against numpy doing the same in order; and many threads."""

from __future__ import annotations

import itertools
import random
import threading

import numpy as np
import pytest

from whet.graph import In, InOut, NativeBody, Runtime
from whet.graph.bodies import NUMBA_SIGNATURE, resolve

numba = pytest.importorskip("numba")

POLICIES = ("wired", "polling", "hybrid")
TASKS = 1_000_000
ARRAYS, WORDS, LONGEST, WIDEST = 4, 768, 12, 3
PYTHON_EVERY = 16
SEED = 20261117


@numba.cfunc(NUMBA_SIGNATURE)
def advance(tensors, scalars, user):
    """target = target * factor + source, which no two tasks may do in another order."""
    items, source_step, target_step, factor = scalars[0], scalars[1], scalars[2], scalars[3]
    source = numba.carray(tensors[0], (WORDS,), np.uint64)
    target = numba.carray(tensors[1], (WORDS,), np.uint64)
    for at in range(items):
        target[at * target_step] = target[at * target_step] * factor + source[at * source_step]
    return 0


def step(source, target, factor):
    np.multiply(target, factor, out=target)
    np.add(target, source, out=target)


def drawn(tasks: int) -> list[tuple[int, ...]]:
    """Per task: two different arrays, and of each where the view begins and how wide its steps are; items; factor."""
    draw = np.random.default_rng(SEED)
    source = draw.integers(0, ARRAYS, tasks)
    target = (source + draw.integers(1, ARRAYS, tasks)) % ARRAYS
    items = draw.integers(1, LONGEST, tasks)
    steps = draw.integers(1, WIDEST + 1, (2, tasks))
    begins = (draw.random((2, tasks)) * (WORDS - items * steps)).astype(np.int64)
    factor = draw.integers(3, 1 << 62, tasks) | 1
    columns = (source, begins[0], steps[0], target, begins[1], steps[1], items, factor)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def start() -> list[np.ndarray]:
    return [np.random.default_rng(SEED + n).integers(0, 2**64 - 1, WORDS, np.uint64) for n in range(ARRAYS)]


def in_order(plan: list[tuple[int, ...]]) -> list[np.ndarray]:
    arrays = start()
    for a, i, k, b, j, m, n, factor in plan:
        target = arrays[b][j : j + n * m : m]
        target *= np.uint64(factor)
        target += arrays[a][i : i + n * k : k]
    return arrays


def submitted(rt: Runtime, body: NativeBody, plan: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Every sixteenth has a Python body, and every other of those gets its views backwards."""
    arrays = start()
    submit = rt.submit
    for at, (a, i, k, b, j, m, n, factor) in enumerate(plan):
        source, target = arrays[a][i : i + n * k : k], arrays[b][j : j + n * m : m]
        if at % PYTHON_EVERY:
            submit(body, In(source), InOut(target), n, k, m, factor)
        elif at % (2 * PYTHON_EVERY):
            submit(step, In(source[::-1]), InOut(target[::-1]), np.uint64(factor))
        else:
            submit(step, In(source), InOut(target), np.uint64(factor))
    rt.wait()
    return arrays


@pytest.mark.timeout(900)
def test_a_million_tasks_leave_what_numpy_leaves(tried):
    plan = drawn(TASKS)
    expected = in_order(plan)
    body = resolve(advance)
    for policy in POLICIES:
        with Runtime(policy=policy, workers=3, window=4096) as rt:
            found = submitted(rt, body, plan)
            totals = rt.totals()
        assert totals["completed"] == TASKS and totals["failed"] == totals["cancelled"] == 0
        assert totals["edges"] > TASKS
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(own, other)
        tried("tasks over random views", TASKS)


def test_the_comparison_notices_two_tasks_in_the_wrong_order():
    plan = drawn(2000)
    expected = in_order(plan)
    pairs = (
        at for at in range(len(plan) - 1) if plan[at][3] == plan[at + 1][0]
    )  # the second reads what the first wrote
    swapped = 0
    for at in itertools.islice(pairs, 200):
        other = [*plan[:at], plan[at + 1], plan[at], *plan[at + 2 :]]
        swapped += any((a != b).any() for a, b in zip(in_order(other), expected, strict=True))
    assert swapped > 2


THREADS = 8
ROUNDS = 400


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.timeout(300)
def test_eight_threads_submit_to_eight_runtimes(policy, tried):
    """Each thread to each runtime, in an order of its own. What a thread does with its own memory keeps its order; what
    all do with common memory happens once each."""
    runtimes = [Runtime(policy=policy, workers=2, window=64) for _ in range(THREADS)]
    own = np.zeros((THREADS, THREADS, 4), np.uint64)
    common = np.zeros((THREADS, 3), np.uint64)
    body = resolve(advance)
    failures: list[BaseException] = []

    def count(view):
        view += np.uint64(1)

    def submit(thread: int) -> None:
        order = random.Random(SEED + thread)
        one = np.ones(4, np.uint64)
        try:
            for number in range(ROUNDS):
                for which in order.sample(range(THREADS), THREADS):
                    rt, mine = runtimes[which], own[which, thread]
                    rt.submit(body, In(one), InOut(mine), 4, 1, 1, 2 * number + 3)
                    rt.submit(count, InOut(common[which]))
                if number % 50 == 49:
                    runtimes[order.randrange(THREADS)].wait()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rt in runtimes:
        with rt:
            rt.wait()
    assert failures == []
    expected = 0
    for number in range(ROUNDS):
        expected = (expected * (2 * number + 3) + 1) % 2**64
    assert (own == np.uint64(expected)).all()
    assert (common == THREADS * ROUNDS).all()
    tried("tasks of many threads", 2 * THREADS * THREADS * ROUNDS)
