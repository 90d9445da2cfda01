"""Many sums over the same points: each thread takes whole sums, and nothing else changes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from whet._native import msm as native

from whet.errors import BadInput, Cancelled, DeviceOutOfMemory
from whet.msm import Engine, Point, inputs
from whet.msm.affine import Affine
from whet.msm.oracle import known_multiples

BACKENDS = native.backends()
N = 420
LOGS = inputs.logs("random", N, 3)
POINTS = inputs.points_from_logs(LOGS)
KNOWN = inputs.to_ints(LOGS)
VECTORS = [inputs.scalars(inputs.PROFILES[i % len(inputs.PROFILES)], N, 50 + i) for i in range(9)]
SUMS = [known_multiples(KNOWN, inputs.to_ints(vector)) for vector in VECTORS]


def engine(**options) -> Engine:
    return Engine(POINTS, montgomery=True, check=False, variant="affine", **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_count_gives_the_sums_in_order(backend, threads, tried):
    with Engine(POINTS, montgomery=True, check=False, backend=backend, threads=threads) as made:
        for count in range(len(VECTORS) + 1):
            assert made.batch(VECTORS[:count]) == SUMS[:count]
            tried("sums in batches", count)


@pytest.mark.parametrize("n", [0, 1, 5, 100])
def test_few_points_and_views(n):
    with engine(threads=2) as made:
        part = [vector[:n] for vector in VECTORS[:5]]
        want = [known_multiples(KNOWN[7 : 7 + n], inputs.to_ints(vector)) for vector in part]
        assert made.view(7, n).batch(part) == want


def workers(made: Affine, vectors: list[np.ndarray]) -> list[int]:
    return [work["workers"] for _, work in made.run_batch(vectors, 0)]


def test_a_thread_takes_whole_sums_where_there_are_enough():
    made = Affine.prepared(POINTS, threads=2)
    assert workers(made, VECTORS[:1]) == [2]
    assert workers(made, VECTORS[:2]) == [1, 1]
    assert workers(made, VECTORS[:5]) == [1, 1, 1, 1, 2]  # what is left over is done by all
    assert workers(Affine.prepared(POINTS, threads=1), VECTORS[:2]) == [1, 1]
    assert workers(Affine.prepared(POINTS, threads=3), VECTORS[:2]) == [3, 3]
    made.set_budget(1 << 30)
    assert workers(made, VECTORS[:4]) == [2, 2, 2, 2]


def test_rooms_are_one_call_for_each_thread_and_are_given_back():
    made = Affine.prepared(POINTS, threads=2)
    alone = Affine.prepared(POINTS, threads=1)
    alone.run(VECTORS[0], 0)
    made.run_batch(VECTORS[:1] * 4, 0)
    one, both = alone.ledger(), made.ledger()
    assert both == {name: (1 if name == "prepared points" else 2) * size for name, size in one.items()}
    made.trim()
    assert {name: size for name, size in made.ledger().items() if size} == {"prepared points": 64 * N}


def test_an_allocation_that_fails_is_told_and_the_next_batch_is_right():
    made = Affine.prepared(POINTS, threads=2)
    failures = 0
    for at in range(0, 40, 3):
        made._native.fail_allocation_after(at)
        try:
            made.run_batch(VECTORS[:4], 0)
        except DeviceOutOfMemory:
            failures += 1
        made._native.fail_allocation_after(-1)
        got = [Point.from_bytes(limbs.tobytes()) for limbs, _ in made.run_batch(VECTORS[:4], 0)]
        assert got == SUMS[:4]
        made.trim()
    assert failures >= 10


def test_cancel_ends_a_batch_and_close_lets_it_answer():
    points = inputs.points_from_logs(inputs.logs("random", 20_000, 1))
    vectors = [inputs.scalars("random", 20_000, seed) for seed in range(2)] * 20
    made = Affine.prepared(points, threads=2)
    timer = threading.Timer(0.05, made.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        made.run_batch(vectors, 0)
    timer.join()
    closer = threading.Timer(0.02, made.close)
    closer.start()
    answers = made.run_batch(vectors[:4], 0)
    closer.join()
    assert np.array_equal(answers[0][0], answers[2][0]) and not np.array_equal(answers[0][0], answers[1][0])
    with pytest.raises(BadInput, match="closed"):
        made.run_batch(vectors[:1], 0)


def test_vectors_of_other_lengths_are_refused():
    with engine(threads=2) as made, pytest.raises(BadInput):
        made.batch([VECTORS[0], VECTORS[1][:-1]])
    with pytest.raises(BadInput, match="lengths"):
        Affine.prepared(POINTS).run_batch([VECTORS[0], VECTORS[1][:-1]], 0)


def test_with_multiples_and_within_a_budget():
    for options in ({"precompute": 8}, {"memory_budget": 1 << 26}, {"precompute": 4, "memory_budget": 1 << 26}):
        with engine(threads=2, **options) as made:
            assert made.batch(VECTORS) == SUMS


def test_many_calls_at_once_have_a_thread_each_and_one_alone_has_all():
    made = Affine.prepared(POINTS, threads=2)
    workers: list[int] = []

    def calling(number: int) -> None:
        for _ in range(10):
            limbs, told = made.run(VECTORS[number], 0)
            assert Point.from_bytes(limbs.tobytes()) == SUMS[number]
            workers.append(told["workers"])

    with ThreadPoolExecutor(4) as callers:
        list(callers.map(calling, range(4)))
    assert len(workers) == 40 and workers.count(1) > 20
    assert made.run(VECTORS[0], 0)[1]["workers"] == 2
    made.set_budget(2**26)  # with a budget there is one call at a time
    with ThreadPoolExecutor(4) as callers:
        told = [one for _, one in callers.map(lambda _: made.run(VECTORS[0], 0), range(8))]
    assert {one["workers"] for one in told} == {2}
