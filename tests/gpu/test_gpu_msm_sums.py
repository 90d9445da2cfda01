"""The MSM on a WebGPU device: points against the known-multiples oracle, buckets against one thread per bucket.

Buffers start as poison, so a read before a write shows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msm_on_gpu import Subject, additions, bucket_sums, compute, loaded, run

from whet.msm import inputs as make
from whet.msm.point import R
from whet.msm.webgpu.bucket_model import tasks_of
from whet.msm.webgpu.geometry import MIN_TASK_ADDITIONS
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.layout import TALLY, TALLY_WORDS
from whet.msm.webgpu.memory import memory_map
from whet.msm.webgpu.plan import build

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

PLAIN = Choice("gpu_plain")
WALKER = Choice("walker")
COOP = Choice("coop", g=8)
PAIRS = Choice("pairs", g=8)
BOTH = pytest.mark.parametrize("choice", [WALKER, COOP], ids=["walker", "coop"])
ALL = pytest.mark.parametrize("choice", [WALKER, COOP, PAIRS], ids=["walker", "coop", "pairs"])


@ALL
def test_sizes(shared_device, choice, tried):
    for n in (1, 2, 3, 255, 256, 257, 1000, 4095, 4096):
        subject = Subject.of("random", n, seed=n)
        answer, work = compute(shared_device, subject, choice)
        assert answer == subject.expected, n
        plan = build(n, choice)
        assert (work["accumulated"] + work["combined"], work["single"]) == additions(subject, plan.geometry.window_bits)
        assert work["rounds"] > 0 or n < 4
        # A round to begin, one per addition of the longest task, and none more: not even for a task that begins with
        # the last point of a bucket.
        total = work["accumulated"] + work["combined"]
        tasks = min(plan.geometry.max_tasks, -(-total // MIN_TASK_ADDITIONS))
        assert work["rounds"] <= -(-total // max(tasks, 1)) + 1
    tried("sums on a GPU", 9)


@ALL
@pytest.mark.parametrize("profile", ["random", "D", "E"])
def test_tasks_are_those_of_the_model(shared_device, choice, profile, tried):
    """How many tasks there are, and which of them left a bucket unfinished: tags against `tasks_of` in Python."""
    subject = Subject.of(profile, 700)
    asked = replace(choice, batches=1, threads=64)
    with loaded(shared_device, subject, asked) as (plan, buffers):
        answer, work = run(shared_device, plan, buffers, subject)
        tally = shared_device.read(buffers["tally"])
        dense = shared_device.read(buffers["dense"]).reshape(-1, 4)[: tally[TALLY["DENSE"]]]
    assert answer == subject.expected
    pieces = list(tasks_of(dense[:, 2].tolist(), plan.geometry.max_tasks, MIN_TASK_ADDITIONS))
    assert tally[TALLY["TASKS"]] == 1 + max(task for task, *_ in pieces) > 1
    tags = {task: bucket + 1 for task, bucket, _, _, kind in pieces if kind == "tail"}
    found = tally[TALLY_WORDS:][: tally[TALLY["TASKS"]]]
    assert {task: int(tag) for task, tag in enumerate(found) if tag} == tags
    assert len(tags) == work["partials"]
    tried("tasks of a GPU against the model", len(found))


@BOTH
def test_many_points(shared_device, choice, tried):
    subject = Subject.of("random", 1 << 14)
    assert compute(shared_device, subject, choice)[0] == subject.expected
    tried("sums on a GPU")


@ALL
@pytest.mark.parametrize("profile", ["collide", "multiples", "progression", "duplicates", "opposites", "infinities"])
def test_points_that_meet(shared_device, choice, profile, tried):
    """Doublings, cancellations and infinities in every stage, and in every batch of windows."""
    subject = Subject.of(profile, 300)
    few = Choice(choice.accumulator, g=choice.g, threads=64, batches=2)
    assert compute(shared_device, subject, few)[0] == subject.expected
    assert np.array_equal(bucket_sums(shared_device, subject, few), _plain_buckets(shared_device, subject, few))
    tried("adversarial cases", 2)


@BOTH
def test_scalar_profiles(shared_device, choice, tried):
    profiles = ["A", "B", "C", "D", "E", "zeros", "ones", "equal", "bits01", "bits32", "sparse", "clustered", "edges"]
    for profile in profiles:
        subject = Subject.of(profile, 500)
        assert compute(shared_device, subject, choice)[0] == subject.expected, profile
    tried("adversarial cases", len(profiles))


def test_scalars_at_the_end_of_the_range(shared_device, tried):
    for scalar in (R - 1, R, R + 1, 2**256 - 1, 0, 1):
        subject = Subject(make.to_ints(make.logs("random", 40, 5)), [scalar] * 40)
        assert compute(shared_device, subject)[0] == subject.expected, scalar
    tried("adversarial cases", 6)


@ALL
def test_one_bucket_that_holds_everything(shared_device, choice, tried):
    """Its chain of partial sums goes over many tasks and two levels of combining; the points collide as well."""
    subject = Subject(list(range(1, 3001)), [1] * 3000)
    answer, work = compute(shared_device, subject, choice)
    assert answer == subject.expected
    assert work["partials"] > 64
    assert work["combined"] == work["partials"]
    tried("adversarial cases")


def test_every_number_of_batches(shared_device, tried):
    subject = Subject.of("B", 1 << 10)
    windows = build(subject.n, Choice(c=10)).geometry.all_windows
    for batches in range(1, windows + 1):
        answer, _ = compute(shared_device, subject, Choice(c=10, batches=batches))
        assert answer == subject.expected, batches
    tried("sums on a GPU", windows)


@pytest.mark.parametrize("batches", [2, 3])
def test_batches_of_many_points(shared_device, batches, tried):
    subject = Subject.of("C", 1 << 14)
    assert compute(shared_device, subject, Choice(batches=batches))[0] == subject.expected
    tried("sums on a GPU")


def test_slices_of_the_scalars(shared_device, tried):
    """A budget too small for all scalars: each batch brings the planes that it reads."""
    subject = Subject.of("edges", 1000)
    small = Choice(threads=64)
    windows = build(subject.n, small).geometry.all_windows
    maps = [memory_map(subject.n, replace(small, batches=batches)) for batches in range(1, windows + 1)]
    budget = min(sum(row.size_bytes for row in rows) for rows in maps) - 1
    assert build(subject.n, small, memory_budget=budget).sliced
    assert compute(shared_device, subject, small, memory_budget=budget)[0] == subject.expected
    tried("sums on a GPU")


@pytest.mark.parametrize(
    "choice",
    [
        Choice(tpb=96),
        Choice(tpb=160, slots=2),
        Choice("coop", tpb=96, g=32),
        Choice("coop", tpb=160, g=160),
        Choice("coop", g=1),
        Choice("coop", g=64),
        Choice("pairs", tpb=96, slots=4, g=1),
        Choice("pairs", tpb=32, slots=1, g=16, glv=True),
        Choice(slots=1, scratch="device"),
        Choice(slots=16, tpb=32, scratch="workgroup"),
        Choice(glv=True),
    ],
    ids=lambda c: f"{c.accumulator}-tpb{c.tpb}-{c.slots}-{c.scratch}-g{c.g}{'-glv' if c.glv else ''}",
)
def test_knobs(shared_device, choice, tried):
    """Workgroups that do not divide the tasks, every placement of the prefixes, every way to share an inversion."""
    for profile, n in (("random", 700), ("collide", 300)):
        subject = Subject.of(profile, n)
        answer, work = compute(shared_device, subject, choice)
        assert answer == subject.expected, profile
        assert work["accumulated"] > 0
        assert work["inversions"] > 0
    tried("sums on a GPU", 2)


def test_pairs_has_the_rounds_that_the_digits_need_and_none_too_few(shared_device, monkeypatch, tried):
    """No digit is zero and every window has one bucket: as many additions as a batch can have. One round less shows."""
    digits = sum((1 + window % 7) << 5 * window for window in range(51))
    subject = Subject(make.to_ints(make.logs("random", 300, 5)), [digits] * 300)
    choice = Choice("pairs", g=4, c=5, threads=64)
    geometry = build(subject.n, choice).geometry
    answer, work = compute(shared_device, subject, choice)
    assert answer == subject.expected
    assert work["rounds"] == 1 + geometry.most_rounds(geometry.all_windows)
    sound = type(geometry).most_rounds
    monkeypatch.setattr(type(geometry), "most_rounds", lambda self, windows: sound(self, windows) - 1)
    assert compute(shared_device, subject, choice)[0] != subject.expected
    tried("planted faults")


def test_wide_windows_go_through_the_histogram_in_chunks(shared_device, tried):
    subject = Subject.of("random", 200)
    assert compute(shared_device, subject, Choice(c=14, batches=4))[0] == subject.expected
    tried("sums on a GPU")


def test_a_part_of_the_resident_points(shared_device, tried):
    residents = Subject.of("random", 600)
    for first, size in ((0, 100), (17, 555), (599, 1)):
        part = residents.part(first, size)
        for choice in (Choice(threads=64), Choice(threads=64, glv=True)):
            assert compute(shared_device, part, choice, offset=first)[0] == part.expected, (first, size)
    tried("sums on a GPU", 6)


@BOTH
def test_twenty_repeats_are_equal(shared_device, choice, tried):
    """The order within a bucket is that of the atomics; canonical sums do not depend on it."""
    subject = Subject.of("collide", 400)
    seen = {bucket_sums(shared_device, subject, choice).tobytes() for _ in range(20)}
    assert seen == {_plain_buckets(shared_device, subject, choice).tobytes()}
    tried("sums on a GPU", 20)


def test_a_plan_serves_many_calls(shared_device, tried):
    """Nothing of one call shows in the next: tags, partial sums and buckets of more work before less."""
    with loaded(shared_device, Subject.of("random", 500), WALKER) as (plan, buffers):
        for profile in ("random", "E", "zeros", "ones", "random", "sparse"):
            subject = Subject.of("random", 500)
            subject.limbs = make.scalars(profile, 500, 9)
            subject.scalars = make.to_ints(subject.limbs)
            assert run(shared_device, plan, buffers, subject)[0] == subject.expected, profile
    tried("sums on a GPU", 6)


def _plain_buckets(device, subject, choice):
    return bucket_sums(device, subject, Choice("gpu_plain", batches=choice.batches))
