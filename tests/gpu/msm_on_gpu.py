"""Runs plans on a device for the tests: upload, submit, read, finish; and bucket sums for comparison."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise

import numpy as np

from whet.errors import WrongAnswer
from whet.gpu.running import run as run_program
from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.point import R
from whet.msm.webgpu.finish import finish, upload_points, upload_scalars, window_sums
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan import build


class Subject:
    """Points of known logarithms with scalars, and the answer."""

    def __init__(self, logs, scalars):
        self.logs, self.scalars = logs, scalars
        self.n = len(logs)
        self.points = make.points_from_logs(make.to_limbs(logs))
        self.limbs = make.to_limbs(scalars)

    @classmethod
    def of(cls, profile, n, seed=1):
        return cls(make.to_ints(make.logs(profile, n, seed)), make.to_ints(make.scalars(profile, n, seed + 1)))

    @cached_property
    def expected(self):
        return known_multiples(self.logs, self.scalars).to_bytes()

    def part(self, first, size):
        """These points as residents, with the scalars of `size` of them from `first` on."""
        made = Subject.__new__(Subject)
        made.logs, made.scalars = self.logs[first : first + size], self.scalars[first : first + size]
        made.n, made.points, made.limbs = size, self.points, self.limbs[first : first + size]
        return made


@contextmanager
def loaded(device, subject, choice, **given):
    """A plan with its buffers on the device, points written."""
    plan = build(subject.n, choice, resident=len(subject.points), **given)
    buffers = device.allocate(plan.program)
    try:
        x, y = upload_points(subject.points, glv=choice.glv)
        device.write(buffers["points_x"], x)
        device.write(buffers["points_y"], y)
        yield plan, buffers
    finally:
        for buffer in buffers.values():
            device.release(buffer)


def run(device, plan, buffers, subject):
    """The answer in bytes, none where it is refused, and the work counters."""
    planes = upload_scalars(subject.limbs, geometry=plan.geometry)
    run_program(device, plan.program, plan.scalars(planes))
    result = device.read(buffers["result"])
    return answered(plan, result), plan.counters(result)


def answered(plan, result):
    """The point of a result in bytes, empty if it is refused for a part that is off the curve."""
    try:
        return finish(plan.geometry, window_sums(plan.geometry, result))[0].tobytes()
    except WrongAnswer:
        return b""


def compute(device, subject, choice=None, **given):
    choice = choice or Choice()
    with loaded(device, subject, choice, **given) as (plan, buffers):
        return run(device, plan, buffers, subject)


def additions(subject, c):
    """Additions that the bucket sums need, and buckets of a single point: from Python's own signed digits."""
    counts = Counter()
    for scalar in subject.scalars:
        # s = sum of 2^(cw) (round(s / 2^(cw)) - 2^c round(s / 2^(c(w+1)))), halves rounded up.
        rounded = [scalar % R, *((scalar % R + (1 << (low - 1))) >> low for low in range(c, 256 + c, c))]
        digits = [here - (above << c) for here, above in pairwise(rounded)]
        assert sum(digit << c * window for window, digit in enumerate(digits)) == scalar % R
        counts.update((window, abs(digit)) for window, digit in enumerate(digits) if digit)
    sizes = list(counts.values())
    return sum(size - 1 for size in sizes), sizes.count(1)


def bucket_sums(device, subject, choice, **given):
    """The bucket sums of every batch, one after the other, as words."""
    found = []
    with loaded(device, subject, choice, **given) as (plan, buffers):
        planes = upload_scalars(subject.limbs, geometry=plan.geometry)
        for one in plan.batches:
            batch = one.batch
            device.write(buffers["scalars"], planes[batch.first_word : batch.first_word + batch.words])
            device.submit(one.to_buckets)
            size = 64 * batch.windows * plan.geometry.columns
            found.append(device.read(buffers["buckets"], size_bytes=size))
            device.submit(one.to_result)
    return np.concatenate(found)


def tasks_of(counts, most_tasks, least_additions=16):
    """The walk of every task in Python: pieces as (task, bucket, first point, end, kind).

    `test_every_point_of_every_bucket_is_walked_once` shows that it covers every point once, and
    `test_tasks_are_those_of_the_model` that the tasks of a GPU are these.
    """
    starts, before = [], 0
    for count in counts:
        starts.append(before)
        before += count - 1
    tasks = min(-(-before // least_additions), most_tasks)
    share, extra = divmod(before, tasks)
    for task in range(tasks):
        first = task * share + min(task, extra)
        left = (task + 1) * share + min(task + 1, extra) - first
        bucket = max(b for b, start in enumerate(starts) if start <= first)
        point = first - starts[bucket]
        split = point > 0
        point += split
        while left:
            taken = min(left + (not split), counts[bucket] - point)
            left -= taken - (not split)
            end = point + taken
            kind = "whole" if not split else "head"
            yield task, bucket, point, end, kind if end == counts[bucket] else "tail"
            bucket, point, split = bucket + 1, 0, False
