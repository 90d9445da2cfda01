"""Runs plans on a device for the tests: upload, submit, read, finish; and bucket sums for comparison."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from whet.errors import WrongAnswer
from whet.gpu.running import run as run_program
from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.point import R
from whet.msm.webgpu import bucket_probe as probe
from whet.msm.webgpu.bucket_model import digits
from whet.msm.webgpu.finish import finish, upload_scalars, window_sums
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
    with probe.loaded(device, plan, subject.points) as buffers:
        yield plan, buffers


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
        found = digits(scalar % R, c, -(-256 // c))
        assert sum(digit << c * window for window, digit in enumerate(found)) == scalar % R
        counts.update((window, abs(digit)) for window, digit in enumerate(found) if digit)
    sizes = list(counts.values())
    return sum(size - 1 for size in sizes), sizes.count(1)


def bucket_sums(device, subject, choice, **given):
    """The bucket sums of every batch, one after the other, as words."""
    with loaded(device, subject, choice, **given) as (plan, buffers):
        batches = probe.stepped(device, plan, buffers, subject.limbs)
        return np.concatenate([probe.bucket_words(device, plan, buffers, one) for one in batches])
