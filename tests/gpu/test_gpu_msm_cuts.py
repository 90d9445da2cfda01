"""Which cuts into batches the planner sees, and that what it takes is within every limit: pure Python, no device."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from whet.errors import DeviceOutOfMemory
from whet.gpu import Pass
from whet.gpu.adapter import BROWSER_FLOOR
from whet.msm.webgpu.cuts import BINDING, GROUPS, Cuts
from whet.msm.webgpu.estimate import estimated_ns, least_ns
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.memory import SPARE, fit, memory_map, ways
from whet.msm.webgpu.passes import to_buckets, to_result
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import buffer_sizes, total_bytes

REQUESTS = 10_000
CHOICES = (
    Choice(),
    Choice("gpu_plain"),
    Choice("coop", g=8),
    Choice("pairs", g=8),
    Choice(glv=True),
    Choice(slots=16, scratch="device", tpb=256),
    Choice(threads=65536),
    Choice(c=16),
    Choice(c=4),
)


def drawn(rng):
    """Sizes over all magnitudes; more often than not with many vectors, and with a budget around what they need."""
    log_vectors = rng.uniform(0, 12) if rng.random() < 0.7 else 0
    n, vectors = round(2 ** rng.uniform(0, min(22, 23 - log_vectors))), round(2**log_vectors)
    offset, beyond = (rng.randrange(0, 2000) if rng.random() < 0.5 else 0 for _ in range(2))
    resident = offset + n + beyond
    choice = rng.choice(CHOICES)
    if rng.random() < 0.1:
        choice = replace(choice, batches=rng.randint(1, 64))
    needed = 100 * resident + vectors * (33_000 + 32 * n)
    budget = round(needed * rng.uniform(0.9, 4)) if rng.random() < 0.5 else None
    return Request(n, choice, resident, offset, vectors, budget)


def test_every_dispatch_and_buffer_is_within_the_browsers_limits(tried):
    rng = random.Random(14)
    planned = 0
    for _ in range(REQUESTS):
        request = drawn(rng)
        try:
            geometry = fit(request)
        except DeviceOutOfMemory as refused:
            assert refused.cure
            continue
        planned += 1
        last = geometry.all_windows - (geometry.batch_count - 1) * geometry.batch_windows
        assert 1 <= last <= geometry.batch_windows
        for windows in {geometry.batch_windows, last}:
            for one in (*to_buckets(geometry, request.choice, windows), *to_result(geometry, windows)):
                assert 1 <= min(one.workgroups) <= max(one.workgroups) <= BROWSER_FLOOR[GROUPS], (request, one)
        sizes = buffer_sizes(geometry, request.choice, request.resident)
        assert 0 < min(sizes.values()) <= max(sizes.values()) <= BROWSER_FLOOR[BINDING], request
        if request.memory_budget is not None:
            assert total_bytes(geometry, request.choice, request.resident) <= request.memory_budget
    assert planned > REQUESTS // 2
    tried("plans within the browser's limits", planned)


@pytest.mark.parametrize(("n", "vectors"), [(1, 1100), (128, 1000), (3, 2000), (5000, 30)])
def test_programs_for_many_vectors_are_within_them_too(n, vectors):
    """The recorded passes themselves, and equal to what the planner looked at."""
    plan = build(n, vectors=vectors)
    recorded = [step for step in plan.program.steps if isinstance(step, Pass)]
    assert max(max(step.workgroups) for step in recorded) <= BROWSER_FLOOR[GROUPS]
    expected = [
        (one.name, one.workgroups)
        for batch in plan.geometry.batches
        for one in (
            *to_buckets(plan.geometry, plan.request.choice, batch.windows),
            *to_result(plan.geometry, batch.windows),
        )
    ]
    assert [(step.name, step.workgroups) for step in recorded] == expected
    rows = {row.name: row.size_bytes for row in memory_map(n, vectors=vectors)}
    assert rows.pop("staging") == plan.result_bytes
    assert rows == dict(plan.program.buffers)


def test_what_no_cut_can_hold_is_typed():
    with pytest.raises(DeviceOutOfMemory, match="20,000 vectors"):
        fit(Request(1, resident=1, vectors=20_000))
    with pytest.raises(DeviceOutOfMemory, match="65,535 workgroups"):
        fit(Request(1, Choice(batches=1), 1, vectors=1100))


def test_the_cuts_are_all_there_are():
    """Against every number of batches one by one, as slowly as that is."""
    for request in (
        Request(300, resident=300, memory_budget=1 << 30),
        Request(100, Choice("gpu_plain", c=5), 100, vectors=7),
        Request(3000, Choice(glv=True), 3000, vectors=3),
    ):
        cuts = Cuts(request)
        windows = cuts.whole.all_windows
        for sliced in (False, True) if cuts.may_slice else (False,):
            every = {replace(cuts.whole, batch_count=count, sliced=sliced) for count in range(1, windows + 1)}
            found = list(cuts.of(sliced=sliced))
            assert set(found) == every
            assert [one.batch_count for one in found] == sorted(one.batch_count for one in every)
        assert len({way.geometry for way in ways(request)}) == len(ways(request))


def test_the_fastest_cut_that_fits_is_taken(tried):
    """The search stops early; nothing that it leaves out may be better."""
    rng = random.Random(3)
    for _ in range(150):
        n = rng.choice((1, 40, 300, 5000))
        request = Request(n, rng.choice(CHOICES), n, 0, rng.choice((1, 2, rng.randint(1, 40))), 1 << 40)
        every = ways(request)
        request = replace(request, memory_budget=rng.choice(every).total_bytes)
        best = min((way for way in every if way.total_bytes <= request.memory_budget), key=lambda way: way.order)
        assert fit(request) == best.geometry
        for way in every:
            assert least_ns(way.geometry, request.choice) <= estimated_ns(way.geometry, request.choice)
        tried("memory budgets")


def test_a_thousand_vectors_are_planned_at_once():
    """By what is looked at, not by the clock; the clock only tells minutes from moments."""
    start = time.monotonic()
    plan = build(128, vectors=1000)
    assert time.monotonic() - start < 20
    assert plan.geometry.all_windows > 50_000
    assert len(list(Cuts(plan.request).of())) < 2 * plan.geometry.all_windows**0.5


def test_results_larger_than_the_scratch_do_not_cut_a_sum_to_pieces():
    """Nothing is within the default then; the leanest of all would have a hundred batches and more."""
    request = Request(12, resident=12, vectors=3900)
    leanest = min(ways(request), key=lambda way: way.total_bytes)
    geometry = fit(request)
    assert leanest.geometry.batch_count > 100
    assert geometry.batch_count < 20
    assert total_bytes(geometry, request.choice, request.resident) <= SPARE * leanest.total_bytes
